"""MLflow's own server that dies in mid-run; and a huge query."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.tracing.client import TracingClient

from evals.report.model import ChunkEntry
from evals.run import main as evaluate
from evals.tracking.__main__ import main as complete
from tests.support.command import call, environment
from tests.support.experiment import CASES, make_experiment
from tests.support.loopback import free_port
from tests.support.results import report
from tests.support.tracking import run_of, traces_of, written

pytestmark = [pytest.mark.integration, pytest.mark.slow]
EXPERIMENT = "new one"
SECONDS = 180


class MlflowProcess:
    """A server in a process of its own, with its database and artifacts in a folder; to be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [
            sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(self.port),
            "--backend-store-uri", f"sqlite:///{self.folder}/server.db",
            "--artifacts-destination", str(self.folder / "kept"),
        ]  # fmt: skip
        env = environment({"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
        nowhere = subprocess.DEVNULL
        # a group of its own, so that its worker is killed with it
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
        end = time.monotonic() + SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end, "the server did not start"
                time.sleep(0.25)

    def close(self) -> None:
        """Kill it at once, if it runs."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
            self.process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MlflowProcess]:
    with closing(MlflowProcess(tmp_path)) as running:
        running.start()
        yield running


def runs(server: MlflowProcess) -> list[Run]:
    client = MlflowClient(server.url)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    return list(client.search_runs([experiment.experiment_id])) if experiment else []


def test_a_server_that_is_killed_while_traces_are_written_costs_no_result(
    server: MlflowProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tracked = ["--tracking.uri", server.url, "--tracking.experiment", EXPERIMENT]
    flags = ["--config", make_experiment(tmp_path).config, "--no-gate", "--output", "r.json", *tracked]
    logs, calls = TracingClient.log_spans, list[object]()

    def killed_at_the_second(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            server.close()
        return logs(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr("evals.tracking.runs.BATCH", 2)
        patch.setattr(TracingClient, "log_spans", killed_at_the_second)
        done = call(evaluate, [*flags, "--tracking.enabled", "true"], capsys)
    assert done.code == 3 and "Traceback" not in done.err
    assert "incomplete: MLflow" in done.err and "python -m evals.tracking r.json --tracking.uri http://" in done.err
    server.start()
    assert [run.info.status for run in runs(server)] == ["FAILED"]
    done = call(complete, ["r.json", *tracked], capsys)
    assert (done.code, done.err) == (0, "") and "was written" in done.out
    [run] = runs(server)
    assert run.info.status == "FINISHED" and len(run.data.metrics) >= 10
    traces = traces_of(run, server.url)
    assert sorted(str(trace.info.client_request_id) for trace in traces) == sorted(str(case["id"]) for case in CASES)
    assert all(trace.data.spans and trace.info.assessments for trace in traces)
    assert "report.json" in {file.path for file in MlflowClient(server.url).list_artifacts(run.info.run_id)}
    assert "is there already" in call(complete, ["r.json", *tracked], capsys).out


def test_queries_with_a_hundred_long_chunks_are_whole_traces(server: MlflowProcess) -> None:
    made = report()
    [hit, *_] = made.queries[0].retrieved
    hits = [hit.model_copy(update={"rank": rank, "chunk_id": str(rank)}) for rank in range(1, 101)]
    rows = [made.queries[0].model_copy(update={"id": f"q{n}", "retrieved": hits}) for n in range(30)]
    texts = [f"{rank} ".ljust(8_000, "x") for rank in range(1, 101)]
    chunks = {str(rank): ChunkEntry(source="a.md:1-2", text=text) for rank, text in enumerate(texts, 1)}
    whole = made.model_copy(update={"queries": rows, "chunks": chunks})
    whole.model_post_init(None)  # lets each hit find its chunk
    done = written(whole, uri=server.url)
    found = traces_of(run_of(done, server.url), server.url)
    assert len(found) == 30
    assert [document["page_content"] for document in found[0].data.spans[1].outputs] == texts
