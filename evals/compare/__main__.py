"""`python -m evals.compare`: runs against a baseline."""

from retrievers.terminal import start

if __name__ == "__main__":
    start("evals.compare.command:main")
