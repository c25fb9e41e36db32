"""Wall time of logging the queries of a run to MLflow as traces, beside MLflow's own client span by span.

    python benchmarks/tracking_traces.py [--queries 88] [--rounds 3]

Both write the same traces (five spans, five documents of 600 characters, four assessments and what was expected),
linked to a run, into a fresh SQLite database and to a server on the loopback with a database of its own. MLflow's own
calls are `start_span_no_context`, `log_feedback` and `log_expectation` while the trace is open, and `end`, with its
background queue switched off: one trace after another, nothing lost. Before a time is printed, the traces are read back
and counted. The least of the rounds counts; then the same for 286 metrics in one request beside 40.
"""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"  # read when MLflow is imported
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
import mlflow
from mlflow.entities import AssessmentSource, Metric

sys.path.insert(0, str(Path(__file__).parents[1]))
from evals.config.experiment import TrackingConfig
from evals.report.traces import Feedback, QueryTrace
from evals.tracking import Tracker, start
from retrievers.terminal.command import print_out

SPAN_TYPES = {"embed": "EMBEDDING", "search": "TOOL", "rerank": "RERANKER"}
PATIENCE_S = 240


def queries(count: int) -> list[QueryTrace]:
    """Queries with five documents each."""
    ranks = range(1, 6)
    return [
        QueryTrace(
            query_id=f"q-{number:03}",
            query=f"which joint carries load number {number}?",
            answer="\n".join(f"{rank}. 0.5 ✓ arms › joints › load {rank}" for rank in ranks),
            documents=tuple(
                {"page_content": f"{number} {rank} ".ljust(600, "x"), "id": f"c{rank}", "metadata": {"rank": rank}}
                for rank in ranks
            ),
            stages={"embed": 0.2, "search": 1.5, "rerank": 3.0, "total": 4.7},
            timing="a single call",
            expected={"relevant_chunks": {"c1": 2}},
            feedback=tuple(Feedback(name=name, value=0.5, reason=name) for name in ("a", "b", "c", "d")),
        )
        for number in range(count)
    ]


def span_by_span(tracker: Tracker, traces: Sequence[QueryTrace]) -> None:
    """Write traces by MLflow's own calls, one after another."""
    mlflow.set_tracking_uri(tracker.uri)
    source = AssessmentSource(source_type="CODE", source_id="benchmark")
    metadata = {"mlflow.sourceRun": tracker.run_id}
    for trace in traces:
        asked = {"query": trace.query}
        root = mlflow.start_span_no_context(
            "answer", span_type="CHAIN", inputs=asked, metadata=metadata, experiment_id=tracker.experiment_id
        )
        retrieval = mlflow.start_span_no_context("retrieve", "RETRIEVER", root, asked)
        for stage, span_type in SPAN_TYPES.items():
            mlflow.start_span_no_context(stage, span_type, retrieval).end()
        retrieval.end(outputs=list(trace.documents))
        for feedback in trace.feedback:
            mlflow.log_feedback(
                trace_id=root.trace_id,
                name=feedback.name,
                value=feedback.value,
                rationale=feedback.reason,
                source=source,
            )
        mlflow.log_expectation(trace_id=root.trace_id, name="expected", value=dict(trace.expected), source=source)
        root.end(outputs=trace.answer)


def timed(
    uri: str, rounds: int, traces: Sequence[QueryTrace], write: Callable[[Tracker, Sequence[QueryTrace]], None]
) -> float:
    """Return the least time, in seconds, of writing traces to a new run; all of them have to be there then."""
    times = []
    for _ in range(rounds):
        tracker = start(TrackingConfig.model_validate({"uri": uri, "experiment": "benchmark"}), "traces", {})
        begun = time.perf_counter()
        write(tracker, traces)
        times.append(time.perf_counter() - begun)
        tracker.end("FINISHED")
        kept = tracker.client.search_traces(
            locations=[tracker.experiment_id], filter_string=f"attributes.run_id = '{tracker.run_id}'", max_results=500
        )
        counts = {(len(trace.data.spans), len(trace.info.assessments)) for trace in kept}
        assert len(kept) == len(traces) and counts == {(5, 5)}, f"{len(kept)} of {len(traces)} traces, {counts}"
    return min(times)


def metrics_time(uri: str, rounds: int, count: int) -> float:
    """Return the least time, in seconds, of writing a run's metrics in one request."""
    times = []
    for _ in range(rounds):
        tracker = start(TrackingConfig.model_validate({"uri": uri, "experiment": "benchmark"}), "metrics", {})
        begun = time.perf_counter()
        tracker.client.log_batch(tracker.run_id, metrics=[Metric(f"m/{n}", n / 7, 1, 0) for n in range(count)])
        times.append(time.perf_counter() - begun)
        tracker.end("FINISHED")
    return min(times)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Yield the address of MLflow's server on the loopback, with one worker."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port),
        "--backend-store-uri", f"sqlite:///{folder / 'server.db'}", "--artifacts-destination", str(folder / "kept"),
    ]  # fmt: skip
    quiet = subprocess.DEVNULL
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet)
    try:
        address, end = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
                break
            assert process.poll() is None and time.monotonic() < end, "the server did not start"
            time.sleep(0.25)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=88)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    traces = queries(given.queries)
    with TemporaryDirectory() as folder, server(Path(folder)) as address:
        for name, uri in (("SQLite", f"sqlite:///{Path(folder) / 'runs.db'}"), ("loopback server", address)):
            ours = timed(uri, given.rounds, traces, Tracker.log_traces)
            theirs = timed(uri, given.rounds, traces, span_by_span)
            print_out(
                f"{name:<16} {given.queries} traces: batches {ours:.2f} s, MLflow's client {theirs:.2f} s, "
                f"ratio {ours / theirs:.2f}  load {os.getloadavg()[0]:.1f}"
            )
            few, many = (metrics_time(uri, given.rounds, count) for count in (40, 286))
            print_out(f"{name:<16} 40 metrics {few * 1e3:.0f} ms, 286 {many * 1e3:.0f} ms, ratio {few / many:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
