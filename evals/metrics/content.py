"""Content of the results: verbatim text of the source, without repeats, with the expected topics."""

import re
from collections.abc import Callable
from itertools import combinations

from evals.collect.observations import Observation, Score, Unscored
from evals.config import patterns
from evals.golden.evidence import normalise
from evals.golden.source_pages import SourcePage
from evals.metrics.base import Context, QueryMetric, each, where_named
from evals.metrics.declaration import LABELS
from evals.metrics.metadata import NO_CHUNKS, NO_SOURCES
from retrievers.records import Chunk

# Two chunks of a page overlap when the end of one is the beginning of the other for at least this many characters.
OVERLAP_CHARACTERS = 40
TOO_FEW_CHUNKS = Unscored(reason="fewer than two chunks were returned")
NO_TOPICS = Unscored(reason="the case names no topics")
NO_SECTIONS = Unscored(reason="the case names no sections")
NO_PATTERN = Unscored(reason="the case names no source pattern")


def _share_in_source(observation: Observation, context: Context, holds: Callable[[SourcePage, Chunk], bool]) -> Score:
    if context.sources is None:
        return NO_SOURCES
    if not observation.selection:
        return NO_CHUNKS
    chunks = observation.selection.chunks
    pages = [(context.sources.page_of(chunk), chunk) for chunk in chunks]
    return sum(page is not None and holds(page, chunk) for page, chunk in pages) / len(chunks)


def verbatim(observation: Observation, context: Context) -> Score:
    """Return the share of the returned chunks whose text is in their source page, ignoring white space, 0 to 1."""
    return _share_in_source(observation, context, lambda page, chunk: any(page.occurrences(chunk.text)))


def heading_in_source(observation: Observation, context: Context) -> Score:
    """Return the share of the returned chunks whose heading is one of their source page, 0 to 1."""
    return _share_in_source(observation, context, lambda page, chunk: chunk.heading in page.headings)


def overlap(observation: Observation, _: Context) -> Score:
    """Share of the pairs of returned chunks that overlap: one holds the other, or ends as the other begins, 0 to 1."""
    chunks = observation.selection.chunks
    pairs = list(combinations([(chunk.source_url, normalise(chunk.text)) for chunk in chunks], 2))
    if not pairs:
        return TOO_FEW_CHUNKS
    return sum(first == other and texts_overlap(a, b) for (first, a), (other, b) in pairs) / len(pairs)


def texts_overlap(a: str, b: str) -> bool:
    """Return True if one text holds the other, or one ends with at least 40 characters that the other begins with."""
    if a in b or b in a:
        return True
    longest = min(len(a), len(b))
    return any(a.endswith(b[:size]) or b.endswith(a[:size]) for size in range(longest, OVERLAP_CHARACTERS - 1, -1))


def duplicate_rate(observation: Observation, _: Context) -> Score:
    """Return the share of the returned chunks that repeat an earlier one, by id or by text, 0 to 1."""
    if not observation.selection:
        return NO_CHUNKS
    ids, texts, repeated = set(), set(), 0
    for chunk in observation.selection.chunks:
        text = normalise(chunk.text)
        repeated += chunk.chunk_id in ids or text in texts
        ids.add(chunk.chunk_id)
        texts.add(text)
    return repeated / len(observation.selection)


def unique_sections(observation: Observation, _: Context) -> Score:
    """Return the number of distinct sections (page and section path) over that of the returned chunks, 0 to 1."""
    chunks = observation.selection.chunks
    if not chunks:
        return NO_CHUNKS
    return len({(chunk.source_url, chunk.section_path or chunk.heading) for chunk in chunks}) / len(chunks)


def topic_match(observation: Observation, _: Context) -> Score:
    """Return the share of the case's expected topics that occur in the returned chunks (text, headings, tags), 0 to 1.

    A topic occurs where a word begins with it, so that `topic` is found in `topics`, but not `rlds` in `worlds`.
    """
    topics = observation.case.expected_topics
    if not topics:
        return NO_TOPICS
    text = " ".join(" ".join([c.text, c.section_path or "", *(c.tags or ())]) for c in observation.selection.chunks)
    lowered = normalise(text).lower()
    return sum(bool(re.search(rf"(?<!\w){re.escape(topic.lower())}", lowered)) for topic in topics) / len(topics)


def section_match(observation: Observation, _: Context) -> Score:
    """Return the share of the evidence's sections (page and heading) with a returned chunk, 0 to 1."""
    sections = {(e.source_url, e.heading) for e in observation.case.relevant_evidence if e.heading and e.source_url}
    if not sections:
        return NO_SECTIONS
    returned = {
        (c.source_url, heading)
        for c in observation.selection.chunks
        for heading in {c.heading, *(c.section_path or "").split(" > "), *(c.chunk_headings or ())}
    }
    return len(sections & returned) / len(sections)


def source_match(observation: Observation, _: Context) -> Score:
    """Return 1 if a returned chunk's address matches the case's pattern, else 0."""
    pattern = observation.case.source_url_pattern
    if not pattern:
        return NO_PATTERN
    return float(any(patterns.found(pattern, chunk.source_url or "") for chunk in observation.selection.chunks))


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(name="content/verbatim", scope="all", interval="mean",
                score=where_named(verbatim, "source_url", "file_path"), needs=frozenset({"sources"}),
                about="share of returned chunks whose text stands in their source page"),
    QueryMetric(name="content/heading_in_source", scope="all", interval="mean",
                score=where_named(heading_in_source, "heading"), needs=frozenset({"sources"}),
                about="share of returned chunks whose heading is one of their source page"),
    QueryMetric(name="content/overlap", scope="all", interval="mean", score=each(overlap),
                about="share of pairs of returned chunks that overlap", direction="lower"),
    QueryMetric(name="content/duplicate_rate", scope="all", interval="mean", score=each(duplicate_rate),
                about="share of returned chunks that repeat an earlier one", direction="lower"),
    QueryMetric(name="content/unique_sections", scope="all", interval="mean", headline="never",
                score=where_named(unique_sections, "section_path", "heading"),
                about="distinct sections among the returned chunks, divided by these"),
    QueryMetric(name="content/topic_match", scope="in_scope", interval="mean", score=each(topic_match),
                about="share of the expected topics that occur in the result"),
    QueryMetric(name="content/section_match", scope="in_scope", interval="mean",
                score=where_named(section_match, "heading", "section_path"), needs=LABELS,
                about="share of the evidence's sections from which a chunk was returned"),
    QueryMetric(name="content/source_match", scope="in_scope", interval="proportion",
                score=where_named(source_match, "source_url"),
                about="queries with a result from a page that matches the expected pattern"),
)  # fmt: skip
