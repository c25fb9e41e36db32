"""Queries of a run as traces: what was returned, what each stage took, what was expected, how good it is. Pure."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from evals.collect.observations import Failure, Observation, Observed, Unscored
from evals.judge.precision import average_precision
from evals.judge.tasks import PRECISION
from evals.judge.trust.correction import human_scores
from evals.report.headline import deepest
from evals.report.judge_lines import verdict_lines
from evals.report.model import FailedValue, Hit, QueryRow, Report
from evals.report.worst import worst_first
from retrievers.records import RetrievedChunk, StageTimings
from retrievers.terminal.present import score_text

Source = tuple[Literal["CODE", "LLM_JUDGE", "HUMAN"], str]
CODE: Source = ("CODE", "retrieval-evals")
PEOPLE: Source = ("HUMAN", "golden data")
STAGES = ("embed", "search", "rerank")
# Names of assessments: MLflow shows them in alphabetical order, the verdict has to come first.
PASSED, FIRST_RELEVANT, HUMAN, JUDGED = "case_passed", "first_relevant_rank", "human_precision", "judge_precision"
NDCG, RECALL, SCOPE = "ndcg", "recall", "scope_right"
MOST_FEEDBACK = 6


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """An assessment of a query.

    Attributes:
        value: None where its computation failed, as `failure` then says.
        source: Author of the assessment: the project's code, the judge by its model, or people.
    """

    name: str
    value: int | float | str | None
    reason: str = ""
    failure: Failure | None = None
    source: Source = CODE


@dataclass(frozen=True, kw_only=True)
class QueryTrace:
    """A query of a run.

    Attributes:
        answer: The returned chunks, a line each: rank, score, relevance, breadcrumb.
        documents: Returned chunks: `page_content`, `metadata` (chunk id, score, place, grade, ...) and `id`.
        stages: Stage to milliseconds, `total` among them.
        timing: Origin of the times.
        expected: The reference answer where there is one, and the grades of the relevant chunks.
        feedback: At most six assessments, the verdict first.
    """

    query_id: str
    query: str
    answer: str
    documents: tuple[Mapping[str, Any], ...]
    stages: Mapping[str, float]
    timing: Literal["a single call", "the batch"]
    expected: Mapping[str, Any]
    feedback: tuple[Feedback, ...]


def traces(report: Report, observed: Observed, most: int) -> list[QueryTrace]:
    """Return the queries of a run, the worst first.

    Args:
        report: The run.
        observed: Its observations: the texts of the returned chunks, and the times of the stages.
        most: Number of traces, at most; of more queries those whose ids have the least hashes, the same in every run.
    """
    if not most:
        return []
    observations = {observation.case.id: observation for observation in observed.observations}
    serial = next((timed for timed in observed.latency if timed.concurrency == 1), None)
    first = dict(reversed(list(zip(serial.query_ids, serial.timings, strict=True)))) if serial else {}
    sample = set(sorted(observations, key=_hash)[:most])
    rows = worst_first((row for row in report.queries if row.id in sample), most)
    judge = report.judge.model if report.judge else ""
    return [_trace(row, observations[row.id], first.get(row.id), judge) for row in rows]


def kept_traces(report: Report, most: int) -> list[QueryTrace]:
    """Return the queries of a report read back, likewise: with the beginnings of the texts, and whole times."""
    judge = report.judge.model if report.judge else ""
    sample = set(sorted((row.id for row in report.queries), key=_hash)[:most])
    rows = worst_first((row for row in report.queries if row.id in sample), most) if most else []
    return [
        _trace_of(row, tuple(map(_kept_document, row.retrieved)), {"total": row.time_ms}, _feedback(row, (), judge))
        for row in rows
    ]


def _kept_document(hit: Hit) -> dict[str, Any]:
    fields = {"chunk_id", "rank", "score", "grade", "heading"}
    metadata = hit.model_dump(include=fields) | {"score_scale": hit.scale, "doc_uri": hit.source}
    values = {name: value for name, value in metadata.items() if value is not None}
    return {"page_content": hit.preview, "metadata": values, "id": hit.chunk_id}


def _hash(query_id: str) -> str:
    return hashlib.sha256(query_id.encode()).hexdigest()


def _trace(row: QueryRow, observation: Observation, timed: StageTimings | None, judge: str) -> QueryTrace:
    documents = tuple(_document(hit, observation) for hit in observation.selection)
    durations = _durations(timed or observation.candidates.timings)
    trace = _trace_of(row, documents, durations, _feedback(row, _by_people(observation), judge))
    return trace if timed else replace(trace, timing="the batch")


def _trace_of(
    row: QueryRow,
    documents: tuple[Mapping[str, Any], ...],
    durations: Mapping[str, float],
    feedback: Iterator[Feedback],
) -> QueryTrace:
    answer = {"answer": row.reference_answer} if row.reference_answer else {}
    relevant = dict(sorted(row.relevant.items(), key=lambda item: -item[1]))
    return QueryTrace(
        query_id=row.id,
        query=row.query,
        answer="\n".join(
            f"{hit.rank}. {score_text(hit.score)} {'✓' if hit.grade else ' '} {hit.breadcrumb or hit.source}"
            for hit in row.retrieved
        )
        or "nothing",
        documents=documents,
        stages=durations,
        timing="a single call",
        expected={**answer, "relevant_chunks": relevant},
        feedback=tuple(islice(feedback, MOST_FEEDBACK)),
    )


def _durations(timings: StageTimings) -> dict[str, float]:
    durations = {stage: getattr(timings, f"{stage}_ms") for stage in (*STAGES, "total")}
    return {stage: value for stage, value in durations.items() if value is not None}


def _document(hit: RetrievedChunk, observation: Observation) -> dict[str, Any]:
    chunk = hit.chunk
    metadata = {
        "chunk_id": chunk.chunk_id,
        "rank": hit.rank,
        "score": hit.score,
        "score_scale": hit.score_scale,
        **({} if hit.distance == "cosine" else {"distance": hit.distance}),
        **{f"score.{name}": value for name, value in hit.scores.items()},
        "grade": observation.relevance.grades.get(chunk.chunk_id, 0),
        "doc_uri": hit.source,
        "source_url": chunk.source_url,
        "title": chunk.title,
        "heading": chunk.heading,
    }
    values = {name: value for name, value in metadata.items() if value is not None}
    return {"page_content": chunk.text, "metadata": values, "id": chunk.chunk_id}


def _feedback(row: QueryRow, by_people: Iterable[Feedback], judge: str) -> Iterator[Feedback]:
    """Yield the verdict, then what it rests on."""
    if row.outcome != "UNLABELLED":
        yield Feedback(name=PASSED, value=_yes(row.outcome == "SUCCESS"), reason="; ".join((row.outcome, *row.reasons)))
    if row.first_relevant is not None:
        yield Feedback(name=FIRST_RELEVANT, value=row.first_relevant, reason="among all candidates")
    yield from by_people
    yield from _score(JUDGED, PRECISION, row, "\n".join(verdict_lines(row)), ("LLM_JUDGE", judge))
    for name, pattern in ((NDCG, "ranking/ndcg_at_K"), (RECALL, "ranking/recall_at_K")):
        metric = deepest(pattern, row.scores)
        yield from _score(name, metric, row, metric)
    did = f"{'in' if row.in_scope else 'out of'} scope, and {'answered' if row.retrieved else 'not answered'}"
    yield Feedback(name=SCOPE, value=_yes(row.in_scope == bool(row.retrieved)), reason=did)


def _by_people(observation: Observation) -> Iterator[Feedback]:
    """Yield the judge's metric by the verdicts of people, where they have seen all that was returned."""
    verdicts = observation.case.human_verdicts
    for score in human_scores([observation], average_precision).values():
        if isinstance(score, float):
            lines = (
                f"{hit.rank}. {'useful' if verdicts[hit.chunk.chunk_id] else 'useless'}"
                for hit in observation.selection
            )
            yield Feedback(name=HUMAN, value=score, reason="\n".join(lines), source=PEOPLE)


def _score(name: str, metric: str, row: QueryRow, reason: str, source: Source = CODE) -> Iterator[Feedback]:
    """Yield a metric's value or failure; nothing where there is none."""
    score = row.scores.get(metric)
    if isinstance(score, FailedValue):
        # The report has type and message in one text; MLflow shows them apart.
        kind, _, message = score.failed.partition(": ")
        yield Feedback(name=name, value=None, failure=Failure(type=kind, message=message), source=source)
    elif score is not None and not isinstance(score, Unscored):
        yield Feedback(name=name, value=score, reason=reason, source=source)


def _yes(passed: bool) -> str:
    return "yes" if passed else "no"
