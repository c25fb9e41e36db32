"""The rows of the report, one a query, with the cause of each verdict in two words; and the scores by column. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, get_args

from evals.cases.reading import case_fingerprint
from evals.collect.observations import Failure, Observation, Outcome, Score
from evals.grid.measure import Measured
from evals.judge.tasks import selected
from evals.judge.verdicts import Judging
from evals.metrics.outcomes import FIRST, is_cut_by_threshold
from evals.report.model import Cause, ChunkEntry, FailedValue, Hit, QueryRow, ScoreValue
from retrievers.records import RetrievedChunk, StageTimings

# Number of candidates to show for a query without results.
BEST_BELOW = 3
FAILURES = frozenset(get_args(Cause)) - {"right", "rightly nothing", "not labelled"}
OF_A_CASE = ("id", "query", "in_scope", "query_type", "tags", "reference_answer")


def query_rows(result: Measured) -> Iterator[QueryRow]:
    """Yield a row a query, in the order of the golden data."""
    numbers = {query_id: number for number, query_id in enumerate(result.validation.query_ids)}
    serial = next((timed for timed in result.observed.latency if timed.concurrency == 1), None)
    timed = dict(reversed(list(zip(serial.query_ids, serial.timings, strict=True)))) if serial else {}
    for observation in result.observed.observations:
        query_id = observation.case.id
        yield _row(observation, numbers[query_id], timed.get(query_id, observation.candidates.facts.timings), result)


def chunk_entries(result: Measured) -> dict[str, ChunkEntry]:
    """Return every chunk that a row names, by its id."""
    return {
        hit.chunk.chunk_id: ChunkEntry(
            source=hit.source, breadcrumb=hit.breadcrumb, heading=hit.chunk.heading or "", text=hit.chunk.text
        )
        for observation in result.observed.observations
        for hit in (*observation.selection, *_below(observation))
    }


def columns(result: Measured, scores: Mapping[str, Mapping[str, Score]]) -> dict[str, list[ScoreValue | None]]:
    """Return the scores by metric in the order of the queries; None where a metric is not over a query."""
    ids = [observation.case.id for observation in result.observed.observations]
    return {name: [_score(by_case.get(query_id)) for query_id in ids] for name, by_case in scores.items()}


def proxies(result: Measured) -> dict[str, list[float | None]]:
    """Return the proxies of judged metrics likewise, as far as they are numbers."""
    return {
        name: [float(score) if isinstance(score, float | int) else None for score in column]
        for name, column in columns(result, result.proxies).items()
    }


def cause_of(observation: Observation, outcome: Outcome, first_relevant: int | None, top_k: int) -> Cause:
    """Return the cause of a verdict.

    Args:
        observation: The query.
        outcome: The verdict on it.
        first_relevant: Rank of its first relevant candidate, before threshold and cut; None where there is none.
        top_k: Number of chunks asked for.
    """
    in_scope, grades = observation.case.in_scope, observation.relevance.grades
    cause: Cause = "ranked too low"
    if outcome == "PARTIAL_SUCCESS":
        cause = "details wrong"
    elif outcome == "UNLABELLED":
        cause = "not labelled"
    elif outcome == "SUCCESS":
        cause = "right" if in_scope else "rightly nothing"
    elif not in_scope:
        cause = "wrongly answered"
    elif not observation.selection:
        cause = "nothing returned"
    elif not grades.keys().isdisjoint(observation.ranked_ids[:FIRST]):
        cause = "too few returned"
    elif first_relevant is None:
        cause = "not a candidate"
    elif is_cut_by_threshold(first_relevant, top_k):
        cause = "cut by the threshold"
    return cause


def _row(observation: Observation, number: int, timings: StageTimings, result: Measured) -> QueryRow:
    judging, verdicts, outcome = result.judging, result.validation, result.validation.outcomes[number]
    case, relevance, best = observation.case, observation.relevance, observation.top_score
    # By the ids alone: making a hit of every candidate takes longer than all else here.
    ranks = enumerate(observation.candidates.chunk_ids if relevance.grades else (), 1)
    first_relevant = next((rank for rank, chunk_id in ranks if chunk_id in relevance.grades), None)
    stages = {name: getattr(timings, f"{name}_ms") for name in ("embed", "search", "rerank", "total")}
    evidence = sorted(case.relevant_evidence, key=lambda evidence: -evidence.grade)
    return QueryRow.of(
        {name: getattr(case, name) for name in OF_A_CASE}
        | {
            "fingerprint": case_fingerprint(case),
            "expected": list(dict.fromkeys(each.place for each in evidence)),
            "relevant": dict(relevance.grades),
            "irrelevant": sorted(relevance.irrelevant),
            "missing": sorted(relevance.missing),
            "first_relevant": first_relevant,
            "top_score": best if best is not None and isfinite(best) else None,
            "retrieved": [_hit(hit, observation, judging) for hit in observation.selection],
            "best_below_threshold": [_hit(hit, observation, None) for hit in _below(observation)],
            "claims": list(judging.claims.get((case.id, selected(observation)), ())) if judging else [],
            "outcome": outcome,
            "reasons": list(verdicts.reasons[number]),
            "cause": cause_of(observation, outcome, first_relevant, result.config.retriever.top_k),
            "metadata_accuracy": verdicts.metadata_accuracy[number],
            "content_relevance": verdicts.content_relevance[number],
            "accuracy_score": verdicts.accuracy_scores[number],
            "time_ms": verdicts.times_ms[number],
            "stages_ms": {name: round(ms, 3) for name, ms in stages.items() if ms is not None},
        }
    )


def _score(score: Any) -> Any:
    """Return a score, or a verdict, as the report has it: a failure is one text, with the type before the message."""
    return FailedValue(failed=f"{score.type}: {score.message}") if isinstance(score, Failure) else score


def _below(observation: Observation) -> Sequence[RetrievedChunk]:
    return () if observation.selection else tuple(observation.candidates[:BEST_BELOW])


def _hit(hit: RetrievedChunk, observation: Observation, judging: Judging | None) -> Hit:
    chunk_id = hit.chunk.chunk_id
    return Hit(
        rank=hit.rank,
        chunk_id=chunk_id,
        score=hit.score,
        scale=hit.score_scale,
        scores=dict(hit.scores),
        grade=observation.relevance.grades.get(chunk_id, 0),
        judge=_score(judging.verdicts.get((observation.case.id, chunk_id))) if judging else None,
    )
