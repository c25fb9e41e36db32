"""`python -m evals.compare`: runs against a baseline."""

import sys

from evals.compare.command import main

if __name__ == "__main__":
    sys.exit(main())
