"""The queries of a report as MLflow traces: spans of the measured durations, judgements as assessments."""

import json
import time
from collections.abc import Iterator, Mapping
from secrets import randbits
from typing import TYPE_CHECKING, Any

from evals.judge.tasks import PRECISION
from evals.report.head import deepest
from evals.report.model import Hit, QueryRow, Report, ScoreValue
from evals.report.sections import verdict_lines, worst_first
from evals.tracking.values import expected_text, retrieved_text

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo

Trace = tuple["TraceInfo", list["Span"]]
JUDGED = "judge_precision"
# Most traces of a run: a list of more has little use, and MLflow takes long over them.
MOST = 500


def traces(report: Report, experiment_id: str, run_id: str) -> list[Trace]:
    """Return the queries of a run as traces, the worst first: a list by time shows them in this order.

    Of more than `MOST` they are the first in the golden data.

    Args:
        report: The run.
        experiment_id: Id of the run's experiment.
        run_id: Id of the run.
    """
    latest, rows = time.time_ns(), worst_first(report.queries[:MOST], MOST)
    # A millisecond apart: MLflow sorts traces by time in milliseconds.
    return [_trace(row, report, experiment_id, run_id, latest - number * 1_000_000) for number, row in enumerate(rows)]


def _trace(row: QueryRow, report: Report, experiment_id: str, run_id: str, start: int) -> Trace:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

    number = randbits(128) or 1
    spans = list(_spans(row, number, start))
    end = spans[0].end_time_ns or start
    info = TraceInfo(
        trace_id=f"tr-{number:032x}",
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=start // 1_000_000,
        execution_duration=(end - start) // 1_000_000,
        state=TraceState.OK,
        request_preview=row.query,
        response_preview=retrieved_text(row),
        client_request_id=row.id,
        trace_metadata={TraceMetadataKey.SOURCE_RUN: run_id},
        # By the second MLflow pairs the queries of two runs, from 3.18 on.
        tags={TraceTagKey.TRACE_NAME: "answer", "mlflow.eval.requestId": row.id, "query_id": row.id},
        assessments=list(_assessments(row, report, f"tr-{number:032x}", run_id)),
    )
    return info, spans


def _spans(row: QueryRow, number: int, start: int) -> Iterator["Span"]:
    """Yield the query with its answer, and the retrieval in it, which tells how long its stages took.

    Args:
        row: The query.
        number: Number of the trace.
        start: Start, in nanoseconds since 1970.
    """
    from mlflow.entities import SpanType

    took = row.stages_ms or {"total": row.time_ms}
    times, root = (start, start + round(took.get("total", 0.0) * 1_000_000)), randbits(64) or 1
    asked = {"mlflow.spanInputs": {"query": row.query}}
    answered = {"mlflow.spanType": SpanType.CHAIN, "mlflow.spanOutputs": retrieved_text(row), "query_id": row.id}
    yield _span("answer", (number, root, None), times, asked | answered)
    documents = [_document(hit) for hit in row.retrieved]
    found = {"mlflow.spanType": SpanType.RETRIEVER, "mlflow.spanOutputs": documents}
    stages = {f"{stage}_ms": ms for stage, ms in took.items()}
    yield _span("retrieve", (number, randbits(64) or 1, root), times, asked | found | stages)


def _document(hit: Hit) -> dict[str, Any]:
    fields = hit.model_dump(include={"chunk_id", "rank", "score", "grade"})
    scores = {f"score.{name}": score for name, score in hit.scores.items()}
    metadata = fields | {"score_scale": hit.scale, "doc_uri": hit.source} | scores
    values = {name: value for name, value in metadata.items() if value is not None}
    return {"page_content": hit.chunk.text, "metadata": values, "id": hit.chunk_id}


def _span(name: str, ids: tuple[int, int, int | None], times: tuple[int, int], attributes: Mapping[str, Any]) -> "Span":
    """Return a finished span.

    Args:
        name: Name of the span.
        ids: Trace, span and parent.
        times: Start and end in nanoseconds since 1970.
        attributes: Values that JSON can hold.
    """
    from mlflow.entities import Span
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode

    number, own, parent = ids
    known = {"mlflow.traceRequestId": f"tr-{number:032x}", **attributes}
    return Span(
        ReadableSpan(
            name=name,
            context=SpanContext(number, own, is_remote=False),
            parent=SpanContext(number, parent, is_remote=False) if parent else None,
            resource=Resource.get_empty(),
            attributes={key: json.dumps(value) for key, value in known.items()},
            start_time=times[0],
            end_time=times[1],
            status=Status(StatusCode.OK),
        )
    )


def _assessments(row: QueryRow, report: Report, trace_id: str, run_id: str) -> Iterator["Assessment"]:
    """Yield whether the query passed, why, and what was expected. MLflow shows them in the order of their names."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    known: dict[str, Any] = {"trace_id": trace_id, "metadata": {"mlflow.assessment.sourceRunId": run_id}}
    by_judge = ("LLM_JUDGE", f"{judge.provider}:{judge.model}" if (judge := report.facts.judge) else "")
    for name, value, reason in _judgements(row):
        kind, model = by_judge if name == JUDGED else ("CODE", "retrieval-evals")
        own = known | {"name": name, "source": AssessmentSource(source_type=kind, source_id=model)}
        if isinstance(value, float | int | str):
            yield Feedback(value=value, rationale=reason or None, **own)
    people = AssessmentSource(source_type="HUMAN", source_id="golden data")
    yield Expectation(name="expected", value=expected_text(row), source=people, **known)


def _judgements(row: QueryRow) -> Iterator[tuple[str, str | ScoreValue | None, str]]:
    """Yield name, value and reason of each judgement of a query."""
    if row.outcome != "UNLABELLED":
        yield "case_passed", "yes" if row.outcome == "SUCCESS" else "no", "; ".join((row.outcome, *row.reasons))
    if row.relevant:
        # Not the rank itself: MLflow takes a number that falls for a loss, and paints it red.
        place = f"the first at rank {row.first_relevant}" if row.first_relevant else "none"
        score = 1 / row.first_relevant if row.first_relevant else 0.0
        yield "first_relevant", score, f"1 / rank; of the relevant candidates {place}"
    for name, pattern in (("ndcg", "ranking/ndcg_at_K"), ("recall", "ranking/recall_at_K")):
        metric = deepest(pattern, row.scores)
        yield name, row.scores.get(metric), metric
    did = f"{'in' if row.in_scope else 'out of'} scope, and {'answered' if row.retrieved else 'not answered'}"
    yield "scope_right", "yes" if row.in_scope == bool(row.retrieved) else "no", did
    yield JUDGED, row.scores.get(PRECISION), "\n".join(verdict_lines(row))
