"""`python -m evals.run`: one experiment or grid."""

from retrievers.terminal import start

if __name__ == "__main__":
    start("evals.run.command:main")
