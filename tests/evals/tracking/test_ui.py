"""The user interface, from its command to its end."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from evals.tracking import ui
from evals.tracking.ui import main
from tests.support.command import environment
from tests.support.loopback import free_port
from tests.support.results import report
from tests.support.tracking import written

ANSWERS = """
import sys
from http.server import HTTPServer, SimpleHTTPRequestHandler
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), SimpleHTTPRequestHandler)
for request in ("that all is well", "of the page"):
    server.handle_request()
"""
Opened = list[str]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The pages that the browser was given."""
    pages: Opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", pages.append)
    return pages


def test_without_runs_there_is_nothing_to_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for flags in ([], ["--tracking.uri", f"sqlite:///{tmp_path}/mlruns/mlflow.db"]):
        assert main(flags) == 2
        said = f"no runs to show: {tmp_path}/mlruns/mlflow.db does not exist; go where evals.run was started"
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        (ANSWERS, 0, "Runs: {page} (Ctrl-C ends it)\n"),
        ("exit(1)", 2, "MLflow's server did not start; where port {port} is taken"),
    ],
    ids=["answers", "ends"],
)
def test_the_page_is_told_and_opened_once_the_server_answers_and_its_end_is_waited_for(
    program: str,
    code: int,
    said: str,
    folder: Path,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = free_port()
    page = f"http://127.0.0.1:{port}/#/experiments"
    (folder / "health").touch()

    def start(port: int, uri: str) -> subprocess.Popen[bytes]:
        assert uri.startswith("sqlite:////") and Path(uri.removeprefix("sqlite:///")).is_file()
        return subprocess.Popen([sys.executable, "-c", program, str(port)], stderr=subprocess.DEVNULL)

    def visit(page: str) -> None:
        opened.append(page)
        urllib.request.urlopen(page).close()

    monkeypatch.setattr(ui, "_start", start)
    monkeypatch.setattr("webbrowser.open", visit)
    assert main(["--port", str(port)]) == code
    done = capsys.readouterr()
    assert said.format(page=page, port=port) in done.out + done.err
    assert opened == ([] if code else [page])


def test_a_server_is_opened_at_its_page_and_nothing_is_started(
    opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--tracking.uri", "https://me:s3cret@mlflow.example/"]) == 0
    assert capsys.readouterr().out == "Runs: https://***@mlflow.example/#/experiments\n"
    assert main(["--tracking.uri", "https://mlflow.example/", "--no-browser"]) == 0
    assert opened == ["https://***@mlflow.example/#/experiments"]


@pytest.mark.slow
def test_the_address_of_the_runs_is_printed_when_the_server_answers(folder: Path) -> None:
    written(report())
    port = free_port()
    command = [sys.executable, "-m", "evals", "ui", "--port", str(port), "--no-browser"]
    process = subprocess.Popen(command, cwd=folder, env=environment({}), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert process.stdout.readline() == f"Runs: http://127.0.0.1:{port}/#/experiments (Ctrl-C ends it)\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            assert answer.read() == b"OK"
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout and process.stdout.close()
