"""The worst queries of a run as traces: what was returned, what each stage took, every score and its reason. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evals.collect.observations import Failure, Observation, QueryVerdict, Unscored
from evals.judge.tasks import CLAIM_RECALL, PRECISION, RECALL
from evals.metrics import NEED_A_JUDGE
from evals.metrics.run_result import RunResult
from evals.report.document import rows
from evals.report.judge import chunk_claim_lines, claim_lines, verdict_lines
from evals.report.worst import in_order
from retrievers.records import RetrievedChunk

OUTCOME = "outcome"
STAGES = ("embed", "search", "rerank")


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """One thing that is said of a query: a metric's value, or the verdict.

    Attributes:
        value: None where its computation failed, as `failure` then says.
        source: Whether the project's code says it or the judge, by its model.
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
        documents: What was returned: `page_content`, `metadata` (chunk id, score, source, grade, ...) and `id`.
        stages: Stage to milliseconds, `total` among them.
        timing: Where those are from.
        feedback: The outcome, then every metric that has a value or failed.
    """

    query_id: str
    query: str
    reference: str | None
    documents: tuple[Mapping[str, Any], ...]
    stages: Mapping[str, float]
    timing: Literal["a single call", "the batch"]
    feedback: tuple[Feedback, ...]


def traces(result: RunResult, most: int) -> list[QueryTrace]:
    """The worst queries of a run, the worst first: at most so many."""
    said = {row["id"]: row for row in rows(result)}
    serial = next((p.calls for p in result.observed.latency if p.concurrency == 1), ())
    timed = {call.query_id: call.stages for call in reversed(serial)}
    return [_trace(result, o, verdict, said[o.case.id], timed.get(o.case.id)) for o, verdict in in_order(result)[:most]]


def _trace(
    result: RunResult,
    observation: Observation,
    verdict: QueryVerdict,
    row: Mapping[str, Any],
    timed: Mapping[str, float] | None,
) -> QueryTrace:
    return QueryTrace(
        query_id=observation.case.id,
        query=observation.case.query,
        reference=observation.case.reference_answer,
        documents=tuple(_document(found, observation) for found in observation.selection),
        stages=timed or _batch(observation),
        timing="a single call" if timed else "the batch",
        feedback=(
            Feedback(name=OUTCOME, value=verdict.outcome, reason="; ".join(verdict.reasons)),
            *_feedback(result, observation.case.id, row),
        ),
    )


def _batch(observation: Observation) -> dict[str, float]:
    timings = observation.candidates.timings
    known = {stage: getattr(timings, f"{stage}_ms") for stage in (*STAGES, "total")}
    return {stage: value for stage, value in known.items() if value is not None}


def _document(found: RetrievedChunk, observation: Observation) -> dict[str, Any]:
    chunk = found.chunk
    metadata = {
        "chunk_id": chunk.chunk_id,
        "rank": found.rank,
        "score": found.score,
        "score_scale": found.score_scale,
        **{f"score.{name}": value for name, value in found.scores.items()},
        "grade": observation.relevance.grades.get(chunk.chunk_id, 0),
        "source": found.source,
        "source_url": chunk.source_url,
        "title": chunk.title,
        "heading": chunk.heading,
    }
    known = {name: value for name, value in metadata.items() if value is not None}
    return {"page_content": chunk.text, "metadata": known, "id": chunk.chunk_id}


def _feedback(result: RunResult, query_id: str, row: Mapping[str, Any]) -> Iterator[Feedback]:
    judge = result.judging.model if result.judging else ""
    for name, values in result.scores.items():
        score = values.get(query_id)
        if score is None or isinstance(score, Unscored):
            continue
        failure = score if isinstance(score, Failure) else None
        by_judge = name in NEED_A_JUDGE
        yield Feedback(
            name=name,
            value=None if isinstance(score, Failure) else score,
            reason=_reason(name, row) if by_judge else "",
            failure=failure,
            source=("LLM_JUDGE", judge) if by_judge else ("CODE", "retrieval-evals"),
        )


def _reason(name: str, row: Mapping[str, Any]) -> str:
    """What the judge said: of each chunk for precision, of each claim for recall, of both for claim recall."""
    lines = {PRECISION: verdict_lines, RECALL: claim_lines, CLAIM_RECALL: chunk_claim_lines}.get(name)
    return "\n".join(lines(row)) if lines else ""
