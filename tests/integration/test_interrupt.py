"""Ctrl-C and SIGTERM in mid-run."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.support.child import environment
from tests.support.experiment import Experiment, make_experiment

pytestmark = [pytest.mark.integration, pytest.mark.slow]


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


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))
def test_an_interrupted_run_leaves_nothing_half_written(made: Experiment, what: signal.Signals) -> None:
    code, seen = run_until(b"timing", what, made)
    assert code == 130
    assert seen.rstrip().endswith(b"interrupted")
    assert b"Traceback" not in seen
    assert not (made.folder / "mlruns" / "mlflow.db").exists()
    assert not (made.folder / "mlruns" / "reports").exists()
    assert not list(made.folder.rglob("*.part"))


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
