"""The patience of a run with a store that is away, and the time spent waiting.

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
        wait_s: Longest absence of the store, in seconds.
    """

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self._lock = threading.Lock()
        self._reported: set[str] = set()

    def is_news(self, fault: str) -> bool:
        """Note a fault; return True if it is the first since the last success."""
        with self._lock:
            news = fault not in self._reported
            self._reported.add(fault)
            return news

    def has_passed(self, fault: str) -> bool:
        """Note that a fault has passed; return True if it had been reported."""
        with self._lock:
            reported = fault in self._reported
            self._reported.discard(fault)
            return reported


_patience: ContextVar[Patience | None] = ContextVar("retrievers.net.patience", default=None)


# By thread: a wait of one search must not shorten the measured time of another.
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
    """Return the patience in force; None in an application."""
    return _patience.get()


def working_time() -> float:
    """Return the seconds of a clock that stops while a patient run of this thread waits."""
    return time.perf_counter() - _lost.seconds


def lose(seconds: float) -> None:
    """Take seconds that a patient run of this thread waited off its `working_time`."""
    if patience() is not None:
        _lost.seconds += seconds
