"""Queries as MLflow traces: spans of the measured durations, scores as assessments.

MLflow's own ways to trace write in the background, where what fails is logged and lost. Here each trace is written and
waited for, one after another, and read back.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from secrets import randbits
from typing import TYPE_CHECKING, Any

from evals.errors import TrackingError
from evals.report.traces import STAGES, Feedback, QueryTrace

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Span, TraceInfo

ROOT = "retrieve"
REFERENCE = "reference answer"


def write_traces(client: "MlflowClient", experiment_id: str, run_id: str, traces: Sequence[QueryTrace]) -> None:
    """Write traces, linked to a run, and make sure that they are there whole.

    Args:
        client: Client of MLflow.
        experiment_id: Id of the run's experiment.
        run_id: The run that they are of.
        traces: The worst first; a list by time shows them in this order.

    Raises:
        TrackingError: MLflow does not give back every span and assessment.
        Exception: MLflow's, SQLAlchemy's or that of requests.
    """
    from mlflow.tracing.client import TracingClient

    store = TracingClient(client.tracking_uri)
    latest = time.time_ns()
    written: dict[str, tuple[QueryTrace, int, int]] = {}
    for index, trace in enumerate(traces):
        number = randbits(128) or 1
        # A millisecond apart: MLflow sorts traces by time in milliseconds.
        spans = list(_spans(trace, number, latest - index * 1_000_000))
        info = _info(trace, number, experiment_id, run_id, spans[0])
        store.start_trace(info)
        store.log_spans(experiment_id, spans)
        written[info.trace_id] = (trace, len(spans), len(info.assessments))
    _check(client, written)


def _check(client: "MlflowClient", written: Mapping[str, tuple[QueryTrace, int, int]]) -> None:
    """Read every trace back."""
    partial = []
    for trace_id, (trace, spans, assessments) in written.items():
        stored = client.get_trace(trace_id, display=False)
        if (len(stored.data.spans), len(stored.info.assessments)) != (spans, assessments):
            partial.append(trace.query_id)
    if partial:
        raise TrackingError(f"MLflow kept {len(written) - len(partial)} of {len(written)} traces whole, not {partial}")


def _info(trace: QueryTrace, number: int, experiment_id: str, run_id: str, root: "Span") -> "TraceInfo":
    from mlflow.entities import TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

    start, end = root.start_time_ns, root.end_time_ns or root.start_time_ns
    return TraceInfo(
        trace_id=_trace_id(number),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=start // 1_000_000,
        execution_duration=(end - start) // 1_000_000,
        state=TraceState.OK,
        request_preview=trace.query,
        response_preview="\n".join(f"{d['metadata']['rank']}. {d['metadata']['source']}" for d in trace.documents),
        client_request_id=trace.query_id,
        trace_metadata={TraceMetadataKey.SOURCE_RUN: run_id},
        tags={TraceTagKey.TRACE_NAME: ROOT, "query_id": trace.query_id},
        assessments=list(_assessments(trace, number, run_id)),
    )


def _spans(trace: QueryTrace, number: int, start: int) -> Iterator["Span"]:
    """Yield the retrieval, then its stages one after another within it.

    Args:
        trace: The query.
        number: Number of the trace.
        start: Start, in nanoseconds since 1970.
    """
    from mlflow.entities import SpanType

    durations = {stage: round(ms * 1_000_000) for stage, ms in trace.stages.items()}
    # Rounded stages can sum to more than the total, and a span must hold its children.
    whole = max(durations.get("total", 0), sum(durations.get(stage, 0) for stage in STAGES))
    root = randbits(64) or 1
    metadata = {"query_id": trace.query_id, "timing": trace.timing}
    inputs, outputs = {"query": trace.query}, [dict(document) for document in trace.documents]
    content = {"mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs, "mlflow.spanType": SpanType.RETRIEVER}
    yield _span(ROOT, (number, root, None), (start, start + whole), content | metadata)
    types = {"embed": SpanType.EMBEDDING, "search": SpanType.TOOL, "rerank": SpanType.RERANKER}
    for stage in (stage for stage in STAGES if stage in durations):
        end = start + durations[stage]
        about = {"mlflow.spanType": types[stage], "duration_ms": trace.stages[stage]}
        yield _span(stage, (number, randbits(64) or 1, root), (start, end), about)
        start = end


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
    encoded = {key: json.dumps(value) for key, value in attributes.items()}
    return Span(
        ReadableSpan(
            name=name,
            context=SpanContext(number, own, is_remote=False),
            parent=SpanContext(number, parent, is_remote=False) if parent else None,
            resource=Resource.get_empty(),
            attributes={**encoded, "mlflow.traceRequestId": json.dumps(_trace_id(number))},
            start_time=times[0],
            end_time=times[1],
            status=Status(StatusCode.OK),
        )
    )


def _assessments(trace: QueryTrace, number: int, run_id: str) -> Iterator["Assessment"]:
    """Yield every score as feedback, and the reference answer as an expectation."""
    from mlflow.entities import AssessmentSource, Expectation

    trace_id, metadata = _trace_id(number), {"mlflow.assessment.sourceRunId": run_id}
    for feedback in trace.feedback:
        yield _feedback(feedback, trace_id, metadata)
    if trace.reference:
        source = AssessmentSource(source_type="HUMAN", source_id="golden data")
        yield Expectation(name=REFERENCE, value=trace.reference, source=source, trace_id=trace_id, metadata=metadata)


def _feedback(feedback: Feedback, trace_id: str, metadata: dict[str, str]) -> "Assessment":
    from mlflow.entities import AssessmentError, AssessmentSource
    from mlflow.entities import Feedback as MlflowFeedback

    failed = feedback.failure
    return MlflowFeedback(
        name=feedback.name,
        value=feedback.value,
        rationale=feedback.reason or None,
        source=AssessmentSource(source_type=feedback.source[0], source_id=feedback.source[1]),
        error=AssessmentError(error_code=failed.type, error_message=failed.message) if failed else None,
        trace_id=trace_id,
        metadata=metadata,
    )


def _trace_id(number: int) -> str:
    return f"tr-{number:032x}"
