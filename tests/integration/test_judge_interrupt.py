"""Ctrl-C and SIGTERM while the judge is being asked."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from evals.run import main
from tests.support.chat_server import CohereChatServer
from tests.support.child import environment
from tests.support.command import call
from tests.support.experiment import Experiment, load_report, settings
from tests.support.judged_experiment import calls_of, judge_flags, known_of, make_judged

pytestmark = [pytest.mark.integration, pytest.mark.slow]
AT_ONCE = 4
UNANSWERED_S = 40.0
COUNT = "SELECT count(*) FROM verdicts"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged(tmp_path_factory.mktemp("judged"))


def rows(file: Path, statement: str) -> list[str]:
    database = sqlite3.connect(file)
    try:
        return [str(value) for (value,) in database.execute(statement)]
    finally:
        database.close()


def flags_of(made: Experiment, server: CohereChatServer, folder: Path) -> list[str]:
    flags = ["--config", str(made.config), *judge_flags(server, folder), "--judge.max-concurrency", str(AT_ONCE)]
    return [*flags, "--output", str(folder / "report.json")]


def begin(flags: list[str], server: CohereChatServer, folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "evals.run", *flags, "--tracking.enabled", "true"]
    env = environment({"COHERE_API_KEY": server.key})
    return subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))
def test_what_was_paid_for_is_kept_and_nothing_more_is_asked(
    made: Experiment,
    tmp_path: Path,
    what: signal.Signals,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with CohereChatServer(known_of(settings(made))[2], latency=0.3) as server:
        flags = flags_of(made, server, tmp_path)
        child = begin(flags, server, tmp_path)
        try:
            while len(server.chats) < 7 and child.poll() is None:
                time.sleep(0.01)
            child.send_signal(what)
            _, said = child.communicate(timeout=100)
        finally:
            child.kill()
        first, last = said.strip().split("\n")
        assert first.endswith("calls in flight, whose verdicts are kept; again to end at once")
        assert (child.returncode, last) == (128 + what, "interrupted" if what == signal.SIGINT else "terminated")
        bought = len(server.chats)
        assert 7 <= bought <= 7 + AT_ONCE
        store = tmp_path / "verdicts.sqlite"
        assert rows(store, COUNT) == [str(bought)]  # those in flight as well
        assert not (tmp_path / "mlruns" / "mlflow.db").exists()
        assert not (tmp_path / "report.json").exists()
        server.latency = 0.0
        monkeypatch.setenv("COHERE_API_KEY", server.key)
        assert call(main, flags, capsys).code == 0
        assert len(server.chats) == calls_of(load_report(tmp_path / "report.json")["queries"]) > bought


def test_interrupted_again_it_ends_at_once_with_what_was_committed(made: Experiment, tmp_path: Path) -> None:
    with CohereChatServer(known_of(settings(made))[2]) as server:
        child = begin(flags_of(made, server, tmp_path), server, tmp_path)
        store = tmp_path / "verdicts.sqlite"
        try:
            assert child.stderr
            while len(server.chats) < 3 and child.poll() is None:
                time.sleep(0.01)
            server.latency = UNANSWERED_S
            while child.poll() is None and len(server.chats) - int(rows(store, COUNT)[0]) < AT_ONCE:
                time.sleep(0.01)
            committed = rows(store, COUNT)
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
        finally:
            child.kill()
        assert child.returncode == 130 and said.endswith("interrupted\n")
        assert int(rows(store, COUNT)[0]) >= int(committed[0])  # calls of before may have been answered meanwhile
        assert not (tmp_path / "mlruns" / "mlflow.db").exists()
