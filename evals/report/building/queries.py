"""The rows of the report, one a query. Pure."""

from collections.abc import Iterator, Sequence
from math import isfinite

from evals.cases.reading import case_fingerprint
from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.grid.measure import Measured
from evals.judge.tasks import selected
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics.metadata import missing_fields
from evals.report.causes import cause_of
from evals.report.model import ClaimEntry, FailedValue, Hit, QueryRow, ScoreValue, Verdict
from retrievers.records import RetrievedChunk, StageTimings

# Number of candidates to show for a query without results.
BEST_BELOW = 3


def query_rows(result: Measured) -> Iterator[QueryRow]:
    """Yield a row a query, in the order of the golden data."""
    numbers = {query_id: number for number, query_id in enumerate(result.validation.query_ids)}
    serial = next((timed for timed in result.observed.latency if timed.concurrency == 1), None)
    timed = dict(reversed(list(zip(serial.query_ids, serial.timings, strict=True)))) if serial else {}
    for observation in result.observed.observations:
        query_id = observation.case.id
        scores = {name: values[query_id] for name, values in result.scores.items() if query_id in values}
        timings = timed.get(query_id, observation.candidates.timings)
        yield _row(observation, numbers[query_id], scores, timings, result)


def chunk_texts(result: Measured) -> dict[str, str]:
    """Return the whole text of every returned chunk, by its id."""
    return {chunk.chunk_id: chunk.text for one in result.observed.observations for chunk in one.selection.chunks}


def score_value(score: Score) -> ScoreValue:
    """Return a score as the report has it: a failure is one text, with the type before the message."""
    return FailedValue(failed=_cause(score)) if isinstance(score, Failure) else score


def _row(
    observation: Observation, number: int, scores: dict[str, Score], timings: StageTimings, result: Measured
) -> QueryRow:
    judging, verdicts, required = result.judging, result.validation, result.config.retriever.metadata.required or ()
    first_relevant = _first_relevant(observation)
    case, relevance, candidates = observation.case, observation.relevance, observation.candidates
    below = () if observation.selection else candidates[:BEST_BELOW]
    claims = judging.claims.get((case.id, selected(observation)), ()) if judging else ()
    return QueryRow(
        id=case.id,
        query=case.query,
        fingerprint=case_fingerprint(case),
        in_scope=case.in_scope,
        query_type=case.query_type,
        tags=list(case.tags),
        reference_answer=case.reference_answer,
        expected=_places(observation),
        relevant=dict(relevance.grades),
        irrelevant=sorted(relevance.irrelevant),
        missing=sorted(relevance.missing),
        relevant_complete=not relevance.incomplete,
        first_relevant=first_relevant,
        top_score=_top_score(observation),
        retrieved=[_hit(hit, observation, judging) for hit in observation.selection],
        relevant_count=len(relevance.grades.keys() & observation.selection.chunk_ids),
        metadata_complete=_metadata_complete(observation, required),
        best_below_threshold=[_hit(hit, observation, None) for hit in below],
        claims=[ClaimEntry.of(claim) for claim in claims],
        scores={name: score_value(score) for name, score in scores.items()},
        proxies=_proxies(case.id, result),
        outcome=verdicts.outcomes[number],
        reasons=list(verdicts.reasons[number]),
        cause=cause_of(observation, verdicts.outcomes[number], first_relevant, result.config.retriever.top_k),
        metadata_accuracy=verdicts.metadata_accuracy[number],
        content_relevance=verdicts.content_relevance[number],
        accuracy_score=verdicts.accuracy_scores[number],
        time_ms=verdicts.times_ms[number],
        stages_ms=_stages(timings),
    )


def _proxies(case_id: str, result: Measured) -> dict[str, float]:
    scores = {name: by_case.get(case_id) for name, by_case in result.proxies.items()}
    return {name: score for name, score in scores.items() if isinstance(score, float | int)}


def _stages(timings: StageTimings) -> dict[str, float]:
    stages = {name: getattr(timings, f"{name}_ms") for name in ("embed", "search", "rerank", "total")}
    return {name: round(ms, 3) for name, ms in stages.items() if ms is not None}


def _top_score(observation: Observation) -> float | None:
    """Return the best score; None where there is none, as where nothing was found on an open scale."""
    best = observation.top_score
    return None if best is None or not isfinite(best) else best


def _metadata_complete(observation: Observation, required: Sequence[str]) -> bool | None:
    chunks = observation.selection.chunks
    return not any(missing_fields(chunk, required) for chunk in chunks) if chunks and required else None


def _first_relevant(observation: Observation) -> int | None:
    # by the ids alone: making a hit of every candidate takes longer than all else here
    ids = observation.candidates.chunk_ids if observation.relevance.grades else ()
    return next((rank for rank, chunk_id in enumerate(ids, 1) if chunk_id in observation.relevance.grades), None)


def _places(observation: Observation) -> list[str]:
    """Return the places that the evidence names, the most relevant first."""
    ordered = sorted(observation.case.relevant_evidence, key=lambda evidence: -evidence.grade)
    return list(dict.fromkeys(evidence.place for evidence in ordered))


def _hit(hit: RetrievedChunk, observation: Observation, judging: Judging | None) -> Hit:
    key = observation.case.id, hit.chunk.chunk_id
    return Hit(
        rank=hit.rank,
        score=hit.score,
        scale=hit.score_scale,
        scores=dict(hit.scores),
        chunk_id=hit.chunk.chunk_id,
        source=hit.source,
        breadcrumb=hit.breadcrumb,
        heading=hit.chunk.heading or "",
        grade=observation.relevance.grades.get(hit.chunk.chunk_id, 0),
        preview=hit.chunk.chunk_text_preview,
        judge=_verdict(judging, key) if judging else None,
    )


def _verdict(judging: Judging, key: tuple[str, str]) -> Verdict | None:
    verdict = judging.verdicts.get(key)
    if verdict is None:
        return None
    if isinstance(verdict, ChunkVerdict):
        return Verdict(verdict=verdict.verdict, reason=verdict.reason)
    return Verdict(unscored=verdict.reason) if isinstance(verdict, Unscored) else Verdict(failed=_cause(verdict))


def _cause(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}"
