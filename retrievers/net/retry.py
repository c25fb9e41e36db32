"""Requests that fail for a while are sent again, by stamina; nothing below retries.

What may pass is a status 429, 500, 502, 503 or 504, a connection that was refused, reset or dropped, and a request that
got no answer in time. All else fails at once: 400, 401, 403, 404, a certificate that is not trusted, a host that does
not exist, an answer that is not the provider's.

An application's search tries for `SEARCH_S` seconds, a run of an evaluation or of indexing for `RUN_S` (see `patient`):
it is worth more than a wait, and outlives a server that restarts. Who asks to wait (Retry-After) is waited for as long
as it says, if that is within these seconds.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import stamina

from retrievers.errors import RetrievalError

Result = TypeVar("Result")
SEARCH_S, RUN_S = 5.0, 60.0
# Seconds before the second attempt; each further wait is twice as long, up to the most, and a random part longer.
FIRST_S, MOST_S, JITTER_S = 0.25, 2.0, 0.25
log = logging.getLogger(__name__)
# stamina tells of every wait, naming the function; what is told here names the fault.
logging.getLogger("stamina").addFilter(lambda record: __name__ not in str(record.__dict__.get("stamina.callable")))


# By thread: a wait of one search must not shorten the measured time of another.
class _Lost(threading.local):
    seconds = 0.0


# Seconds for which a run tries a request again; None for an application's search.
_wait_s: ContextVar[float | None] = ContextVar("retrievers.net.retry", default=None)
_lost = _Lost()


@contextmanager
def patient(wait_s: float = RUN_S) -> Iterator[None]:
    """Try requests inside for up to `wait_s` seconds; 0 sends each once. Threads have to be given the context."""
    token = _wait_s.set(wait_s)
    try:
        yield
    finally:
        _wait_s.reset(token)


def working_time() -> float:
    """Return the seconds of a clock that leaves out this thread's failed attempts and waits, in a patient run."""
    return time.perf_counter() - _lost.seconds


def attempt(action: Callable[[], Result], *, name: str, retried: bool = True) -> Result:
    """Call an action, again while its fault may pass.

    Args:
        action: Function to call; it raises a `RetrievalError` whose `transient` is True if a retry may help.
        name: The stage that it is, for errors and the log.
        retried: False to call it only once.

    Raises:
        RetrievalError: Error of the last attempt, with the number of attempts and their duration.
    """
    of_run = _wait_s.get()
    wait_s = SEARCH_S if of_run is None else of_run
    began, before = time.monotonic(), time.perf_counter()
    attempts, last = 0, before

    def passes(error: Exception) -> bool | float:
        asked = error.retry_after_s or 0.0 if isinstance(error, RetrievalError) and error.transient else math.inf
        if asked > wait_s:
            return False
        if attempts == 1:
            plan = f"waiting {asked:g} s, as asked" if asked else f"trying again for up to {wait_s:g} s"
            log.warning("%s: %s: %s", name, plan, error)
        return asked if asked >= FIRST_S else True

    def once() -> Result:
        nonlocal attempts, last
        attempts, last = attempts + 1, time.perf_counter()
        return action()

    # stamina costs 50 µs a call, which models in this process do without.
    tried = once
    if retried and wait_s > 0:
        waits = {"timeout": wait_s, "wait_initial": FIRST_S, "wait_max": MOST_S, "wait_jitter": JITTER_S}
        tried = stamina.retry(on=passes, attempts=None, **waits)(once)
    try:
        result = tried()
    except RetrievalError as error:
        remarks = [f"{attempts} attempts in {time.monotonic() - began:.1f} s"] if attempts > 1 else []
        if (asked := error.retry_after_s or 0.0) > wait_s:
            remarks.append(f"asked to wait {asked:.0f} s, more than {wait_s:g} s")
        error.args = (f"{error} ({'; '.join(remarks)})" if remarks else str(error),)
        raise
    if of_run is not None:
        _lost.seconds += last - before
    return result
