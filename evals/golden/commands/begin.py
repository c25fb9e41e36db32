"""`golden init`: skeletons of cases from a collection's own chunks, for a person to fill in."""

import argparse
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals.config.files import check_writable, write
from evals.golden.commands import Subcommands, json_lines, say, validation
from evals.golden.prose import prose
from retrievers.config import RetrieverConfig
from retrievers.config.layers import add_flags, build, environment, environment_layer, file_layer, flag_layer
from retrievers.records import Chunk
from retrievers.terminal.command import add_logging_flags, path_argument, whole_number

QUOTE_WORDS = 60


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


def skeletons(chunks: Sequence[Chunk], count: int, out_of_scope: int, seed: int) -> list[dict[str, Any]]:
    """Return cases with evidence but an empty query, spread over as many pages as possible.

    The evidence quotes prose of a chunk. Chunks without any, such as code and lists of references, are passed over, but
    in a collection that has no others.

    Args:
        chunks: Chunks of the collection.
        count: Number of in-scope cases; fewer if there are fewer chunks.
        out_of_scope: Number of out-of-scope cases to add, empty but for their id.
        seed: Seed of the choice.
    """
    readable = [chunk for chunk in chunks if prose(chunk.text)] or [chunk for chunk in chunks if chunk.text.strip()]
    chosen = _spread(readable, count, random.Random(seed))
    inside = [_in_scope(f"case-{number:03}", chunk) for number, chunk in enumerate(chosen, 1)]
    outside = [
        {"id": f"out-{number:03}", "query": "", "in_scope": False, "query_type": "near_domain"}
        for number in range(1, out_of_scope + 1)
    ]
    cases = inside + outside
    return [case | {"split": ("dev", "test")[index % 2]} for index, case in enumerate(cases)]


def _spread(chunks: Sequence[Chunk], count: int, rng: random.Random) -> list[Chunk]:
    pages: dict[str, list[Chunk]] = {}
    for chunk in sorted(chunks, key=lambda c: c.chunk_id):
        pages.setdefault(chunk.source_url or chunk.file_path or chunk.chunk_id, []).append(chunk)
    queues = [rng.sample(page, len(page)) for _, page in sorted(pages.items())]
    rng.shuffle(queues)
    rounds = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(rounds) for queue in queues if turn < len(queue)][:count]


def _in_scope(case_id: str, chunk: Chunk) -> dict[str, Any]:
    case: dict[str, Any] = {"id": case_id, "query": "", "reference_answer": None, "query_type": "factual"}
    quote = " ".join((prose(chunk.text) or chunk.text).split()[:QUOTE_WORDS])
    evidence = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote, "grade": 3}
    return case | {"evidence": [{key: value for key, value in evidence.items() if value is not None}]}
