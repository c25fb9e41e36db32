"""The worst queries of a run as traces: what was returned, what each stage took, every score and its reason. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evals.collect.observations import Failure, Observation, Observed
from evals.judge.tasks import CLAIM_RECALL, PRECISION, RECALL
from evals.metrics import NEED_A_JUDGE
from evals.report.judge_lines import chunk_claim_lines, claim_lines, verdict_lines
from evals.report.model import FailedValue, QueryRow, Report, UnscoredValue
from evals.report.worst import worst_first
from retrievers.records import RetrievedChunk, StageTimings

OUTCOME = "outcome"
STAGES = ("embed", "search", "rerank")


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """A metric's value of a query, or its verdict.

    Attributes:
        value: None where its computation failed, as `failure` then says.
        source: Author of the assessment: the project's code, or the judge by its model.
    """

    name: str
    value: float | str | None
    reason: str = ""
    failure: Failure | None = None
    source: tuple[Literal["CODE", "LLM_JUDGE"], str] = ("CODE", "retrieval-evals")


@dataclass(frozen=True, kw_only=True)
class QueryTrace:
    """A query of a run.

    Attributes:
        documents: Returned chunks: `page_content`, `metadata` (chunk id, score, source, grade, ...) and `id`.
        stages: Stage to milliseconds, `total` among them.
        timing: Origin of the times.
        feedback: The outcome, then every metric that has a value or failed.
    """

    query_id: str
    query: str
    reference: str | None
    documents: tuple[Mapping[str, Any], ...]
    stages: Mapping[str, float]
    timing: Literal["a single call", "the batch"]
    feedback: tuple[Feedback, ...]


def traces(report: Report, observed: Observed, most: int) -> list[QueryTrace]:
    """Return the worst queries of a run, the worst first.

    Args:
        report: The run.
        observed: Its observations: the texts of the returned chunks, and the times of the stages.
        most: Number of traces, at most.
    """
    observations = {observation.case.id: observation for observation in observed.observations}
    serial = next((timed for timed in observed.latency if timed.concurrency == 1), None)
    first = dict(reversed(list(zip(serial.query_ids, serial.timings, strict=True)))) if serial else {}
    judge = report.judge.model if report.judge else ""
    return [_trace(row, observations[row.id], first.get(row.id), judge) for row in worst_first(report.queries, most)]


def _trace(row: QueryRow, observation: Observation, timed: StageTimings | None, judge: str) -> QueryTrace:
    return QueryTrace(
        query_id=row.id,
        query=row.query,
        reference=row.reference_answer,
        documents=tuple(_document(hit, observation) for hit in observation.selection),
        stages=_durations(timed or observation.candidates.query.timings),
        timing="a single call" if timed else "the batch",
        feedback=(
            Feedback(name=OUTCOME, value=row.outcome, reason="; ".join(row.reasons)),
            *_feedback(row, judge),
        ),
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
        **{f"score.{name}": value for name, value in hit.scores.items()},
        "grade": observation.relevance.grades.get(chunk.chunk_id, 0),
        "source": hit.source,
        "source_url": chunk.source_url,
        "title": chunk.title,
        "heading": chunk.heading,
    }
    values = {name: value for name, value in metadata.items() if value is not None}
    return {"page_content": chunk.text, "metadata": values, "id": chunk.chunk_id}


def _feedback(row: QueryRow, judge: str) -> Iterator[Feedback]:
    for name, score in row.scores.items():
        if isinstance(score, UnscoredValue):
            continue
        by_judge = name in NEED_A_JUDGE
        yield Feedback(
            name=name,
            value=None if isinstance(score, FailedValue) else score,
            reason=_reason(name, row) if by_judge else "",
            failure=_failure(score.failed) if isinstance(score, FailedValue) else None,
            source=("LLM_JUDGE", judge) if by_judge else ("CODE", "retrieval-evals"),
        )


def _failure(cause: str) -> Failure:
    # the report has type and message in one text; MLflow shows them apart
    kind, _, message = cause.partition(": ")
    return Failure(type=kind, message=message)


def _reason(name: str, row: QueryRow) -> str:
    """Return the judge's words: of each chunk for precision, of each claim for recall, of both for claim recall."""
    lines = {PRECISION: verdict_lines, RECALL: claim_lines, CLAIM_RECALL: chunk_claim_lines}.get(name)
    return "\n".join(lines(row)) if lines else ""
