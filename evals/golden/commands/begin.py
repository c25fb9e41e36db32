"""`golden init`: skeletons of cases from a collection's own chunks, for a person to fill in."""

import argparse
import os
from pathlib import Path

from evals.config.files import check_writable, write
from evals.golden.commands import Subcommands, say, validation
from evals.golden.json_lines import json_lines
from retrievers.config import RetrieverConfig
from retrievers.config.layers import add_flags, build, environment, environment_layer, file_layer, flag_layer
from retrievers.terminal.command import add_logging_flags, path_argument, whole_number


def add_init(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    init = commands.add_parser("init", help="begin golden data", description="Sample chunks into cases to fill in.")
    init.add_argument(
        "--out", type=path_argument, default=Path("golden.jsonl"), metavar="FILE", help="default: golden.jsonl"
    )
    init.add_argument("--count", type=whole_number(1), default=40, metavar="N", help="in-scope cases (default: 40)")
    init.add_argument(
        "--out-of-scope", type=whole_number(0), default=10, metavar="N", help="cases out of scope (default: 10)"
    )
    init.add_argument("--seed", type=whole_number(0), default=0, help="of the choice (default: 0)")
    init.add_argument("--force", action="store_true", help="replace the file if it exists")
    init.add_argument("--config", type=path_argument, metavar="FILE", help="retriever settings as YAML")
    add_flags(init, RetrieverConfig)
    add_logging_flags(init)
    init.set_defaults(run=_init)


def _init(namespace: argparse.Namespace) -> int:
    from evals.errors import DatasetError
    from evals.golden.listed_chunks import collection_name, listed_chunks
    from evals.golden.skeletons import skeletons

    check_writable(namespace.out)
    if namespace.out.exists() and not namespace.force:
        raise DatasetError(f"{namespace.out}: exists already; name another file with --out, or replace it with --force")
    env = environment(os.environ)
    layers = [environment_layer(env), *([file_layer(namespace.config, RetrieverConfig)] if namespace.config else [])]
    config = build(RetrieverConfig, [*layers, flag_layer(namespace, RetrieverConfig)])
    chunks = listed_chunks(config, env)
    rows = skeletons(chunks, namespace.count, namespace.out_of_scope, namespace.seed)
    if not rows or not chunks:
        raise DatasetError(f"{collection_name(config)} holds no chunk with text")
    write(namespace.out, json_lines(rows))
    line = (
        f"{namespace.out}: {len(rows)} skeleton cases out of {len(chunks)} chunks; write a query and an answer "
        f"into each, shorten the quote to what answers it, then: {validation(namespace.out, namespace)}"
    )
    return say(namespace, [line])
