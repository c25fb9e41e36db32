"""The outcome of each query, with reasons.

An in-scope query fails unless it gets at least `min_results` chunks with a relevant one among the first five. An
out-of-scope query fails unless it gets nothing. A query that does not fail is a success if all required metadata is
valid and agrees with the source, every expected topic occurs, and the source pattern matches; else it is a partial
success. An in-scope query without labels has no such outcome, as its chunks may be relevant or not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from statistics import fmean

import numpy as np

from evals.cases.pages import SourcePageError
from evals.collect.observations import VERDICT_METRIC, Calls, Observation, Outcome, ValidationReport
from evals.metrics.declaration import NO_LABELS, Context, Scorer
from evals.metrics.metadata import accuracy, missing_fields, wrong_fields
from evals.metrics.results import Results
from evals.metrics.texts import found_in_source, topic_match
from evals.metrics.timing import times_of
from evals.stats.intervals import Bools, Floats
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk

FIRST = 5
SHOWN = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Faults of results; arrays of shape (rows,).

    Attributes:
        unlabelled: Whether the query is in scope and has no labels.
        unasked: Whether the query is out of scope and something was returned.
        short: Whether the query is in scope and fewer chunks were returned than the case asks for.
        missed: Whether the query is in scope, chunks were returned, and none of the first five is relevant.
        flawed: Whether a chunk lacks required metadata, or has metadata that differs from its page.
        topics: Share of the expected topics that occur; NaN if none is expected, and out of scope.
        astray: Whether the query is in scope and no chunk is from a page that matches the source pattern.
    """

    unlabelled: Bools
    unasked: Bools
    short: Bools
    missed: Bools
    flawed: Bools
    topics: Floats
    astray: Bools

    @property
    def failed(self) -> Bools:
        """True for a result that fails."""
        return self.unasked | self.short | self.missed

    @property
    def passed(self) -> Bools:
        """True for a success."""
        return np.asarray(~(self.failed | self.flawed | (self.topics < 1) | self.astray))

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome of each row."""
        conditions = [self.unlabelled, self.failed, ~self.passed]
        return tuple(np.select(conditions, ["UNLABELLED", "FAILURE", "PARTIAL_SUCCESS"], "SUCCESS").tolist())


def outcomes_of(r: Results, context: Context) -> Outcomes:
    """Return the faults of each result."""
    inside, answered = r.by_case(lambda case: case.in_scope).astype(np.bool_), r.lengths > 0
    relevant = (r.ranked.grades[:, :FIRST] > 0).any(axis=1)
    flaws, _ = r.by_chunk("flaws", lambda chunk: float(bool(_flaws(chunk, context))))
    return Outcomes(
        unlabelled=r.by_case(lambda case: case.is_unlabelled),
        unasked=~inside & answered,
        short=inside & (r.lengths < r.by_case(lambda case: case.min_results)),
        missed=inside & r.by_case(lambda case: case.is_labelled).astype(np.bool_) & answered & ~relevant,
        flawed=np.asarray((flaws > 0).any(axis=1)),
        topics=np.where(inside, topic_match(r, context).values, np.nan),
        astray=inside & (found_in_source(r) == 0.0),
    )


def pass_rate(r: Results, context: Context) -> Floats:
    """Return 1 for a success, else 0."""
    return outcomes_of(r, context).passed.astype(float)


def validate(r: Results, serial: Calls, context: Context, settings: RetrieverConfig) -> ValidationReport:
    """Return the outcomes of queries, with reasons.

    Args:
        r: The results, one row a query.
        serial: The serial calls, from which the times are taken; empty if they were not measured.
        context: Inputs of the metrics: required metadata and sources.
        settings: Settings of the retriever. Reasons depend on top_k, and on whether chunks are grouped.
    """
    faults, observations = outcomes_of(r, context), list(r.observations())
    metadata, relevance, times = accuracy(r, context).values, content_relevance(r), times_of(serial, "total")
    count = np.sum([~np.isnan(metadata), ~np.isnan(relevance)], axis=0)
    mean = np.where(count > 0, np.nansum([metadata, relevance], axis=0) / np.maximum(count, 1), np.nan)
    return ValidationReport(
        outcome=faults.outcomes,
        reasons=tuple(tuple(_reasons(o, faults, row, context, settings)) for row, o in enumerate(observations)),
        metadata_accuracy=tuple(or_none(metadata)),
        content_relevance=tuple(or_none(relevance)),
        accuracy_score=tuple(or_none(mean)),
        time_ms=tuple(fmean(times.get(o.case.id, [o.candidates.facts.timings.total_ms])) for o in observations),
    )


def content_relevance(r: Results) -> Floats:
    """Return the share of relevant chunks among the first five returned, 0 to 1; 0 for an empty result.

    An out-of-scope query scores 1 for an empty result, else 0. An in-scope query without labels has NaN.
    """
    relevant, returned = (r.ranked.grades[:, :FIRST] > 0).sum(axis=1), r.ranked.found[:, :FIRST].sum(axis=1)
    share = np.where(r.by_case(lambda case: case.in_scope), relevant / np.maximum(returned, 1), returned == 0)
    return np.where(r.by_case(lambda case: case.is_unlabelled), np.nan, share)


def or_none(values: Floats) -> list[float | None]:
    """Return numbers with None in place of NaN."""
    return [None if isnan(value) else value for value in values.tolist()]


def is_cut_by_threshold(first_relevant: int, settings: RetrieverConfig) -> bool:
    """Return True if the first relevant candidate would be among the first results without the threshold.

    Under group_by that is not known: a chunk of the same group may have taken its place.

    Args:
        first_relevant: Rank of a candidate that is not among the first results.
        settings: Settings of the retriever.
    """
    return settings.group_by is None and first_relevant <= min(FIRST, settings.top_k)


def _reasons(o: Observation, faults: Outcomes, row: int, context: Context, settings: RetrieverConfig) -> Iterator[str]:
    """Yield why the outcome of a query is not SUCCESS."""
    if faults.unlabelled[row]:
        yield NO_LABELS.reason
    if faults.unasked[row]:
        best = o.selection[0]
        score = "" if best.score is None else f" (best {best.score_scale} {best.score:.3f})"
        yield f"out of scope, but chunks returned: {len(o.selection)}{score}"
    if faults.short[row]:
        yield f"chunks returned: {len(o.selection)}, expected at least {o.case.min_results}"
    if faults.missed[row]:
        yield f"no relevant chunk among the first {min(FIRST, settings.top_k)}; {_first_relevant(o, settings)}"
    if faults.failed[row]:
        return
    for rank, chunk in enumerate(o.selection.chunks if faults.flawed[row] else (), 1):
        # A chunk without metadata would list every field.
        yield from (f"rank {rank}: {flaw}" for flaw in _flaws(chunk, context)[:SHOWN])
    if faults.topics[row] < 1:
        topics = ", ".join(o.case.expected_topics)
        yield f"only {faults.topics[row]:.0%} of the expected topics occur: {topics}"
    if faults.astray[row]:
        yield f"no result from a page that matches {o.case.source_url_pattern!r}"


def _flaws(chunk: Chunk, context: Context) -> list[str]:
    """Return the flaws of a chunk's metadata: missing fields, fields that differ from the page, an unreadable page."""
    lacking = missing_fields(chunk, context.required)
    try:
        wrong, _ = wrong_fields(chunk, context.required, context.sources) if context.sources else ([], 0)
    except SourcePageError as error:
        wrong = [f"source page {error}"]
    return lacking + wrong


def _first_relevant(observation: Observation, settings: RetrieverConfig) -> str:
    """Return where the first relevant candidate is."""
    rank = observation.first_relevant
    if rank is None:
        return f"none among the {len(observation.candidates)} candidates either"
    if is_cut_by_threshold(rank, settings):
        return f"the threshold cut the first relevant one, candidate {rank}"
    return f"the first relevant one is candidate {rank}"


SCORES: Mapping[str, Scorer] = {VERDICT_METRIC: pass_rate}
