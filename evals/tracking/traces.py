"""The queries of a report as traces in MLflow: durations become spans, judgements become assessments."""

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
# Most traces of a run. Nobody reads a longer list, and MLflow takes long to show it.
MOST = 500


def traces(report: Report, experiment_id: str, run_id: str) -> list[Trace]:
    """Return the queries of a run as traces, the worst first. MLflow's list by time shows them in this order.

    If there are more than `MOST` queries, the first ones of the golden data are taken.

    Args:
        report: The run.
        experiment_id: Id of the run's experiment.
        run_id: Id of the run.
    """
    latest, rows = time.time_ns(), worst_first(report.queries[:MOST], MOST)
    # MLflow sorts traces by time in milliseconds, so they start a millisecond apart.
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
        request_preview=row.query[:1_000],  # no longer than the columns of MLflow's tables
        response_preview=retrieved_text(row)[:1_000],
        client_request_id=row.id[:50],
        trace_metadata={TraceMetadataKey.SOURCE_RUN: run_id},
        # By `mlflow.eval.requestId` MLflow pairs the queries of two runs, from 3.18 on.
        tags={TraceTagKey.TRACE_NAME: "answer", "mlflow.eval.requestId": row.id, "query_id": row.id},
        assessments=list(_assessments(row, report, f"tr-{number:032x}", run_id)),
    )
    return info, spans


def _spans(row: QueryRow, number: int, start: int) -> Iterator["Span"]:
    """Yield the span of the query with its answer, then that of the retrieval with the durations of its stages.

    Args:
        row: The query.
        number: Number of the trace.
        start: Start, in nanoseconds since 1970.
    """
    from mlflow.entities import SpanType

    durations = row.stages_ms or {"total": row.time_ms}
    times = start, start + round(durations.get("total", 0.0) * 1_000_000)
    root = randbits(64) or 1
    inputs = {"mlflow.spanInputs": {"query": row.query}}
    answer = {"mlflow.spanType": SpanType.CHAIN, "mlflow.spanOutputs": retrieved_text(row), "query_id": row.id}
    yield _span("answer", (number, root, None), times, inputs | answer)
    documents = [_document(hit) for hit in row.retrieved]
    retrieval = {"mlflow.spanType": SpanType.RETRIEVER, "mlflow.spanOutputs": documents}
    stages = {f"{stage}_ms": ms for stage, ms in durations.items()}
    yield _span("retrieve", (number, randbits(64) or 1, root), times, inputs | retrieval | stages)


def _document(hit: Hit) -> dict[str, Any]:
    fields = hit.model_dump(include={"chunk_id", "rank", "score", "grade"})
    scores = {f"score.{name}": score for name, score in hit.scores.items()}
    metadata = fields | {"score_scale": hit.scale, "doc_uri": hit.chunk.source} | scores
    values = {name: value for name, value in metadata.items() if value is not None}
    return {"page_content": hit.chunk.text, "metadata": values, "id": hit.chunk_id}


def _span(name: str, ids: tuple[int, int, int | None], times: tuple[int, int], attributes: Mapping[str, Any]) -> "Span":
    """Return a finished span.

    Args:
        name: Name of the span.
        ids: Numbers of the trace, of the span, and of its parent (None for the root).
        times: Start and end, in nanoseconds since 1970.
        attributes: Values that JSON can hold.
    """
    from mlflow.entities import Span
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode

    number, span, parent = ids
    known = {"mlflow.traceRequestId": f"tr-{number:032x}", **attributes}
    return Span(
        ReadableSpan(
            name=name,
            context=SpanContext(number, span, is_remote=False),
            parent=SpanContext(number, parent, is_remote=False) if parent else None,
            resource=Resource.get_empty(),
            attributes={key: json.dumps(value) for key, value in known.items()},
            start_time=times[0],
            end_time=times[1],
            status=Status(StatusCode.OK),
        )
    )


def _assessments(row: QueryRow, report: Report, trace_id: str, run_id: str) -> Iterator["Assessment"]:
    """Yield the judgements of the query, and what was expected. MLflow shows them in the order of their names."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    known: dict[str, Any] = {"trace_id": trace_id, "metadata": {"mlflow.assessment.sourceRunId": run_id}}
    by_judge = ("LLM_JUDGE", f"{judge.provider}:{judge.model}" if (judge := report.facts.judge) else "")
    for name, value, reason in _judgements(row):
        kind, model = by_judge if name == JUDGED else ("CODE", "retrieval-evals")
        source = AssessmentSource(source_type=kind, source_id=model)
        if isinstance(value, float | int | str):
            yield Feedback(name=name, value=value, rationale=reason or None, source=source, **known)
    people = AssessmentSource(source_type="HUMAN", source_id="golden data")
    yield Expectation(name="expected", value=expected_text(row), source=people, **known)


def _judgements(row: QueryRow) -> Iterator[tuple[str, str | ScoreValue | None, str]]:
    """Yield name, value and reason of each judgement of a query."""
    if row.outcome != "UNLABELLED":
        yield "case_passed", "yes" if row.outcome == "SUCCESS" else "no", "; ".join((row.outcome, *row.reasons))
    if row.relevant:
        # 1 / rank, since MLflow paints a number red that falls, as a rank does when it gets better.
        place = f"the first at rank {row.first_relevant}" if row.first_relevant else "none"
        score = 1 / row.first_relevant if row.first_relevant else 0.0
        yield "first_relevant", score, f"1 / rank; of the relevant candidates {place}"
    for name, pattern in (("ndcg", "ranking/ndcg_at_K"), ("recall", "ranking/recall_at_K")):
        metric = deepest(pattern, row.scores)
        yield name, row.scores.get(metric), metric
    answered = f"{'in' if row.in_scope else 'out of'} scope, and {'answered' if row.retrieved else 'not answered'}"
    yield "scope_right", "yes" if row.in_scope == bool(row.retrieved) else "no", answered
    yield JUDGED, row.scores.get(PRECISION), "\n".join(verdict_lines(row))
