"""`python -m evals.run`: one experiment or grid."""

import sys

from evals.run.command import main

if __name__ == "__main__":
    sys.exit(main())
