"""Queries as MLflow traces: spans of the measured durations, judgements as assessments.

MLflow's own ways to trace write in the background, where what fails is logged and lost. Here batches of traces are
written and waited for.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from secrets import randbits
from typing import TYPE_CHECKING, Any

from evals.report.traces import STAGES, Feedback, QueryTrace
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Span, TraceInfo
    from mlflow.tracing.client import TracingClient

log = logging.getLogger(__name__)
ROOT, RETRIEVAL, EXPECTED = "answer", "retrieve", "expected"
# Traces of one batch, of which two are begun at once: more wait for one another at the database of a server.
BATCH = 24
WORKERS = 2
UNKNOWN = "error code 404"
OLD_SERVER = "; an older server knows no traces: MLflow has all else"
Trace = tuple["TraceInfo", list["Span"]]


def write_traces(client: "MlflowClient", experiment_id: str, runs: Sequence[str], traces: Sequence[QueryTrace]) -> int:
    """Write traces, linked to runs. Those that fail are named in a line of the log; a batch that fails whole ends it.

    Args:
        client: Client of MLflow.
        experiment_id: Id of the runs' experiment.
        runs: Ids of the runs that they are of.
        traces: The worst first; a list by time shows them in this order.

    Returns:
        The number of traces that are missing and that a further attempt may bring.
    """
    from mlflow.tracing.client import TracingClient

    if not traces:
        return 0
    store = TracingClient(client.tracking_uri)
    latest = time.time_ns()
    written, fault, unlinked = 0, "", ""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="traces") as pool:
        for first in range(0, len(traces), BATCH):
            # A millisecond apart: MLflow sorts traces by time in milliseconds.
            batch = [
                _trace(trace, experiment_id, runs, latest - (first + number) * 1_000_000)
                for number, trace in enumerate(traces[first : first + BATCH])
            ]
            faults = list(pool.map(lambda trace: _begin(store, trace), batch))
            accepted = [trace for trace, failed in zip(batch, faults, strict=True) if not failed]
            lost = _log_spans(store, experiment_id, accepted)
            written += 0 if lost else len(accepted)
            fault = fault or next(filter(None, (*faults, lost)), "")
            if lost or not accepted:
                break
            unlinked = unlinked or _link(client, accepted, runs[1:])
    if fault or unlinked:
        old = OLD_SERVER if UNKNOWN in fault else ""
        which = ", not linked to all of their runs" if unlinked else ""
        why = redacted(fault or unlinked)[:300]
        log.warning("MLflow has %d of %d traces of the queries%s (%s)%s", written, len(traces), which, why, old)
    return 0 if UNKNOWN in fault else len(traces) - written


def _trace(trace: QueryTrace, experiment_id: str, runs: Sequence[str], start: int) -> Trace:
    number = randbits(128) or 1
    spans = list(_spans(trace, number, start))
    return _info(trace, number, experiment_id, runs, spans[0]), spans


def _begin(store: "TracingClient", trace: Trace) -> str:
    """Write a trace without its spans; return what failed."""
    try:
        store.start_trace(trace[0])
    except Exception as error:  # MLflow's, SQLAlchemy's or that of requests
        return f"{type(error).__name__}: {error}"
    return ""


def _log_spans(store: "TracingClient", experiment_id: str, traces: Sequence[Trace]) -> str:
    """Write the spans of a batch in one request; return what failed."""
    try:
        store.log_spans(experiment_id, list(chain.from_iterable(spans for _, spans in traces)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _link(client: "MlflowClient", traces: Sequence[Trace], runs: Sequence[str]) -> str:
    """Link the traces of a batch to further runs; return what failed."""
    try:
        for run_id in runs:
            client.link_traces_to_run([info.trace_id for info, _ in traces], run_id)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _info(trace: QueryTrace, number: int, experiment_id: str, runs: Sequence[str], root: "Span") -> "TraceInfo":
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
        response_preview=trace.answer,
        client_request_id=trace.query_id,
        trace_metadata={TraceMetadataKey.SOURCE_RUN: runs[0]},
        tags={TraceTagKey.TRACE_NAME: ROOT, "query_id": trace.query_id},
        assessments=list(_assessments(trace, number, runs)),
    )


def _spans(trace: QueryTrace, number: int, start: int) -> Iterator["Span"]:
    """Yield the query with its answer, the retrieval in it, then its stages one after another within that.

    Args:
        trace: The query.
        number: Number of the trace.
        start: Start, in nanoseconds since 1970.
    """
    from mlflow.entities import SpanType

    durations = {stage: round(ms * 1_000_000) for stage, ms in trace.stages.items()}
    # Rounded stages can sum to more than the total, and a span must hold its children.
    end = start + max(durations.get("total", 0), sum(durations.get(stage, 0) for stage in STAGES))
    root, retrieval = randbits(64) or 1, randbits(64) or 1
    inputs, documents = {"query": trace.query}, [dict(document) for document in trace.documents]
    about = {"query_id": trace.query_id, "timing": trace.timing}
    yield _span(ROOT, (number, root, None), (start, end), _content(SpanType.CHAIN, inputs, trace.answer) | about)
    content = _content(SpanType.RETRIEVER, inputs, documents)
    yield _span(RETRIEVAL, (number, retrieval, root), (start, end), content)
    types = {"embed": SpanType.EMBEDDING, "search": SpanType.TOOL, "rerank": SpanType.RERANKER}
    for stage in (stage for stage in STAGES if stage in durations):
        times = (start, start + durations[stage])
        measured = {"mlflow.spanType": types[stage], "duration_ms": trace.stages[stage]}
        yield _span(stage, (number, randbits(64) or 1, retrieval), times, measured)
        start = times[1]


def _content(span_type: str, inputs: object, outputs: object) -> dict[str, Any]:
    return {"mlflow.spanType": span_type, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}


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


def _assessments(trace: QueryTrace, number: int, runs: Sequence[str]) -> Iterator["Assessment"]:
    """Yield feedback, and what was expected."""
    from mlflow.entities import AssessmentSource, Expectation

    # An assessment that names a run is hidden in every other.
    metadata = {"mlflow.assessment.sourceRunId": runs[0]} if len(runs) == 1 else {}
    trace_id = _trace_id(number)
    for feedback in trace.feedback:
        yield _feedback(feedback, trace_id, metadata)
    source = AssessmentSource(source_type="HUMAN", source_id="golden data")
    # One expectation: each is a column before the assessments.
    yield Expectation(name=EXPECTED, value=dict(trace.expected), source=source, trace_id=trace_id, metadata=metadata)


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
