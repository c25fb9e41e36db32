"""Running a command in the test's own process, with the logging of the process left as it was."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

OURS = ("retrievers", "evals")


@contextmanager
def own_logging() -> Iterator[None]:
    """Undo what `set_up_logging` does to the loggers of the packages."""
    loggers = [logging.getLogger(name) for name in OURS]
    before = [(logger.level, logger.propagate, logger.handlers[:]) for logger in loggers]
    try:
        yield
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            for handler in logger.handlers:
                handler.close()
            logger.setLevel(level)
            logger.propagate = propagate
            logger.handlers[:] = handlers
