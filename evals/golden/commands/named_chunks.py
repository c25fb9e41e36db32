"""The flags that name the pages or the collection that golden data are about, and its chunks."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evals.config.folders import named_folders
from retrievers.config import RetrieverConfig
from retrievers.config.layers import add_flags, build, environment_layer, file_layer, flag_layer
from retrievers.terminal.command import path_argument

if TYPE_CHECKING:
    from retrievers.records import Chunk


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
