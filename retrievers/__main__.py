"""`python -m retrievers search | index | inspect`."""

from collections.abc import Sequence

from retrievers.terminal import start


def main(arguments: Sequence[str] | None = None, prog: str = "python -m retrievers") -> int:
    """Parse and run; return the exit code. Usage and errors call the command `prog`."""
    # Its imports take half a second, in which Ctrl-C is to end the command with a line.
    from retrievers.terminal.commands import main as parse_and_run

    return parse_and_run(arguments, prog)


if __name__ == "__main__":
    start("retrievers.__main__:main")
