"""Metrics that read texts: ragas' comparison of strings, and checks of what the returned chunks say.

ragas compares every returned text with every relevant text in every sample, by one awaited call each. Here each pair of
a query is compared once, however many results hold it. The values equal those of ragas' own classes. Relevant texts are
those of the relevant chunks, or the quotes of the golden data if the retriever's chunks cannot be listed. An empty
result of an in-scope query scores 0. Source: ragas 0.4.3, `ragas.metrics`, `_context_precision.py`,
`_context_recall.py` and `_string.py`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from evals.cases.case import Case, found
from evals.cases.pages import SourcePage
from evals.cases.relevance import normalise
from evals.collect.observations import Unscored
from evals.collect.pool import repeated
from evals.judge.verdicts import average_precision
from evals.metrics.declaration import Context, Scorer
from evals.metrics.results import NO_CHUNKS, Results, Values, as_bits
from evals.stats.intervals import Floats, Integers
from retrievers.records import Chunk

# Texts are alike up to this normalised Levenshtein distance. For recall the distance must be below it.
FARTHEST = 0.5
# Two chunks of a page overlap when the end of one is the beginning of the other for at least this many characters.
OVERLAP_CHARACTERS = 40
NO_SOURCES = Unscored(reason="no sources")
NO_TEXTS = Unscored(reason="the texts of the relevant chunks are not known")


def string_precision(r: Results, context: Context) -> Values:
    """Return the average precision of the returned texts, 0 to 1 − 1e-10; one is relevant if like a relevant text."""
    distances, places, counts = _distances(r, context)
    is_alike = [float((to_relevant <= FARTHEST).any()) for to_relevant in distances]
    return Values.of(average_precision(np.asarray([*is_alike, np.nan])[places]), (counts == 0, NO_TEXTS))


def string_recall(r: Results, context: Context) -> Values:
    """Return the share of the relevant texts that some returned text is like, 0 to 1.

    A relevant chunk that the collection lacks counts as a text that no returned text is like.
    """
    distances, places, counts = _distances(r, context)
    close = [np.flatnonzero(to_relevant < FARTHEST).tolist() for to_relevant in distances]
    covered = r.share_covered(as_bits(close, int(counts.max(initial=0)))[places], counts)
    return Values.of(covered, (counts == 0, NO_TEXTS))


def _distances(r: Results, context: Context) -> tuple[list[Floats], Integers, Integers]:
    """Return the distances of pairs to relevant texts, the places of pairs, and each row's number of relevant texts.

    A distance is Levenshtein's over the length of the longer text; beyond `FARTHEST` it is 1. See `Results.pairs`. The
    number of relevant texts is that of each row.
    """
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    texts = context.relevant_texts
    counts = r.relevant if texts is not None else r.by_case(lambda case: len(case.quotes))
    # The cutoff avoids most of the computation.
    compare = partial(process.cdist, scorer=Levenshtein.normalized_distance, score_cutoff=FARTHEST, dtype=np.float64)

    def to_relevant(number: int, chunks: list[Chunk]) -> list[Floats]:
        if texts is None:
            relevant = r.lists.case(number).quotes
        else:
            relevant = [texts[key] for key in sorted(r.lists.relevance[number].grades) if key in texts]
        return [*compare([chunk.text for chunk in chunks], relevant)] if relevant else [np.ones(0)] * len(chunks)

    return *r.once("distances of texts", lambda: r.pairs(to_relevant)), counts


def verbatim(r: Results, context: Context) -> Values:
    """Return the share of the returned chunks whose text is in their source page, ignoring white space, 0 to 1."""
    holds = _on_page(context, lambda page, chunk: any(page.occurrences(chunk.text)))
    without_page = _without(r, "source_url", "file_path")
    return r.mean_of_chunks("verbatim", holds, without_page, (context.sources is None, NO_SOURCES))


def heading_in_source(r: Results, context: Context) -> Values:
    """Return the share of the returned chunks whose heading is one of their source page, 0 to 1."""
    holds = _on_page(context, lambda page, chunk: chunk.heading in page.headings)
    without_heading = _without(r, "heading")
    return r.mean_of_chunks("heading in source", holds, without_heading, (context.sources is None, NO_SOURCES))


def _on_page(context: Context, holds: Callable[[SourcePage, Chunk], bool]) -> Callable[[Chunk], float]:
    """Return a fact of a chunk: 1 if the condition holds for it and its source page; 0 if not, or without a page."""

    def of_chunk(chunk: Chunk) -> float:
        page = context.sources.page_of(chunk) if context.sources else None
        return float(page is not None and holds(page, chunk))

    return of_chunk


def overlap(r: Results, _: Context) -> Values:
    """Return the share of the pairs of returned chunks that overlap, 0 to 1; see `_texts_overlap`."""
    pages, size = r.by_key("page", lambda chunk: chunk.source_url), len(r.lists.pool.chunks) + 1
    rows, pairs = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for rank in range(1, r.places.shape[1]):
        row, place = np.nonzero((pages[:, :rank] == pages[:, [rank]]) & r.found[:, [rank]])
        low, high = np.sort([r.codes[row, place], r.codes[row, rank]], axis=0)
        rows.append(row)
        pairs.append(low * size + high)
    texts = r.lists.pool.tell("normalised text", lambda chunk: normalise(chunk.text), r.distinct[0])
    distinct, which = np.unique(np.concatenate(pairs), return_inverse=True)
    overlaps = np.asarray([_texts_overlap(texts[p // size], texts[p % size]) for p in distinct.tolist()], dtype=float)
    counts = np.bincount(np.concatenate(rows), overlaps[which.ravel()], len(r))
    few = Unscored(reason="fewer than two chunks were returned")
    return Values.of(counts / np.maximum(r.lengths * (r.lengths - 1) / 2, 1), (r.lengths < 2, few))


def _texts_overlap(a: str, b: str) -> bool:
    """Return True if one text holds the other, or one ends with at least 40 characters that the other begins with."""
    return a in b or b in a or _ends_as_begins(a, b) or _ends_as_begins(b, a)


def _ends_as_begins(a: str, b: str) -> bool:
    starts = (match.start() for match in re.finditer(f"(?={re.escape(b[:OVERLAP_CHARACTERS])})", a))
    return len(b) >= OVERLAP_CHARACTERS and any(b.startswith(a[start:]) for start in starts)


def duplicate_rate(r: Results, _: Context) -> Values:
    """Return the share of the returned chunks that repeat an earlier one, by id or by text, 0 to 1."""
    texts = r.by_key("normalised text", lambda chunk: normalise(chunk.text))
    again = repeated(r.lists.pool.identity[r.codes]) | repeated(texts)
    return Values.of(again.sum(axis=1) / np.maximum(r.lengths, 1), (r.lengths == 0, NO_CHUNKS))


def topic_match(r: Results, _: Context) -> Values:
    """Return the share of the case's expected topics that occur in a returned chunk (text, headings, tags), 0 to 1.

    A topic occurs where a word begins with it, so that `topic` is found in `topics`, but not `rlds` in `worlds`.
    """

    def held(number: int, chunks: list[Chunk]) -> Iterable[list[int]]:
        topics = [re.compile(rf"(?<!\w){re.escape(topic.lower())}") for topic in r.lists.case(number).expected_topics]
        for chunk in chunks:
            text = normalise(" ".join([chunk.text, chunk.section_path or "", *(chunk.tags or ())])).lower()
            yield [place for place, topic in enumerate(topics) if topic.search(text)]

    counts = r.by_case(lambda case: len(case.expected_topics))
    covered = r.share_covered(r.items(held, int(counts.max(initial=0))), counts)
    return Values.of(covered, (counts == 0, Unscored(reason="the case names no topics")))


def section_match(r: Results, _: Context) -> Values:
    """Return the share of the evidence's sections (page and heading) with a returned chunk, 0 to 1."""

    def held(number: int, chunks: list[Chunk]) -> Iterable[list[int]]:
        sections = _sections(r.lists.case(number))
        for chunk in chunks:
            of_page = ((n, heading) for n, (url, heading) in enumerate(sections) if url == chunk.source_url)
            yield [n for n, heading in of_page if heading in chunk.headings]

    counts = r.by_case(lambda case: len(_sections(case)))
    covered = r.share_covered(r.items(held, int(counts.max(initial=0))), counts)
    no_sections = Unscored(reason="the case names no sections")
    return Values.of(covered, _without(r, "heading", "section_path"), (counts == 0, no_sections))


def _sections(case: Case) -> list[tuple[str, str]]:
    """Return page and heading of the evidence, each pair once."""
    return list({(e.source_url, e.heading): None for e in case.relevant_evidence if e.heading and e.source_url})


def source_match(r: Results, _: Context) -> Values:
    """Return 1 if a returned chunk's address matches the case's pattern, else 0."""
    matched = found_in_source(r)
    no_pattern = Unscored(reason="the case names no source pattern")
    return Values.of(matched, _without(r, "source_url"), (np.isnan(matched), no_pattern))


def found_in_source(r: Results) -> Floats:
    """Return 1 if a returned chunk's address matches the case's pattern, else 0; NaN for a case without a pattern."""

    def matches(number: int, chunks: list[Chunk]) -> Iterable[float]:
        pattern = r.lists.case(number).source_url_pattern or ""
        return (float(bool(pattern) and found(pattern, chunk.source_url or "")) for chunk in chunks)

    without = r.by_case(lambda case: not case.source_url_pattern)
    return np.where(without, np.nan, (r.by_pair(matches)[0] == 1).any(axis=1))


def _without(r: Results, *fields: str) -> tuple[bool, Unscored]:
    """Return whether no found chunk has any of these fields, with the reason why then no row has a score.

    Metadata that lacks the fields, or does not map them, says nothing about the content. If one chunk has them, those
    without count as wrong.
    """
    return not r.lists.pool.carries(*fields), Unscored(reason=f"no chunk found carries {' or '.join(fields)}")


OF_CONTENT = verbatim, heading_in_source, overlap, duplicate_rate, topic_match, section_match, source_match
SCORES: Mapping[str, Scorer] = {
    "ragas/nonllm_context_precision": string_precision,
    "ragas/nonllm_context_recall": string_recall,
    **{f"content/{score.__name__}": score for score in OF_CONTENT},
}
