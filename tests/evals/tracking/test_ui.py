"""The user interface, from its command to its end."""

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from evals.tracking.ui import _has_display, main
from tests.support.child import environment
from tests.support.loopback import free_port
from tests.support.tracking import start


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlflow_database: Path) -> Path:
    """A working directory with a run."""
    (tmp_path / "mlruns").mkdir()
    shutil.copy(mlflow_database, tmp_path / "mlruns")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_runs_there_is_nothing_to_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2
    assert "no runs to show: mlruns/mlflow.db does not exist; go where evals.run was started" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("runs")
def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be used" in (said := capsys.readouterr().err) and "--port" in said


@pytest.mark.slow
def test_the_address_of_the_runs_is_printed_when_the_server_answers(runs: Path) -> None:
    tracker, port = start("shown"), free_port()
    tracker.end("FINISHED")
    command = [sys.executable, "-m", "evals", "ui", "--port", str(port), "--tracking.experiment", "tests"]
    process = subprocess.Popen(command, cwd=runs, env=environment({}), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        page = f"http://127.0.0.1:{port}/#/experiments/{tracker.experiment_id}/evaluation-runs"
        assert process.stdout.readline() == f"Runs: {page} (Ctrl-C ends it)\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            assert answer.read() == b"OK"
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout and process.stdout.close()


@pytest.mark.parametrize(
    ("env", "platform", "shown"),
    [({}, "linux", False), ({"DISPLAY": ":0"}, "linux", True), ({}, "darwin", True), ({"DISPLAY": ""}, "linux", False)],
)
def test_a_browser_is_opened_where_it_has_a_window(env: dict[str, str], platform: str, shown: bool) -> None:
    assert _has_display(env, platform) == shown
