"""Whether what came back is the source's own text, says nothing twice, and is what the case expects."""

import re
from collections.abc import Callable, Sequence
from itertools import combinations

from evals.collect.observations import Observation, Score, Unscored
from evals.config import patterns
from evals.golden.evidence import normalise
from evals.golden.source_pages import SourcePage
from evals.metrics.base import Context, QueryMetric, Scorer, each
from evals.metrics.metadata import NO_CHUNKS, NO_SOURCES
from retrievers.records import Chunk

OVERLAP_CHARACTERS = 40
"""Two chunks of a page overlap when the end of one is the beginning of the other for at least this many characters."""


def _share_in_source(observation: Observation, context: Context, holds: Callable[[SourcePage, Chunk], bool]) -> Score:
    if context.sources is None:
        return NO_SOURCES
    if not observation.selection:
        return NO_CHUNKS
    chunks = [found.chunk for found in observation.selection]
    pages = [(context.sources.page_of(chunk), chunk) for chunk in chunks]
    return sum(page is not None and holds(page, chunk) for page, chunk in pages) / len(chunks)


def verbatim(observation: Observation, context: Context) -> Score:
    """Share of the returned chunks whose text stands in their source page, white space aside, 0 to 1."""
    return _share_in_source(observation, context, lambda page, chunk: any(page.places(chunk.text)))


def heading_in_source(observation: Observation, context: Context) -> Score:
    """Share of the returned chunks whose heading is one of their source page, 0 to 1."""
    return _share_in_source(observation, context, lambda page, chunk: chunk.heading in page.headings)


def overlap(observation: Observation, _: Context) -> Score:
    """Share of the pairs of returned chunks that overlap: one holds the other, or ends as the other begins, 0 to 1."""
    chunks = [found.chunk for found in observation.selection]
    pairs = list(combinations([(chunk.source_url, normalise(chunk.text)) for chunk in chunks], 2))
    if not pairs:
        return Unscored(reason="fewer than two chunks were returned")
    return sum(one == other and texts_overlap(a, b) for (one, a), (other, b) in pairs) / len(pairs)


def texts_overlap(a: str, b: str) -> bool:
    """Whether one text holds the other, or one ends with at least 40 characters that the other begins with."""
    if a in b or b in a:
        return True
    longest = min(len(a), len(b))
    return any(a.endswith(b[:size]) or b.endswith(a[:size]) for size in range(longest, OVERLAP_CHARACTERS - 1, -1))


def duplicate_rate(observation: Observation, _: Context) -> Score:
    """Share of the returned chunks that repeat an earlier one, by id or by text, 0 to 1."""
    if not observation.selection:
        return NO_CHUNKS
    ids, texts, repeated = set(), set(), 0
    for found in observation.selection:
        text = normalise(found.chunk.text)
        repeated += found.chunk.chunk_id in ids or text in texts
        ids.add(found.chunk.chunk_id)
        texts.add(text)
    return repeated / len(observation.selection)


def topic_match(observation: Observation, _: Context) -> Score:
    """Share of the case's expected topics that occur in the returned chunks (text, headings, tags), 0 to 1.

    A topic occurs where a word begins with it, so that `topic` is found in `topics`, but not `rlds` in `worlds`.
    """
    topics = observation.case.expected_topics
    if not topics:
        return Unscored(reason="the case names no topics")
    text = " ".join(
        " ".join([c.chunk.text, c.chunk.section_path or "", *(c.chunk.tags or ())]) for c in observation.selection
    )
    lowered = normalise(text).lower()
    return sum(bool(re.search(rf"(?<!\w){re.escape(topic.lower())}", lowered)) for topic in topics) / len(topics)


def section_match(observation: Observation, _: Context) -> Score:
    """Share of the sections (page and heading) the evidence names from which a chunk was returned, 0 to 1."""
    wanted = {(e.source_url, e.heading) for e in observation.case.evidence if e.heading and e.source_url}
    if not wanted:
        return Unscored(reason="the case names no sections")
    found = {
        (c.chunk.source_url, heading)
        for c in observation.selection
        for heading in {c.chunk.heading, *(c.chunk.section_path or "").split(" > ")}
    }
    return len(wanted & found) / len(wanted)


def source_match(observation: Observation, _: Context) -> Score:
    """1 if a returned chunk's address matches the case's pattern, else 0."""
    pattern = observation.case.source_url_pattern
    if not pattern:
        return Unscored(reason="the case names no source pattern")
    return float(any(patterns.found(pattern, hit.chunk.source_url or "") for hit in observation.selection))


def where_named(score: Callable[[Observation, Context], Score], *fields: str) -> Scorer:
    """A scorer that has nothing to say where no chunk found in the whole run carries one of some fields.

    Then they are not in the metadata (or not mapped), which tells nothing of the content. One chunk that has them is
    enough for those without to count as wrong.
    """
    reason = Unscored(reason=f"no chunk found carries {' or '.join(fields)}")

    def scorer(observations: Sequence[Observation], context: Context) -> Sequence[Score]:
        found = [candidate.chunk for o in observations for candidate in o.candidates.chunks]
        if found and not any(getattr(chunk, name) for chunk in found for name in fields):
            return [reason] * len(observations)
        return each(score)(observations, context)

    return scorer


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(name="content/verbatim", scope="all", interval="mean",
                score=where_named(verbatim, "source_url", "file_path"),
                about="share of returned chunks whose text stands in their source page"),
    QueryMetric(name="content/heading_in_source", scope="all", interval="mean",
                score=where_named(heading_in_source, "heading"),
                about="share of returned chunks whose heading is one of their source page"),
    QueryMetric(name="content/overlap", scope="all", interval="mean", score=each(overlap),
                about="share of pairs of returned chunks that overlap"),
    QueryMetric(name="content/duplicate_rate", scope="all", interval="mean", score=each(duplicate_rate),
                about="share of returned chunks that repeat an earlier one"),
    QueryMetric(name="content/topic_match", scope="in_scope", interval="mean", score=each(topic_match),
                about="share of the expected topics that occur in the result"),
    QueryMetric(name="content/section_match", scope="in_scope", interval="mean",
                score=where_named(section_match, "heading", "section_path"),
                about="share of the evidence's sections from which a chunk was returned"),
    QueryMetric(name="content/source_match", scope="in_scope", interval="proportion",
                score=where_named(source_match, "source_url"),
                about="queries with a result from a page that matches the expected pattern"),
)  # fmt: skip
