"""`python -m retrievers search | index | inspect`."""

from retrievers.terminal import start

if __name__ == "__main__":
    # The import of the commands takes half a second. Meanwhile Ctrl-C must end the process with a line (see `start`).
    start("retrievers.terminal.commands:main")
