"""`golden init`: cases for a person to fill in, from a collection's own chunks, or from queries that were traced."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evals.config.files import check_writable, write
from evals.errors import DatasetError
from evals.golden.chunks import (
    Embed,
    chunked_pages,
    collection_name,
    embedder,
    json_lines,
    listed_chunks,
    next_check,
    next_of_unlabelled,
    page_of,
    prose,
    readable,
    retriever_settings,
    say,
    spread,
)
from retrievers.config import MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS, RetrieverConfig
from retrievers.config.languages import words
from retrievers.embedding.models import make_embeddings
from retrievers.records import Chunk

QUOTE_WORDS = 60
MOST_TRACES = 10_000
GROUPS_SHOWN = 5


def init(namespace: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        DatasetError: The file exists, or there is nothing to begin with.
    """
    check_new(namespace.out, force=namespace.force)
    if namespace.traces:
        return _init_from_traces(namespace)
    config, env, _ = retriever_settings(namespace)
    docs: Path | None = namespace.docs
    chunks = chunked_pages(docs, namespace.base_url)[1] if docs else listed_chunks(config, env)
    rows = skeletons(chunks, namespace.count, namespace.out_of_scope, namespace.seed)
    if not rows or not chunks:
        raise DatasetError(f"{docs or collection_name(config)} holds no chunk with text")
    write(namespace.out, json_lines(rows))
    line = (
        f"{namespace.out}: {len(rows)} skeleton cases out of {len(chunks)} chunks; write a query and an answer "
        f"into each, shorten the quote to what answers it, then: {next_check(namespace.out, namespace)}"
    )
    return say(namespace, [line])


def check_new(file: Path, *, force: bool) -> None:
    """Make sure that a file can be written, and that it is no other one.

    Raises:
        DatasetError: It exists already, and is not to be replaced.
    """
    check_writable(file)
    if file.exists() and not force:
        raise DatasetError(f"{file}: exists already; name another file with --out, or replace it with --force")


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
    turns, order = Counter[str](), list[tuple[int, Chunk]]()
    for chunk in spread(readable(chunks), seed):
        order.append((turns[page_of(chunk)], chunk))
        turns[page_of(chunk)] += 1
    chosen = [chunk for _, chunk in sorted(order, key=lambda entry: entry[0])][:count]
    inside = [_in_scope(f"case-{number:03}", chunk) for number, chunk in enumerate(chosen, 1)]
    outside = [
        {"id": f"out-{number:03}", "query": "", "in_scope": False, "query_type": "near_domain"}
        for number in range(1, out_of_scope + 1)
    ]
    return [case | {"split": ("dev", "test")[number % 2]} for number, case in enumerate(inside + outside)]


def clusters(queries: Sequence[str], embed: Embed, near: float) -> list[list[str]]:
    """Return groups of queries, the most frequent group first; in each the most frequent wording first.

    Queries of the same words are one. Then each joins the most frequent one that it is near to.

    Args:
        queries: Queries, repeated as often as they were asked.
        embed: Queries to vectors of length 1.
        near: Cosine from which on two queries ask the same.
    """
    wordings: dict[tuple[str, ...], Counter[str]] = {}
    for query in queries:
        wordings.setdefault(tuple(words(query)) or (query,), Counter())[query] += 1
    groups = sorted(wordings.values(), key=lambda wording: (-wording.total(), min(wording)))
    if not groups:
        return []
    vectors = embed([wording.most_common(1)[0][0] for wording in groups])
    leads, leaders, joined = np.zeros_like(vectors), list[int](), list[Counter[str]]()
    for number, wording in enumerate(groups):
        cosines = leads[: len(leaders)] @ vectors[number]
        best = int(np.argmax(cosines)) if leaders else -1
        if leaders and cosines[best] >= near:
            joined[best] += wording
            continue
        leads[len(leaders)] = vectors[number]
        leaders.append(number)
        joined.append(Counter(wording))
    ordered = sorted(joined, key=lambda counts: (-counts.total(), min(counts)))
    return [[query for query, count in counts.most_common() for _ in range(count)] for counts in ordered]


def _init_from_traces(namespace: argparse.Namespace) -> int:
    from evals.tracking import read_queries

    queries = read_queries(namespace.traces, namespace.uri, most=MOST_TRACES)
    usable = [q for q in queries if len(q) <= MAX_QUERY_CHARACTERS and len(q.split()) <= MAX_QUERY_WORDS]
    embed = embedder(make_embeddings(RetrieverConfig.model_validate({}).embedding, {}))
    groups = clusters(usable, embed, namespace.near)
    rows = [
        {"id": f"case-{number:03d}", "query": group[0], "tags": ["traced"]} for number, group in enumerate(groups, 1)
    ]
    write(namespace.out, json_lines(rows))
    too_long = [f"  {len(queries) - len(usable)} too long to be golden queries"] if len(usable) < len(queries) else []
    return say(
        namespace,
        [
            f"{namespace.out}: {len(rows)} skeletons of {len(queries)} traced queries, the most frequent first",
            *(f"  {len(group)} × {group[0]!r}" for group in groups[:GROUPS_SHOWN]),
            *too_long,
            next_of_unlabelled(len(rows), namespace.out),
        ],
    )


def _in_scope(case_id: str, chunk: Chunk) -> dict[str, Any]:
    quote = " ".join((prose(chunk.text) or chunk.text).split()[:QUOTE_WORDS])
    evidence = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote, "grade": 3}
    return {
        "id": case_id, "query": "", "reference_answer": None, "query_type": "factual",
        "evidence": [{name: value for name, value in evidence.items() if value is not None}],
    }  # fmt: skip
