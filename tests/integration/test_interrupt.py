"""Ctrl-C and SIGTERM in mid-run."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.child import environment
from tests.support.experiment import Experiment, make_experiment

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.integration, pytest.mark.slow]
BOTH = pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("interrupted"))


def run_until(text: bytes, what: signal.Signals, made: Experiment) -> tuple[int, bytes]:
    """Run on a terminal, send a signal when its progress bar shows the text; the exit code and what was on it."""
    command = [sys.executable, "-m", "evals.run", "--config", str(made.config), "--tracking.enabled", "true"]
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*command, "--metrics", "latency/*", "--latency.repeats", "1000"],
        cwd=made.folder,
        env=environment(),
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen, sent = b"", False
    try:
        while data := _read(master):
            seen += data
            if text in seen and not sent:
                child.send_signal(what)
                sent = True
        return child.wait(timeout=60), seen
    finally:
        os.close(master)
        child.kill()
        child.wait()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except OSError:  # the other side is closed
        return b""


@BOTH
def test_an_interrupted_run_leaves_nothing_half_written(made: Experiment, what: signal.Signals) -> None:
    code, seen = run_until(b"timing", what, made)
    assert code == 128 + what
    assert seen.rstrip().endswith(b"interrupted" if what == signal.SIGINT else b"terminated")
    assert b"Traceback" not in seen
    assert not (made.folder / "mlruns" / "mlflow.db").exists()
    assert not (made.folder / "mlruns" / "reports").exists()
    assert not list(made.folder.rglob("*.part"))


SLOW = """
import pathlib, threading, time
from langchain_core.retrievers import BaseRetriever
class Slow(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        if (threading.current_thread() is threading.main_thread()) != {threads}:
            pathlib.Path("asked").touch()
            time.sleep(20)
        return []
def make():
    return Slow()
"""


@BOTH
@pytest.mark.parametrize("threads", [False, True], ids=["one search", "searches at once"])
def test_a_slow_search_is_not_waited_for(tmp_path: Path, what: signal.Signals, threads: bool) -> None:
    (tmp_path / "slow.py").write_text(SLOW.format(threads=threads))
    (tmp_path / "golden.jsonl").write_text('{"id": "a", "query": "soup", "in_scope": false}\n')
    flags = ["--dataset.path", "golden.jsonl", "--retriever.python", "slow:make"]
    assert_ends_at_once(["evals.run", *flags], what, tmp_path, [ROOT, tmp_path])


@BOTH
@pytest.mark.parametrize("module", ["evals.run", "evals.compare"])
def test_a_command_that_is_still_being_imported_ends_with_a_line(
    tmp_path: Path, module: str, what: signal.Signals
) -> None:
    (tmp_path / "pydantic.py").write_text("import pathlib, time\npathlib.Path('asked').touch()\ntime.sleep(20)\n")
    assert_ends_at_once([module, "a", "b"], what, tmp_path, [tmp_path, ROOT])


def assert_ends_at_once(command: list[str], what: signal.Signals, folder: Path, path: list[Path]) -> None:
    """The command ends within 3 s of a signal that comes when the file `asked` is there, with one line."""
    child = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=folder, env={**environment(), "PYTHONPATH": os.pathsep.join(map(str, path))},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    ends = time.monotonic() + 60
    while not (folder / "asked").exists() and time.monotonic() < ends:
        time.sleep(0.05)
    child.send_signal(what)
    began = time.monotonic()
    _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (128 + what, "interrupted\n" if what == signal.SIGINT else "terminated\n")
    assert time.monotonic() - began < 3


def test_an_interrupted_run_imports_no_mlflow(made: Experiment) -> None:
    """It took up to 19 s, to mark a run as killed that nobody had begun."""
    program = """
import sys
from evals.collect import passes
from evals.run import main

def interrupted(*_, **__):
    raise KeyboardInterrupt

passes.collect = interrupted
code = main(sys.argv[1:])
print(code, "mlflow" in sys.modules)
"""
    command = [sys.executable, "-c", program, "--config", str(made.config), "--tracking.enabled", "true"]
    done = subprocess.run(
        command, cwd=made.folder, env=environment(), capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "130 False\n"
