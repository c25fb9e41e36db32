"""The subcommands of `python -m evals.golden`: each adds its flags and `run`, which returns the exit code."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TypeAlias

from retrievers.terminal.command import Parser, print_out

# Cosine from which on two queries count as nearly the same.
NEAR = 0.85
Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"


def say(namespace: argparse.Namespace, lines: Sequence[str]) -> int:
    """Print lines, unless nothing but errors is wanted; return the exit code of success."""
    if not namespace.quiet:
        print_out("\n".join(lines))
    return 0


def next_of_unlabelled(count: int, file: Path) -> str:
    """Return what to do with cases that lack their evidence."""
    return (
        f"  {count} of them are without evidence, so that only a judge can score their results (python -m evals.run "
        f"--dataset.path {file} --judge.model PROVIDER:MODEL); or let people judge what a retriever finds (python -m "
        f"evals.golden label {file} --config EXPERIMENT), or add the passages that answer each (evidence or "
        f"relevant_ids), or in_scope: false; then: python -m evals.golden validate {file}"
    )


def validation(file: Path, namespace: argparse.Namespace) -> str:
    """Return the command that checks a golden file, in the pages or the collection that this command was given."""
    named = [f" --{name} {quote(str(path))}" for name in ("docs", "config") if (path := vars(namespace).get(name))]
    return f"python -m evals.golden validate {quote(str(file))}{''.join(named[:1])}"


def cosine_argument(text: str) -> float:
    """Parse a cosine above 0.

    Raises:
        ArgumentTypeError: It is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a cosine above 0, of at most 1, got {text!r}")
    return value
