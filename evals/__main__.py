"""`retrieval-evals COMMAND`, or `python -m evals COMMAND`: all commands under one name."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pkgutil import resolve_name
from typing import NoReturn

from retrievers.errors import nearest
from retrievers.terminal import start

PROG = "retrieval-evals"
RETRIEVERS = "retrievers.terminal.commands:main"
# Name of each command to what it does, and to its function as `module:function`.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run golden queries through a retriever, score what comes back", "evals.run:main"),
    "compare": ("compare runs with a baseline", "evals.compare:main"),
    "ui": ("show the runs in MLflow's user interface", "evals.tracking.__main__:show"),
    "tracking": ("complete the MLflow run of a kept report", "evals.tracking.__main__:main"),
    "golden": ("check, import, begin and write golden queries", "evals.golden.command:main"),
    "search": ("search a collection", RETRIEVERS),
    "index": ("index a folder of pages", RETRIEVERS),
    "inspect": ("look at a collection, propose a map of its payload, audit it", RETRIEVERS),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Call the command that the first argument names, with the other arguments; return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    name = parser.parse_args(words[:1]).command
    if name not in COMMANDS:
        parser.error(f"unknown command {name!r}{nearest(name, COMMANDS)}")
    _, entry = COMMANDS[name]
    # The function of `retrievers` has several commands, and reads the name of one itself.
    rest, prog = (words, PROG) if entry == RETRIEVERS else (words[1:], f"{PROG} {name}")
    code: int = resolve_name(entry)(rest, prog)
    return code


def script() -> NoReturn:
    """Run `main` as a process. From the first import on, Ctrl-C and SIGTERM end it with a line."""
    start("evals.__main__:main")


def _parser() -> argparse.ArgumentParser:
    from retrievers.terminal.command import Parser

    parser = Parser(
        prog=PROG,
        usage=f"{PROG} COMMAND ...",
        description="Choose how to retrieve from Qdrant by measurement.",
        epilog="\n".join(["commands:", *(f"  {name:8} {about}" for name, (about, _) in COMMANDS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", help=f"`{PROG} COMMAND --help` describes it")
    parser.add_argument("--version", action="version", version=f"{PROG} {version(PROG)}")
    return parser


if __name__ == "__main__":
    script()
