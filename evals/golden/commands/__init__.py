"""The subcommands of `python -m evals.golden`: each adds its flags and `run`, which returns the exit code."""

import argparse
from collections.abc import Sequence
from typing import TypeAlias

from retrievers.terminal.command import Parser, print_out

Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"


def say(namespace: argparse.Namespace, lines: Sequence[str]) -> int:
    """Print lines, unless nothing but errors is wanted; return the exit code of success."""
    if not namespace.quiet:
        print_out("\n".join(lines))
    return 0
