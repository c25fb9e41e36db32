"""Metadata of the returned chunks: completeness, and accuracy against the source pages."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evals.cases.pages import SourcePages
from evals.collect.observations import Unscored
from evals.collect.pool import Pool
from evals.metrics.declaration import Context, Scorer
from evals.metrics.results import Results, Values
from evals.metrics.texts import NO_SOURCES
from retrievers.config.retriever import REQUIRED_METADATA
from retrievers.records import Chunk

HASHES = {32: "md5", 40: "sha1", 64: "sha256"}
# Number of chunks of each query, and of all queries together, that are read to find the usual fields.
BEST = 3
SAMPLE = 256


def usual_in(pool: Pool) -> tuple[str, ...]:
    """Return the fields of `REQUIRED_METADATA` that at least nine tenths of the best chunks of the queries have.

    A field that some chunks lack by mistake is then missed. A field that the collection was made without is not.
    """
    codes = pool.tables[0].codes[:, :BEST]
    chunks = [pool.chunks[code] for code in codes[codes >= 0][:SAMPLE].tolist()]
    counts = {name: sum(getattr(chunk, name) not in (None, "") for chunk in chunks) for name in REQUIRED_METADATA}
    return tuple(name for name, count in counts.items() if chunks and 10 * count >= 9 * len(chunks))


def completeness(r: Results, context: Context) -> Values:
    """Return the mean over the returned chunks of the share of required fields that are present and valid, 0 to 1."""

    def valid_share(chunk: Chunk) -> float:
        return 1 - len(missing_fields(chunk, context.required)) / len(context.required) if context.required else np.nan

    return r.mean_of_chunks("completeness", valid_share, none=Unscored(reason="no metadata field is required"))


def accuracy(r: Results, context: Context) -> Values:
    """Return the mean over the returned chunks of the share of required fields that equal those of the page, 0 to 1.

    Fields that the page does not show are not compared. A chunk whose page does not exist counts 0. A chunk without any
    field to compare is left out.
    """

    def right_share(chunk: Chunk) -> float:
        wrong, compared = wrong_fields(chunk, context.required, context.sources) if context.sources else ([], 0)
        return 1 - len(wrong) / compared if compared else np.nan

    none = Unscored(reason="no required field can be compared with the source pages")
    return r.mean_of_chunks("accuracy", right_share, (context.sources is None, NO_SOURCES), none=none)


def missing_fields(chunk: Chunk, required: Sequence[str]) -> list[str]:
    """Return the required fields that a chunk lacks or holds with the wrong type, each with what was found."""
    problems = {problem.partition(":")[0]: problem for problem in chunk.problems}
    return [problems.get(name, f"{name}: missing") for name in required if getattr(chunk, name) in (None, "")]


def wrong_fields(chunk: Chunk, required: Sequence[str], sources: SourcePages) -> tuple[list[str], int]:
    """Return the required fields whose value differs from that of the source page, and how many could be compared.

    Every field that the page shows is compared: address, title, tags, position, file, heading, section and lines. The
    hash of the text is compared by the algorithm that its length implies. If the page does not exist, one of one is
    wrong.

    Raises:
        SourcePageError: The page cannot be read.
    """
    page = sources.page_of(chunk)
    if page is None:
        return [f"source page: {chunk.file_path or chunk.source_url!r} does not exist"], 1
    expected: dict[str, Any] = page.facts(chunk)
    algorithm = HASHES.get(len(chunk.content_hash or ""))
    if algorithm:
        expected["content_hash"] = hashlib.new(algorithm, chunk.text.encode(), usedforsecurity=False).hexdigest()
    compared = [name for name in required if name in expected and getattr(chunk, name) is not None]
    wrong = [
        f"{name}: expected {expected[name]!r} as in the page, got {getattr(chunk, name)!r}"
        for name in compared
        if getattr(chunk, name) != expected[name]
    ]
    return wrong, len(compared)


SCORES: Mapping[str, Scorer] = {"metadata/completeness": completeness, "metadata/accuracy": accuracy}
