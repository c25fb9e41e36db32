"""The user interface, from its command to its end."""

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
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


class Server:
    """MLflow's server in this process: it answers, or it says something and ends at once, with `code`."""

    def __init__(self, port: int, output: int, code: int | None, said: bytes, *, interrupted: bool) -> None:
        self.code, self.interrupted, self.ended = code, interrupted, False
        os.write(output, said)
        if code is None:
            self.http = HTTPServer(("127.0.0.1", port), Health)
            Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def poll(self) -> int | None:
        return self.code

    def wait(self) -> int:
        if self.interrupted and not self.ended:
            raise KeyboardInterrupt
        return self.code or 0

    def terminate(self) -> None:
        self.ended = True
        if self.code is None:
            self.http.shutdown()
            self.http.server_close()


class Health(BaseHTTPRequestHandler):
    """Answers that all is well."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("flags", "code", "said", "interrupted", "printed"),
    [
        ([], None, b"", False, "Runs: {page} (Ctrl-C ends it)\n"),
        (["--no-browser"], None, b"", False, "Runs: {page} (Ctrl-C ends it)\n"),
        ([], None, b"", True, "Runs: {page} (Ctrl-C ends it)\n"),
        ([], 1, b"starting\nno such table: runs\n", False, "MLflow's server did not start: no such table: runs\n"),
        ([], 1, b"", False, "MLflow's server did not start: it says nothing\n"),
    ],
)
def test_the_page_is_told_and_opened_once_the_server_answers_and_its_end_is_waited_for(
    flags: list[str], code: int | None, said: bytes, interrupted: bool, printed: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    begun, opened, port = list[Server](), list[str](), free_port()
    page = f"http://127.0.0.1:{port}/#/experiments"

    def start(port: int, uri: str, output: int) -> Server:
        assert uri.startswith("sqlite:////") and Path(uri.removeprefix("sqlite:///")).is_file()
        begun.append(Server(port, output, code, said, interrupted=interrupted))
        return begun[-1]

    monkeypatch.setattr(ui, "_start", start)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["--port", str(port), *flags]) == (2 if code else 0)
    done = capsys.readouterr()
    assert (done.out + done.err).endswith(printed.format(page=page))
    assert opened == ([page] if code is None and not flags else []) and [one.ended for one in begun] == [True]


def test_a_server_is_opened_at_its_page_and_nothing_is_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["--tracking.uri", "https://me:s3cret@mlflow.example/"]) == 0
    assert capsys.readouterr().out == "Runs: https://***@mlflow.example/#/experiments\n"
    assert opened == ["https://***@mlflow.example/#/experiments"]


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
