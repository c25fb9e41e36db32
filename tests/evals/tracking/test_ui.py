"""The user interface, from its command to its end."""

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from evals.tracking import ui
from evals.tracking.ui import main
from tests.support.child import environment
from tests.support.loopback import free_port
from tests.support.results import report
from tests.support.tracking import run_of, written


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
    for flags in ([], ["--tracking.uri", f"sqlite:///{tmp_path}/mlruns/mlflow.db"]):
        assert main(flags) == 2
        said = f"no runs to show: {tmp_path}/mlruns/mlflow.db does not exist; go where evals.run was started"
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("runs")
def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be used" in (said := capsys.readouterr().err) and "--port" in said


class Health(BaseHTTPRequestHandler):
    """Answers that all is well."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Process:
    """MLflow's server as a thread: it answers, or it says something and ends with `code` at once."""

    def __init__(self, port: int, output: int, code: int | None = None, said: bytes = b"") -> None:
        self.code, self.http = code, HTTPServer(("127.0.0.1", port), Health) if code is None else None
        self.interrupts, self.ended = 0, False
        os.write(output, said)
        if self.http:
            self.thread = Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            self.thread.start()

    def poll(self) -> int | None:
        return self.code

    def wait(self) -> int:
        if self.interrupts and not self.ended:
            raise KeyboardInterrupt
        return self.code or 0

    def terminate(self) -> None:
        self.ended = True
        if self.http:
            self.http.shutdown()
            self.http.server_close()
            self.thread.join()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Process]]:
    """Have processes of such a kind in place of MLflow's server, which takes seconds to start; return those begun."""
    begun: list[Process] = []

    def of_a_kind(interrupts: int = 0, **kind: object) -> list[Process]:
        def start_one(port: int, uri: str, output: int) -> Process:
            assert uri.startswith("sqlite:////") and Path(uri.removeprefix("sqlite:///")).is_file()
            begun.append(Process(port, output, **kind))  # type: ignore[arg-type]
            begun[-1].interrupts = interrupts
            return begun[-1]

        monkeypatch.setattr(ui, "_start", start_one)
        return begun

    return of_a_kind


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pages that were opened, on a machine with a display."""
    pages: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", pages.append)
    return pages


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("flags", "seen"), [([], True), (["--no-browser"], False)])
def test_the_page_of_the_runs_is_printed_and_opened(
    serve: Callable[..., list[Process]],
    opened: list[str],
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    seen: bool,
) -> None:
    begun, address = serve(), f"http://127.0.0.1:{(port := free_port())}/#/experiments"
    assert main(["--port", str(port), *flags]) == 0
    assert capsys.readouterr().out == f"Runs: {address} (Ctrl-C ends it)\n"
    assert opened == ([address] if seen else [])
    assert [one.ended for one in begun] == [True]


def test_a_server_is_opened_at_its_page_and_nothing_is_started(
    opened: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--tracking.uri", "https://me:s3cret@mlflow.example/"]) == 0
    assert capsys.readouterr().out == "Runs: https://***@mlflow.example/#/experiments\n"
    assert opened == ["https://***@mlflow.example/#/experiments"]


@pytest.mark.usefixtures("runs", "opened")
def test_ctrl_c_ends_the_server_and_is_no_fault(serve: Callable[..., list[Process]]) -> None:
    begun = serve(interrupts=1)
    assert main(["--port", str(free_port())]) == 0
    assert begun[0].ended


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("said", "reason"), [(b"starting\nno such table: runs\n", "no such table: runs"), (b"", "it says nothing")]
)
def test_a_server_that_ends_at_once_is_told_with_its_last_line(
    serve: Callable[..., list[Process]], opened: list[str], capsys: pytest.CaptureFixture[str], said: bytes, reason: str
) -> None:
    begun = serve(code=1, said=said)
    assert main(["--port", str(free_port())]) == 2
    assert f"MLflow's server did not start: {reason}\n" in capsys.readouterr().err
    assert opened == [] and begun[0].ended


@pytest.mark.slow
def test_the_address_of_the_runs_is_printed_when_the_server_answers(runs: Path) -> None:
    done, port = run_of(written(report())), free_port()
    command = [sys.executable, "-m", "evals", "ui", "--port", str(port)]
    process = subprocess.Popen(command, cwd=runs, env=environment({}), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        page = f"http://127.0.0.1:{port}/#/experiments/{done.info.experiment_id}/evaluation-runs"
        assert process.stdout.readline() == f"Runs: {page} (Ctrl-C ends it)\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            assert answer.read() == b"OK"
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout and process.stdout.close()
