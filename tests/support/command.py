"""Calling a command in this process, as a shell would."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Done:
    """Result of a command."""

    code: Any
    out: str
    err: str


@contextmanager
def own_logging() -> Iterator[None]:
    """Undo what `set_up_logging` does to the loggers of the packages."""
    loggers = [logging.getLogger(name) for name in ("evals", "retrievers")]
    before = [(logger.level, logger.propagate, logger.handlers[:]) for logger in loggers]
    try:
        yield
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            for handler in logger.handlers:
                if handler not in handlers:
                    handler.close()
            logger.setLevel(level)
            logger.propagate, logger.handlers[:] = propagate, handlers


def call(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str | object], capsys: pytest.CaptureFixture[str]
) -> Done:
    """Call a command's `main`; the loggers that it sets up are put back."""
    capsys.readouterr()
    code: Any
    with own_logging():
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = error.code
    said = capsys.readouterr()
    return Done(code, said.out, said.err)
