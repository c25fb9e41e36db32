"""`python -m evals.golden`: golden queries."""

import sys

from evals.golden.command import main

if __name__ == "__main__":
    sys.exit(main())
