"""The pace of requests within a server's rate limit, learnt from its answers.

The server is taken to have a bucket that fills at a steady rate and from which every query takes one. When it first
asks to wait, the rate is implied by it: the queries sent over the seconds to wait. From then on requests are spread by
that rate, which grows a little with each of them. When the server asks to wait again, the rate becomes what it really
let pass since the last time. An application, whose searches have a short deadline, keeps no pace.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from retrievers.errors import RetrievalError
from retrievers.net import deadline
from retrievers.net.patience import patience

Result = TypeVar("Result")

# Seconds in which a bucket fills: a limit counts queries a minute.
FILLED_S = 60.0
# Growth of the rate with each request, before and after it was measured.
SEARCHING = 1.05
KEEPING = 1.005
# Number of requests after which the rate is measured; before that it is divided by `SLOWER`.
ENOUGH = 8
SLOWER = 0.9
# Mean excess, in seconds, of a wait that is rounded up to whole seconds.
ROUNDED_S = 0.5


class RequestPace:
    """The pace of one client; its threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rate: float | None = None
        self._growth = SEARCHING
        self._empty = 0.0
        self._refused = 0.0
        self._spent = 0

    def keep(self, queries: Callable[[], int], send: Callable[[], Result]) -> Result:
        """Send a request of `queries()` queries at its turn, in a patient run; learn from the answer."""
        cost = queries() if patience() and self._rate is not None else 0
        if cost:
            deadline.pause(self.wait_s(cost))
        try:
            return send()
        except RetrievalError as error:
            if patience() and error.retry_after_s:
                self.refused(cost or queries(), error.retry_after_s)
            raise

    def wait_s(self, cost: int) -> float:
        """Return the seconds to wait before a request of `cost` queries, which counts as sent after them."""
        with self._lock:
            if self._rate is None:
                return 0.0
            now = deadline.WAITING.now()
            self._rate *= self._growth
            self._spent += cost
            self._empty = max(self._empty, now - FILLED_S) + cost / self._rate
            return max(0.0, self._empty - now)

    def refused(self, cost: int, retry_after_s: float) -> None:
        """Learn from a request of `cost` queries that the server asked to repeat after a wait, in seconds."""
        with self._lock:
            now = deadline.WAITING.now()
            if self._rate is None:
                self._rate = cost / max(ROUNDED_S, retry_after_s - ROUNDED_S)
            else:
                passed = (self._spent - cost) / max(ROUNDED_S, now - self._refused)
                measured = passed if self._spent > ENOUGH * cost else SLOWER * self._rate
                self._rate, self._growth = min(self._rate, measured), KEEPING
            # Then the bucket holds what the request takes.
            self._empty = now + retry_after_s - cost / self._rate
            self._refused, self._spent = now, 0
