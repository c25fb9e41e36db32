"""The base of all commands: errors to exit codes, logging, progress, text for a terminal."""

import logging
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import NoReturn

# Exit code of a command that a signal ended: 128 and its number.
BY_SIGNAL = 128


def start(command: str) -> NoReturn:
    """Call a command, named as `module:function`, as a process of its own, and end it with its exit code.

    Until the command sees to them itself, so while it is imported, Ctrl-C and SIGTERM end it with a line.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        # Where it is ignored, as in the background, it stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    module, _, name = command.partition(":")
    code = getattr(import_module(module), name)()
    if code > BY_SIGNAL:
        # The interpreter would wait for the threads whose calls nobody waits for any more.
        logging.shutdown()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted\n" if number == signal.SIGINT else b"terminated\n")
    os._exit(BY_SIGNAL + number)
