"""The one layer that retries, and the deadline of a search that bounds it.

Transient faults are tried up to `ATTEMPTS` times: status 429, 500, 502, 503 and 504, a
connection that was refused, reset or dropped, and a request that got no answer in time. Everything else fails at once:
400, 401, 403, 404, a certificate that is not trusted, a host that does not exist, vectors of a wrong number or
dimension, an answer that is not the provider's. The libraries below must not retry, so `ATTEMPTS` is the number
of HTTP requests for one request of ours. A user's own model (`provider: python`) is called once: its library
has its own policy.

Between attempts we wait a random time between 0 and `BASE_S * 2 ** (attempt - 1)`, at most `CAP_S` ("full jitter":
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). To wait because the other side asks for it
(Retry-After) is no failed attempt: the wait is as long as it says and up to `BASE_S` longer, as often as it says so.

No wait goes past the deadline of a search (see `retrievers.net.deadline`). Outside a search (opening a collection,
indexing) each request has `PATIENCE` times its own timeout for all of its attempts. In a patient run (see
`retrievers.net.patience`) a store that is away is waited for, `store.wait_s` in all.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from retrievers import clock
from retrievers.errors import RetrievalError
from retrievers.net import deadline
from retrievers.net.deadline import Scope, granted_s, pause, too_late
from retrievers.net.patience import lose, patience, working_time

Result = TypeVar("Result")
# With BASE_S the waits sum to at most 3.5 s, within the default deadline of a search.
ATTEMPTS = 4
BASE_S = 0.5
CAP_S = 8.0
# Longest wait, in seconds, between two tries to reach a store that is away.
AWAY_CAP_S = 2.0
# Room for all attempts at their full timeout, and for the waits between them.
PATIENCE = 6
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Tries:
    """The attempts at one action so far.

    Attributes:
        started: Start of the first attempt.
        allowed: Number of attempts that may fail.
        number: Number of attempts so far.
        failed: Number of failures; an attempt that the other side asked to delay, or that found it away, is none.
        away: True if the last attempt found the other side away, and waits for it.
    """

    started: float
    allowed: int
    number: int = 0
    failed: int = 0
    away: bool = False

    def after(self, error: RetrievalError) -> "Tries":
        """Return the attempts with one more, which ended in an error."""
        run, waited = patience(), clock.CLOCK.now() - self.started
        # A request that may be sent only once is not repeated for a store that is away either.
        away = run is not None and error.away and self.allowed > 1 and waited < run.wait_s
        excused = error.transient and (away or bool(error.retry_after_s))
        failed = self.allowed if self.away and not away and error.away else self.failed + (not excused)
        return replace(self, number=self.number + 1, failed=failed, away=away)


def attempt(
    action: Callable[[], Result], *, name: str, timeout_s: float, collection: str = "", retried: bool = True
) -> Result:
    """Retry an action that may fail for a while, as often as the policy says.

    Args:
        action: Function to call; it raises a `RetrievalError` whose `transient` is True if a retry may help.
        name: The stage that it is, outside a search.
        timeout_s: Longest duration of an attempt; outside a search `PATIENCE` times that is the deadline of all.
        collection: The collection it concerns, for the log, outside a search.
        retried: False to call it only once.

    Raises:
        SearchTimeoutError: The deadline of the search has passed, or would before the next attempt.
        RetrievalError: Error of the last attempt, with the number of attempts and their duration.
    """
    scope = deadline.scope()
    if scope is None:
        ends = clock.CLOCK.now() + PATIENCE * timeout_s + granted_s()
        with deadline.within(Scope(ends=ends, stage=name, collection=collection)):
            return attempt(action, name=name, timeout_s=timeout_s, retried=retried)
    tries = Tries(started=clock.CLOCK.now(), allowed=ATTEMPTS if retried else 1)
    while True:
        if scope.left <= 0 and scope.allowed_s is not None:
            count = "not begun" if tries.number == 0 else f"{tries.number} attempts"
            raise too_late(scope, count, max(1, tries.number))
        before = working_time()
        try:
            result = action()
        except RetrievalError as error:
            # The failed attempt is not the store's latency.
            lose(working_time() - before)
            tries = tries.after(error)
            pause(_wait(error, tries, scope))
        else:
            _welcome(scope, tries)
            return result


def _wait(error: RetrievalError, tries: Tries, scope: Scope) -> float:
    """Return the seconds to wait before the next attempt: less than is left, so that there is time for it.

    Raises:
        RetrievalError: There will be none.
    """
    tried = f"{tries.number} attempt{'s' if tries.number > 1 else ''} in {clock.CLOCK.now() - tries.started:.1f} s"
    left = scope.left
    if not error.transient:
        raise error.tried(scope.stage, tries.number, f" ({tried})" if tries.number > 1 else "")
    if left <= 0 and scope.allowed_s is not None:
        raise too_late(scope, f"{tried}: {error}", tries.number) from error
    if tries.failed >= tries.allowed or left <= 0:
        raise error.tried(scope.stage, tries.number, f" ({tried})")
    asked_s = error.retry_after_s or 0.0
    if asked_s >= left:
        raise error.tried(
            scope.stage, tries.number, f" ({tried}; asked to wait {asked_s:.0f} s, {left:.1f} s are left)"
        )
    most = BASE_S if asked_s else min(AWAY_CAP_S if tries.away else CAP_S, BASE_S * 2 ** min(tries.number - 1, 10))
    wait = asked_s + clock.CLOCK.jitter(0.0, min(most, (left - asked_s) / 2))
    _warn(error, tries, wait, scope)
    return wait


def _warn(error: RetrievalError, tries: Tries, wait: float, scope: Scope) -> None:
    """Tell of an attempt that will be repeated; in a patient run once of a store that is away or asks to wait."""
    run = patience()
    fault = "away" if tries.away else "busy" if error.retry_after_s else ""
    quiet = run is not None and fault and not run.is_news(fault)
    extra = {"stage": scope.stage, "collection": scope.collection, "attempt": tries.number}
    extra |= {"query": scope.query} if scope.query is not None else {}
    if run and tries.away:
        next_step = f"waiting up to {run.wait_s:g} s for it (store.wait_s)"
    elif error.retry_after_s:
        next_step = f"waiting {wait:.2f} s, as asked"
    else:
        next_step = f"attempt {tries.failed} of {tries.allowed} failed, trying again in {wait:.2f} s"
    log.log(logging.DEBUG if quiet else logging.WARNING, "%s: %s: %s", scope.stage, next_step, error, extra=extra)


def _welcome(scope: Scope, tries: Tries) -> None:
    """Tell that a store which was away is back."""
    run = patience()
    if run and tries.away and run.has_passed("away"):
        away = clock.CLOCK.now() - tries.started
        log.warning("%s: the store answers again, after %.1f s", scope.stage, away, extra={"stage": scope.stage})
