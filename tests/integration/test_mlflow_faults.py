"""MLflow's own server that dies in mid-run, has no room, or is spoken to by two runs at once; and a huge query."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.tracing.client import TracingClient

from evals.report.model import ChunkEntry
from evals.run import main as evaluate
from evals.tracking.__main__ import main as complete
from tests.support.child import environment
from tests.support.command import Done, call
from tests.support.experiment import CASES, Experiment, make_experiment
from tests.support.mlflow_process import MlflowProcess, mlflow_process, small_disk
from tests.support.results import report
from tests.support.tracking import run_of, traces_of, written

pytestmark = [pytest.mark.integration, pytest.mark.slow]
EXPERIMENT = "new one"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MlflowProcess]:
    with mlflow_process(tmp_path) as running:
        yield running


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.chdir(tmp_path)
    return make_experiment(tmp_path)


def flags(made: Experiment, server: MlflowProcess) -> list[str]:
    tracking = ["--tracking.enabled", "true", "--tracking.uri", server.url, "--tracking.experiment", EXPERIMENT]
    return ["--config", str(made.config), "--no-gate", "--output", "r.json", *tracking]


def runs(server: MlflowProcess) -> list[Run]:
    client = MlflowClient(server.url)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    return list(client.search_runs([experiment.experiment_id])) if experiment else []


def assert_kept(done: Done) -> None:
    """The run was told as incomplete, with the command that completes it; its report is there."""
    assert done.code == 3 and "Traceback" not in done.err
    assert "incomplete: MLflow" in done.err and "python -m evals.tracking r.json --tracking.uri http://" in done.err
    assert Path("r.json").is_file()


def assert_completed(server: MlflowProcess, capsys: pytest.CaptureFixture[str]) -> None:
    """The report brings all of the run, once."""
    late = ["r.json", "--tracking.uri", server.url, "--tracking.experiment", EXPERIMENT]
    done = call(complete, late, capsys)
    assert (done.code, done.err) == (0, "") and "was written" in done.out
    [run] = runs(server)
    assert run.info.status == "FINISHED" and len(run.data.metrics) >= 10
    client = MlflowClient(server.url)
    traces = client.search_traces(locations=[run.info.experiment_id], run_id=run.info.run_id)
    assert sorted(trace.info.client_request_id for trace in traces) == sorted(case["id"] for case in CASES)
    assert all(trace.data.spans and trace.info.assessments for trace in traces)
    assert "report.json" in {file.path for file in client.list_artifacts(run.info.run_id)}
    assert "is there already" in call(complete, late, capsys).out


@pytest.mark.parametrize("moment", ["before the run", "while traces are written", "before the end"])
def test_a_server_that_is_killed_costs_no_result(
    made: Experiment,
    server: MlflowProcess,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def killed_at_the_second(function: Callable[..., Any]) -> Callable[..., Any]:
        calls: list[object] = []

        def wrapped(*arguments: Any, **named: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 2:
                server.kill()
            return function(*arguments, **named)

        return wrapped

    with monkeypatch.context() as patch:
        if moment == "before the run":
            server.kill()
        elif moment == "while traces are written":
            patch.setattr("evals.tracking.runs.BATCH", 2)
            patch.setattr(TracingClient, "log_spans", killed_at_the_second(TracingClient.log_spans))
        else:
            # The first call marks the run as one that is not whole.
            patch.setattr(MlflowClient, "set_terminated", killed_at_the_second(MlflowClient.set_terminated))
        done = call(evaluate, flags(made, server), capsys)
    assert_kept(done)
    server.start()
    assert [run.info.status for run in runs(server)] == ([] if moment == "before the run" else ["FAILED"])
    assert_completed(server, capsys)


def test_a_full_disk_under_the_artifacts_costs_no_result(
    made: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "kept", 1) as resize, mlflow_process(tmp_path) as server:
        (tmp_path / "kept" / "filler").write_bytes(bytes(2**20))
        assert_kept(call(evaluate, flags(made, server), capsys))
        assert resize(50) == 0
        assert_completed(server, capsys)
        server.kill()


def test_two_runs_at_once_share_a_new_experiment(made: Experiment, server: MlflowProcess) -> None:
    subprocess.run([sys.executable, "-m", "evals.run", "--config", str(made.config), "--quiet"],
                   cwd=made.folder, env=environment(), check=True, timeout=300)  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "evals.run", *flags(made, server), "--output", f"{name}.json"],
            cwd=made.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("a", "b")
    ]  # fmt: skip
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    found = runs(server)
    assert [run.info.status for run in found] == ["FINISHED", "FINISHED"]
    assert {re.search(r"runs/(\w{32})", out)[1] for out, _ in said} == {run.info.run_id for run in found}  # type: ignore[index]


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
