"""Completeness of the chunks' metadata, and its accuracy against the source pages."""

import hashlib
from collections.abc import Sequence
from itertools import islice
from statistics import fmean
from typing import Any

from evals.collect.observations import Observation, Observed, Score, Unscored
from evals.golden.source_pages import Sources
from evals.metrics.base import Context, QueryMetric, each
from retrievers.records import Chunk
from retrievers.store.payload import usual_fields

HASHES = {32: "md5", 40: "sha1", 64: "sha256"}
# Chunks of each query, and in all, that are read to find the usual fields.
BEST = 3
SAMPLE = 256
NO_SOURCES = Unscored(reason="no sources")
NO_CHUNKS = Unscored(reason="nothing was returned")


def usual_in(observed: Observed) -> tuple[str, ...]:
    """Return the usual fields that a collection has, by the best chunks found in it (see `usual_fields`)."""
    hits = (hit for observation in observed.observations for hit in islice(observation.candidates, BEST))
    return usual_fields([hit.chunk for hit in islice(hits, SAMPLE)])


def missing_fields(chunk: Chunk, required: Sequence[str]) -> list[str]:
    """Return the required fields that a chunk lacks or holds with the wrong type, each with what was found."""
    problems = {problem.partition(":")[0]: problem for problem in chunk.problems}
    return [problems.get(name, f"{name}: missing") for name in required if getattr(chunk, name) in (None, "")]


def wrong_fields(chunk: Chunk, required: Sequence[str], sources: Sources) -> tuple[list[str], int]:
    """Return the required fields whose value differs from what the source page gives, and how many could be compared.

    Every field the page can tell is compared: address, title, tags, position, file, heading, section, lines, and the
    hash of the text by the algorithm its length names. A chunk whose page does not exist is wrong: one of one.

    Raises:
        SourcePageError: Its page cannot be read.
    """
    page = sources.page_of(chunk)
    if page is None:
        origin = chunk.file_path or chunk.source_url
        return [f"source page: {origin!r} does not exist"], 1
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


def completeness(observation: Observation, context: Context) -> Score:
    """Return the mean over the returned chunks of the share of required fields that are present and valid, 0 to 1."""
    if not observation.selection:
        return NO_CHUNKS
    if not context.required:
        return Unscored(reason="no metadata field is required")
    lacking = sum(len(missing_fields(chunk, context.required)) for chunk in observation.selection.chunks)
    return 1 - lacking / (len(context.required) * len(observation.selection))


def accuracy(observation: Observation, context: Context) -> Score:
    """Return the mean share of comparable required fields that equal the page's, over the returned chunks, 0 to 1.

    A chunk whose page does not exist counts 0; one without any comparable field is left out.
    """
    if context.sources is None:
        return NO_SOURCES
    if not observation.selection:
        return NO_CHUNKS
    checked = [wrong_fields(chunk, context.required, context.sources) for chunk in observation.selection.chunks]
    shares = [1 - len(wrong) / compared for wrong, compared in checked if compared]
    return fmean(shares) if shares else Unscored(reason="no required field can be compared with the source pages")


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(
        name="metadata/completeness",
        scope="all",
        interval="mean",
        about="share of required metadata fields that are present and valid",
        score=each(completeness),
    ),
    QueryMetric(
        name="metadata/accuracy",
        scope="all",
        interval="mean",
        about="share of required metadata fields that equal what the source page gives",
        needs=frozenset({"sources"}),
        score=each(accuracy),
    ),
)
