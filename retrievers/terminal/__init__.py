"""The base of all commands: errors to exit codes, logging, progress, text for a terminal."""

import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import NoReturn

# Exit code of a command that a signal ended: 128 and its number.
BY_SIGNAL = 128


def start(command: str) -> NoReturn:
    """Run a command, named as `module:function`, and end the process with its exit code.

    While the command is imported, Ctrl-C and SIGTERM end the process with a line. Later the command handles them.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        # An ignored signal, as in a process in the background, stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    # A stream that was closed before the start is None.
    sys.stdout, sys.stderr = (stream or Path(os.devnull).open("w") for stream in (sys.stdout, sys.stderr))
    code = resolve_name(command)()
    if code > BY_SIGNAL:
        # The interpreter would wait for threads although nobody waits for their results any more.
        logging.shutdown()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted\n" if number == signal.SIGINT else b"terminated\n")
    os._exit(BY_SIGNAL + number)
