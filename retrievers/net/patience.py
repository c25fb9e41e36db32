"""How long a run waits for a store that is away, and how much of its time that took.

An application's search has a short deadline. A run of an evaluation or of indexing is worth more than a wait: inside
`patient` a store that does not answer is waited for, and the deadlines of searches are later by as much. What was
waited is no latency of the store, so `working_time` stands still meanwhile.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Patience:
    """The patience of one run; its threads share it.

    Attributes:
        wait_s: How long the store may be away, in seconds.
    """

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self._lock = threading.Lock()
        self._told: set[str] = set()

    def is_news(self, fault: str) -> bool:
        """Whether nobody was told of this fault since it last passed; now somebody is."""
        with self._lock:
            news = fault not in self._told
            self._told.add(fault)
            return news

    def has_passed(self, fault: str) -> bool:
        """Whether somebody was told of this fault, which is over now."""
        with self._lock:
            told = fault in self._told
            self._told.discard(fault)
            return told


_patience: ContextVar[Patience | None] = ContextVar("retrievers.net.patience", default=None)


class _Lost(threading.local):
    seconds = 0.0


_lost = _Lost()


@contextmanager
def patient(wait_s: float) -> Iterator[None]:
    """Wait inside for a store that is away, up to `wait_s` seconds; threads have to be given the context."""
    token = _patience.set(Patience(wait_s))
    try:
        yield
    finally:
        _patience.reset(token)


def patience() -> Patience | None:
    """The patience in force; None in an application."""
    return _patience.get()


def working_time() -> float:
    """The seconds of a clock that stands still while a patient run of this thread waits."""
    return time.perf_counter() - _lost.seconds


def lose(seconds: float) -> None:
    """Take seconds that a patient run of this thread waited off its `working_time`."""
    if patience() is not None:
        _lost.seconds += seconds
