"""Ctrl-C and SIGTERM in mid-run, and while the judge is being asked."""

import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from evals.run import main
from tests.support.chat_server import CohereChatServer
from tests.support.child import ROOT, environment, python
from tests.support.command import call
from tests.support.experiment import Experiment, load_report, make_experiment, settings
from tests.support.judged_experiment import calls_of, judge_flags, known_of, make_judged

pytestmark = [pytest.mark.integration, pytest.mark.slow]
BOTH = pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))
SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
AT_ONCE = 4
UNANSWERED_S = 40.0


@contextmanager
def started(command: list[str], folder: Path, env: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Yield a process that is ended at the end, whatever it does."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, *command], cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)
    with child:
        try:
            yield child
        finally:
            child.kill()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("interrupted"))


@BOTH
def test_an_interrupted_run_leaves_nothing_half_written(made: Experiment, what: signal.Signals) -> None:
    """On a terminal, when the progress bar shows that searches are being timed."""
    command = [sys.executable, "-m", "evals.run", "--config", str(made.config), "--tracking.enabled", "true"]
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*command, "--metrics", "latency/*", "--latency.repeats", "1000"],
        cwd=made.folder, env=environment(), stdout=slave, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    seen, sent = b"", False
    try:
        with suppress(OSError):  # the other side is closed
            while data := os.read(master, 65_536):
                seen += data
                if b"timing" in seen and not sent:
                    child.send_signal(what)
                    sent = True
        code = child.wait(timeout=60)
    finally:
        os.close(master)
        child.kill()
        child.wait()
    assert (code, seen.rstrip().endswith(SAID[what].encode()), b"Traceback" in seen) == (128 + what, True, False)
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
    env = environment({"PYTHONPATH": os.pathsep.join(map(str, path))})
    with started(["-m", *command], folder, env) as child:
        ends = time.monotonic() + 60
        while not (folder / "asked").exists() and time.monotonic() < ends:
            time.sleep(0.05)
        child.send_signal(what)
        began = time.monotonic()
        _, said = child.communicate(timeout=30)
        assert (child.returncode, said) == (128 + what, f"{SAID[what]}\n")
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
    done = python(["-c", program, "--config", made.config, "--tracking.enabled", "true"], made.folder)
    assert done.stdout == "130 False\n"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged(tmp_path_factory.mktemp("judged"))


def count(store: Path) -> int:
    """Return how many verdicts a store holds."""
    database = sqlite3.connect(store)
    try:
        [(number,)] = database.execute("SELECT count(*) FROM verdicts")
        return int(number)
    finally:
        database.close()


@contextmanager
def judging(made: Experiment, server: CohereChatServer, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    command = ["-m", "evals.run", *flags_of(made, server, folder), "--tracking.enabled", "true"]
    with started(command, folder, environment({"COHERE_API_KEY": server.key})) as child:
        yield child


def flags_of(made: Experiment, server: CohereChatServer, folder: Path) -> list[str]:
    flags = ["--config", str(made.config), *judge_flags(server, folder), "--judge.max-concurrency", str(AT_ONCE)]
    return [*flags, "--output", str(folder / "report.json")]


@BOTH
def test_what_was_paid_for_is_kept_and_nothing_more_is_asked(
    judged: Experiment,
    tmp_path: Path,
    what: signal.Signals,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with CohereChatServer(known_of(settings(judged))[2], latency=0.3) as server:
        with judging(judged, server, tmp_path) as child:
            while len(server.chats) < 7 and child.poll() is None:
                time.sleep(0.01)
            child.send_signal(what)
            _, said = child.communicate(timeout=100)
        first, last = said.strip().split("\n")
        assert first.endswith("calls in flight, whose verdicts are kept; again to end at once")
        assert (child.returncode, last) == (128 + what, SAID[what])
        bought = len(server.chats)
        assert 7 <= bought <= 7 + AT_ONCE
        assert count(tmp_path / "verdicts.sqlite") == bought, "those in flight as well"
        assert not (tmp_path / "mlruns" / "mlflow.db").exists()
        assert not (tmp_path / "report.json").exists()
        server.latency = 0.0
        monkeypatch.setenv("COHERE_API_KEY", server.key)
        assert call(main, flags_of(judged, server, tmp_path), capsys).code == 0
        assert len(server.chats) == calls_of(load_report(tmp_path / "report.json")["queries"]) > bought


def test_interrupted_again_it_ends_at_once_with_what_was_committed(judged: Experiment, tmp_path: Path) -> None:
    store = tmp_path / "verdicts.sqlite"
    with CohereChatServer(known_of(settings(judged))[2]) as server, judging(judged, server, tmp_path) as child:
        assert child.stderr
        while len(server.chats) < 3 and child.poll() is None:
            time.sleep(0.01)
        server.latency = UNANSWERED_S
        while child.poll() is None and len(server.chats) - count(store) < AT_ONCE:
            time.sleep(0.01)
        committed = count(store)
        child.send_signal(signal.SIGINT)
        assert "; again to end at once" in child.stderr.readline()
        asked = time.monotonic()
        said = None
        while said is None:
            assert time.monotonic() - asked < UNANSWERED_S / 2
            child.send_signal(signal.SIGINT)
            # Python loses an interrupt that comes while an object is destroyed; whoever waits presses again.
            with suppress(subprocess.TimeoutExpired):
                said = child.communicate(timeout=5)[1]
        assert child.returncode == 130 and said.endswith("interrupted\n")
        assert count(store) >= committed, "calls of before may have been answered meanwhile"
        assert not (tmp_path / "mlruns" / "mlflow.db").exists()
