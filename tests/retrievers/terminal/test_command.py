import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from retrievers.errors import ConfigError
from retrievers.terminal.command import (
    Parser,
    print_out,
    progress_bar,
    run,
    set_up_logging,
)
from tests.support.command import own_logging


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    with own_logging():
        yield


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def main() -> NoReturn:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (None, 1, ""),
        (ConfigError("top_k: too large"), 2, "error: top_k: too large\n"),
        (MemoryError(), 2, "error: this process may take no more memory; raise its limit (ulimit -v)\n"),
        (ModuleNotFoundError("No module named 'x'"), 2, "error: No module named 'x': install the project for this Py"),
        (ZeroDivisionError("why"), 3, "internal error, please report it with the lines above: ZeroDivisionError: why"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_an_error_is_an_exit_code_and_a_last_line(
    error: BaseException | None, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(error) if error else lambda: code) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(said) and bool(err) == bool(error)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("with --store.path or --store.url", "with --retriever.store.path or --retriever.store.url"),
        ("(--rerank none)", "(--retriever.rerank none)"),
        ("raise --top-k: it is 1", "raise --retriever.top-k: it is 1"),
        ("--retriever.rerank none", "--retriever.rerank none"),
        ("--tracking.uri, --ids, --store, --rerank-all, --mode.x, a--mode", None),
    ],
)
def test_flags_in_errors_are_those_of_the_command(
    said: str, shown: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(ConfigError(said)), prefix="retriever.") == 2
    assert run(raising(ConfigError(said))) == 2
    assert capsys.readouterr().err == f"error: {shown or said}\nerror: {said}\n"


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))
def test_a_signal_interrupts(what: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(what)

    def main() -> int:
        signal.raise_signal(what)
        return 0

    assert run(main) == 128 + what
    assert capsys.readouterr().err == ("interrupted\n" if what == signal.SIGINT else "terminated\n")
    assert signal.getsignal(what) is before


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))
def test_a_signal_cancels_the_work_of_an_event_loop_between_its_steps(what: signal.Signals) -> None:
    ended = []

    async def work() -> None:
        try:
            signal.raise_signal(what)
            ended.append("went on")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("was cancelled")
            raise

    def main() -> int:
        asyncio.run(work())
        return 0

    assert run(main) == 128 + what
    assert ended == ["went on", "was cancelled"]


def test_a_termination_interrupts_where_ctrl_c_is_ignored() -> None:
    """As it is in what a shell runs in the background."""

    def main() -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run(main) == 143
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_reader_that_went_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)

        def main() -> int:
            print_out("shorter than the buffer")
            return 0

        assert run(main) == 0


@pytest.fixture
def parser() -> Parser:
    made = Parser(prog="tool")
    commands = made.add_subparsers(dest="command", required=True, parser_class=Parser)
    search = commands.add_parser("search")
    search.add_argument("--top-k")
    search.add_argument("--threshold")
    return made


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "--top-n", "3"], "tool: unrecognized arguments: --top-n; did you mean '--top-k'? (see --help)\n"),
        (["search", "--treshold=3"], "tool: unrecognized arguments: --treshold; did you mean '--threshold' or"),
        (["search", "--xyzzy"], "tool: unrecognized arguments: --xyzzy (see --help)\n"),
        (["search", "--thresh", "3"], "tool: unrecognized arguments: --thresh; did you mean '--threshold' or"),
        (["serach"], "tool: argument command: invalid choice: 'serach'"),
        ([], "tool: the following arguments are required: command (see --help)\n"),
        (["search", "--top-k"], "tool search: argument --top-k: expected one argument (see --help)\n"),
    ],
)
def test_a_wrong_flag_is_told_with_the_nearest_and_exit_code_2(
    parser: Parser, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ({"verbose": False}, ["WARNING", "ERROR"]),
        ({"verbose": True}, ["INFO", "WARNING", "ERROR"]),
        ({"verbose": False, "quiet": True}, ["ERROR"]),
        ({"verbose": True, "quiet": True}, ["ERROR"]),
    ],
)
def test_warnings_are_shown_and_more_or_less_on_request(
    flags: dict[str, bool], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging(**flags, log_file=None)
    log = logging.getLogger("retrievers.test")
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == shown


def test_a_log_file_holds_json_lines_with_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "new" / "log.jsonl"
    set_up_logging(verbose=False, log_file=file)
    log = logging.getLogger("retrievers.test")
    log.debug("début %d", 1)
    log.error("failed", extra={"query": "q", "collection": "c", "secret": "s"})
    try:
        raise ValueError("cause")
    except ValueError:
        logging.getLogger("evals.test").warning("stopped", exc_info=True)
    first, second, third = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("DEBUG", "retrievers.test", "début 1")
    assert first["time"].endswith("+00:00")
    assert (second["query"], second["collection"]) == ("q", "c")
    assert "secret" not in second
    assert third["exception"].splitlines()[-1] == "ValueError: cause"


def test_a_log_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    target = tmp_path / "file" / "log"
    target.parent.write_text("")
    with pytest.raises(ConfigError, match=f"--log-file {target}: cannot be written: "):
        set_up_logging(verbose=False, log_file=target)
    with pytest.raises(ConfigError, match=f"--log-file {tmp_path}: expected a file to append to"):
        set_up_logging(verbose=False, log_file=tmp_path)


def test_a_bar_follows_its_stages_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar(shown=True) as progress:
        progress("embedding", 1, 2)
        progress("writing", 1, 1)
        progress("embedding", 2, 2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "embedding" in shown.err and "writing" in shown.err
