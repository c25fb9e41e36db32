"""`python -m retrievers search | index | inspect`."""

from collections.abc import Sequence

from retrievers.terminal import start


def main(arguments: Sequence[str] | None = None, prog: str = "python -m retrievers") -> int:
    """Parse the arguments, run the command, and return its exit code. Messages call the command `prog`."""
    # These imports take half a second. Meanwhile Ctrl-C must end the command with a line (see `start`).
    from retrievers.terminal.commands import main as parse_and_run

    return parse_and_run(arguments, prog)


if __name__ == "__main__":
    start("retrievers.__main__:main")
