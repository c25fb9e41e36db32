"""`python -m evals.golden`: golden queries."""

from retrievers.terminal import start

if __name__ == "__main__":
    start("evals.golden.command:main")
