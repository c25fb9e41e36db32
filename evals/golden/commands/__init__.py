"""The subcommands of `python -m evals.golden`, each with its flags and `run`; here what several of them share."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

from evals.config.folders import named_folders
from retrievers.config import RetrieverConfig
from retrievers.config.layers import add_flags, build, environment_layer, file_layer, flag_layer
from retrievers.terminal.command import Parser, path_argument, print_out
from retrievers.text.printable import json_text

if TYPE_CHECKING:
    from retrievers.records import Chunk

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


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as JSON Lines, one object a line."""
    return "".join(json_text(row) + "\n" for row in rows)


def add_chunk_flags(command: argparse.ArgumentParser) -> None:
    """Add `--docs`, `--base-url`, `--config` and the retriever's settings."""
    command.add_argument("--docs", type=path_argument, metavar="DIR", help="pages that the evidence is in")
    command.add_argument("--base-url", default="/docs", help="what addresses of --docs begin with (default: /docs)")
    command.add_argument("--config", type=path_argument, metavar="FILE", help="experiment or retriever settings")
    add_flags(command, RetrieverConfig)


def named_settings(namespace: argparse.Namespace, env: Mapping[str, str]) -> tuple[RetrieverConfig, bool]:
    """Return the retriever's settings, and True if pages or a collection are named.

    Raises:
        ConfigError: A setting has a fault.
    """
    flags = flag_layer(namespace, RetrieverConfig)
    layers = [environment_layer(env)]
    if namespace.config:
        layers.append(file_layer(namespace.config, RetrieverConfig, named_folders(env)))
    named = namespace.docs or namespace.config or {"store", "collection", "python"} & flags.values.keys()
    return build(RetrieverConfig, [*layers, flags]), bool(named)


def named_chunks(namespace: argparse.Namespace, config: RetrieverConfig, env: Mapping[str, str]) -> "list[Chunk]":
    """Return the chunks of the pages, or else of the collection.

    Raises:
        RetrievalError: They cannot be read.
    """
    from evals.golden.listed_chunks import chunked_pages, listed_chunks

    return chunked_pages(namespace.docs, namespace.base_url)[1] if namespace.docs else listed_chunks(config, env)
