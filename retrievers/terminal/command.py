"""The base of all commands: flags, errors to exit codes, output, logging, progress."""

import argparse
import errno
import gc
import logging
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Protocol, TypeVar

from retrievers.config.layers import removed
from retrievers.errors import RetrievalError, nearest
from retrievers.text.shown import printable, quoted, redacted, shortened

EXIT_FAILED = 1
EXIT_USER_ERROR = 2
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
# Name of the command that holds all others, and what they begin with as modules: `python -m evals.golden` is
# `retrieval-evals golden`.
SCRIPT, MODULE = "retrieval-evals", re.compile(r"python -m (evals\.|evals\b|retrievers\b) ?")
INVALID_CHOICE = re.compile(r"(?:invalid choice:|unknown command) '([^']*)'")
Value = TypeVar("Value")
log = logging.getLogger(__name__)


# Flags


class Parser(argparse.ArgumentParser):
    """An argument parser that names the flag nearest to an unknown one. It takes no abbreviations."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        # An abbreviation would become ambiguous with every new setting.
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})  # type: ignore[arg-type]

    def format_help(self) -> str:
        """Return the help. Its first line names the arguments that have to be given, and not all flags."""
        needed = (action for action in self._actions if not action.option_strings)
        names = (f"{action.metavar or action.dest}{' ...' if action.nargs == '+' else ''}" for action in needed)
        self.usage = self.usage or " ".join([self.prog, "[OPTIONS]", *names])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print the message, with the nearest known flag or the successor of a removed one, and exit with 2."""
        text, mark, unknown = message.partition("unrecognized arguments: ")
        flag, choice = unknown.partition(" ")[0].partition("=")[0], INVALID_CHOICE.search(message)
        name = flag or (f"{MODULE.sub(f'{SCRIPT} ', self.prog).strip()} {choice[1]}" if choice else "")
        if successor := removed(name):
            self.exit(EXIT_USER_ERROR, f"{self.prog}: {name} is gone: {successor}\n")
        # The rest of the line may be a key.
        message = shortened(redacted(f"{text}{mark}{flag}" if flag.startswith("-") else message))
        hint = "; a text with spaces needs quotes, a file its flag" if flag else ""
        near = nearest(flag, {*_flags(self)} - {flag}) if flag.startswith("-") else hint
        self.exit(EXIT_USER_ERROR, f"{printable(f'{self.prog}: {message}{near} (see --help)')}\n")


def _flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        for subparser in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from _flags(subparser)


def argument(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a parser of an argument. The ValueError of `read` becomes the message."""

    def parsed(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def whole_number(least: int) -> Callable[[str], int]:
    """Return a parser of an argument that is a whole number of `least` or more."""

    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
            raise ValueError(f"expected a whole number of {least} or more, got {quoted(text)}")
        return int(text)

    return argument(read)


# Exit codes


def run(main: Callable[..., int], *arguments: object) -> int:
    """Call a command, and turn its errors into an exit code: 2 for a user's fault, 130 at Ctrl-C, 143 at SIGTERM."""
    terminations: list[int] = []
    # The libraries' modules fill the heap. By default a tenth of a run is spent on the search for garbage in it.
    gc.set_threshold(10_000)
    try:
        with _handled(terminations):
            return main(*arguments)
    except (Exception, KeyboardInterrupt) as error:
        code, message = _ending(error, terminated=bool(terminations))
        if code == EXIT_INCOMPLETE:
            log.error("stopped", exc_info=True)
        print_error(message)
        return code


def _ending(error: BaseException, *, terminated: bool) -> tuple[int, str]:
    """Return the exit code and the last line of a command that an error ended."""
    match error:
        case KeyboardInterrupt():
            code, reason = (EXIT_TERMINATED, "terminated") if terminated else (EXIT_INTERRUPTED, "interrupted")
            return code, ": ".join(filter(None, (reason, str(error))))
        case RetrievalError():
            return EXIT_USER_ERROR, f"error: {error}"
        case MemoryError():
            return EXIT_USER_ERROR, "error: this process may take no more memory; raise its limit (ulimit -v)"
        case ImportError():
            return EXIT_USER_ERROR, f"error: {error}: install the project for this Python ({sys.executable})"
        case OSError(errno=errno.ENAMETOOLONG | errno.ENOSPC):
            name = quoted(str(error.filename)) if error.filename else "the output"
            return EXIT_USER_ERROR, f"error: {name}: {error.strerror}; name another file"
    # The exit code must not be EXIT_FAILED, which says that a criterion failed.
    return EXIT_INCOMPLETE, f"internal error, please report it with the lines above: {type(error).__name__}: {error}"


@contextmanager
def _handled(terminations: list[int]) -> Iterator[None]:
    """Let SIGTERM raise what Ctrl-C raises, so that open operations end cleanly, and note it in `terminations`."""
    # Only the main thread may set handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Call the handler of Ctrl-C: a running event loop has its own, which interrupts between two steps."""
        terminations.append(number)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)

    at_interrupt, at_termination = signal.getsignal(signal.SIGINT), signal.signal(signal.SIGTERM, interrupt)
    # An ignored signal, as in a process in the background, stays ignored.
    if callable(at_interrupt):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, at_termination)
        signal.signal(signal.SIGINT, at_interrupt)


# Output


def print_error(text: str) -> None:
    """Write a line to standard error."""
    with suppress(OSError):  # a closed or full standard error must not change the exit code
        sys.stderr.write(_as_started(printable(text)) + "\n")


def print_out(text: str) -> None:
    """Write a text to standard output, ended by a line break."""
    print_rendered(printable(text))


def print_rendered(text: str) -> None:
    """Write rendered text with its colours. `?` replaces characters that the encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(_as_started(text).encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away, as `head` does. The work goes on, with the same exit code. The output is discarded: else
        # the interpreter would try to write it at its end and fail with a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_started(text: str) -> str:
    """Return a text whose commands can be typed: an installed script's environment may not be that of `python`."""
    return MODULE.sub(f"{SCRIPT} ", text) if Path(sys.argv[0]).stem == SCRIPT else text


def terminal_width() -> int:
    """Return the columns that a text may fill: those of the terminal, at least 60, and 80 without a terminal."""
    return max(60, shutil.get_terminal_size((80, 40)).columns)


def look() -> Any:
    """Return how to render a text: its width, whether in colours, and whether whole or shortened to the screen."""
    is_shown = sys.stdout.isatty()
    return {"width": terminal_width(), "color": is_shown and "NO_COLOR" not in os.environ, "whole": not is_shown}


# Logging


def add_logging_flags(parser: argparse.ArgumentParser, *, quiet: str = "print nothing but errors") -> None:
    """Add `--quiet` and `--verbose`; `quiet` names the output that remains."""
    parser.add_argument("-q", "--quiet", action="store_true", help=quiet)
    parser.add_argument("-v", "--verbose", action="store_true", help="report the progress in detail")


def set_up_logging(*, verbose: bool, quiet: bool = False) -> None:
    """Send our log records to standard error: warnings and errors, fewer if `quiet`, each step as well if `verbose`."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    for logger in map(logging.getLogger, ("retrievers", "evals")):
        logger.setLevel(logging.DEBUG)
        # Libraries that configure the root logger would print every record again.
        logger.propagate = False
        logger.handlers[:] = [handler]


class _Formatter(logging.Formatter):
    """Formats a record for the terminal, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(redacted(super().format(record)))


# Progress


class Progress(Protocol):
    """Callback with the progress of a stage."""

    def __call__(self, stage: str, done: int, total: int, detail: str = "") -> None:
        """Show it."""


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[Progress]:
    """Draw a progress bar on standard error, if it is a terminal and `shown` is set. The callback moves the bar."""
    if not (shown and sys.stderr.isatty()):
        yield lambda stage, done, total, detail="": None
        return
    from rich import progress
    from rich.console import Console

    named, detailed = progress.TextColumn("{task.description:<12}"), progress.TextColumn("{task.fields[detail]}")
    columns = (named, progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn(), detailed)
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, progress.TaskID] = {}

        def show(stage: str, done: int, total: int, detail: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, detail=detail)
            bar.update(tasks[stage], completed=done, total=total, detail=detail)

        yield show
