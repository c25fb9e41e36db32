"""What every command does with errors, signals, flags, logging and progress."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from syrupy.assertion import SnapshotAssertion

from retrievers.__main__ import main
from retrievers.errors import ConfigError
from retrievers.terminal.command import print_out, progress_bar, run, set_up_logging
from tests.support.command import call, environment

Captured = pytest.CaptureFixture[str]
SIGNALS = pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])


def signalled(what: signal.Signals) -> int:
    signal.raise_signal(what)
    return 0


# Errors and signals


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("top_k: too large"), 2),
        (MemoryError(), 2),
        (ModuleNotFoundError("No module named 'x'"), 2),
        (ZeroDivisionError("why"), 3),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_an_error_is_a_code_and_a_line(
    error: BaseException, code: int, capsys: Captured, snapshot: SnapshotAssertion
) -> None:
    assert (run(Mock(side_effect=error)), run(lambda: 1)) == (code, 1)
    out, err = capsys.readouterr()
    assert out == "" and err.replace(sys.executable, "PYTHON") == snapshot


@SIGNALS
def test_a_signal_interrupts(what: signal.Signals, capsys: Captured) -> None:
    before = signal.getsignal(what)
    assert run(lambda: signalled(what)) == 128 + what
    assert capsys.readouterr().err == ("interrupted\n" if what == signal.SIGINT else "terminated\n")
    assert signal.getsignal(what) is before


@SIGNALS
def test_a_signal_cancels_the_work_of_an_event_loop_between_its_steps(what: signal.Signals) -> None:
    ended = []

    async def work() -> int:
        try:
            signal.raise_signal(what)
            ended.append("went on")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("was cancelled")
            raise
        return 0

    assert run(lambda: asyncio.run(work())) == 128 + what
    assert ended == ["went on", "was cancelled"]


def test_a_termination_interrupts_where_ctrl_c_is_ignored() -> None:
    """As it is in what a shell runs in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run(lambda: signalled(signal.SIGTERM)) == 143
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_was_printed_before_an_interruption_reaches_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("def main():\n    print('what was found by then')\n    return 130\n")
    folder = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    command = [sys.executable, "-c", f"{folder}; from retrievers.terminal import start; start('slow:main')"]
    done = subprocess.run(
        command, env=environment({"PYTHONUNBUFFERED": ""}), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "what was found by then\n")


def test_a_reader_that_went_away_changes_no_exit_code_and_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed criterion is one for CI, too, whatever becomes of the output."""
    reading, writing = os.pipe()
    os.close(reading)
    done = list[str]()

    def work() -> int:
        for text in ("shorter than the buffer", "longer" * 20_000):
            print_out(text)
            done.append(text)
        return 1

    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert run(work) == 1 and len(done) == 2


WRONG = ["search q --top-n 3", "search q --treshold=3", "search q --xyzzy", "serach", "", "search q --top-k"]


@pytest.mark.parametrize("arguments", [*WRONG, "search q --thresh 3"])  # no flag is taken for another that begins so
def test_a_wrong_flag_is_told_with_the_nearest(arguments: str, capsys: Captured, snapshot: SnapshotAssertion) -> None:
    done = call(main, arguments.split(), capsys)
    assert done.code == 2
    assert done.err.partition(" (choose")[0] == snapshot, "every Python writes choices otherwise"


# Logging and progress


@pytest.mark.parametrize(
    ("verbose", "quiet", "shown"),
    [
        (False, False, ["WARNING", "ERROR"]),
        (True, False, ["INFO", "WARNING", "ERROR"]),
        (False, True, ["ERROR"]),
        (True, True, ["ERROR"]),
    ],
)
def test_more_or_fewer_lines_are_shown_on_request(
    verbose: bool, quiet: bool, shown: list[str], capsys: Captured
) -> None:
    set_up_logging(verbose=verbose, quiet=quiet)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger("retrievers.test").log(level, "said")
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == shown


def test_a_bar_follows_its_stages_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar(shown=True) as progress:
        for stage, done, total in (("embedding", 1, 2), ("writing", 1, 1), ("embedding", 2, 2)):
            progress(stage, done, total)
    shown = capsys.readouterr()
    assert (shown.out, "embedding" in shown.err, "writing" in shown.err) == ("", True, True)
