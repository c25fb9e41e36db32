"""The one layer that tries again, and the deadline of a search that bounds it.

What may pass by itself is tried up to `ATTEMPTS` times: status 429, 500, 502, 503 and 504, a connection that was
refused, reset or dropped, and a request that got no answer in time. Everything else fails at once: 400, 401, 403, 404,
a certificate that is not trusted, a host that does not exist, vectors of a wrong number or dimension, an answer that is
not the provider's. The libraries below are told not to retry, so `ATTEMPTS` is the number of HTTP requests that one
request of ours comes to. A user's own model (`provider: python`) is called once: its library has its own policy.

Between attempts we wait a random time between 0 and `BASE_S * 2 ** (attempt - 1)`, at most `CAP_S` ("full jitter":
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), on top of what Retry-After asks for.

A search ends by its deadline, `RetrieverConfig.timeout_s`, which embedding, store and reranking share: requests are cut
to what is left of it, no wait goes past it, and once it has passed no stage is begun. Outside a search (opening a
collection, indexing) each request has `PATIENCE` times its own timeout for all of its attempts. A computation in this
process is not interrupted. An answer of Qdrant over REST has one deadline from connecting to its last byte (see
`retrievers.net`); one of a model that comes byte by byte is bounded only between two bytes.
"""

import functools
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from retrievers.config import RetrieverConfig
from retrievers.errors import RetrievalError, SearchTimeoutError

Result = TypeVar("Result")
Owner = TypeVar("Owner", bound="Configured")
Queries = TypeVar("Queries", bound=Sequence[str])
P = ParamSpec("P")
ATTEMPTS = 4
BASE_S = 0.5
CAP_S = 8.0
PATIENCE = 6
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How time passes: the clock, the wait and the jitter. Tests put their own in place of `WAITING`."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float, float], float] = random.uniform


WAITING = Waiting()


class Configured(Protocol):
    """What has the settings of a retriever."""

    @property
    def settings(self) -> RetrieverConfig:
        """The settings."""
        ...


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What is being done, and when it must end; `query` and `allowed_s` are those of a search, None outside of one."""

    ends: float
    stage: str
    collection: str = ""
    query: str | None = None
    allowed_s: float | None = None

    @property
    def left(self) -> float:
        """Seconds until the end; negative when it has passed."""
        return self.ends - WAITING.now()


_scope: ContextVar[Scope | None] = ContextVar("retrievers.retry", default=None)


def bounded(
    method: Callable[Concatenate[Owner, Queries, P], Result],
) -> Callable[Concatenate[Owner, Queries, P], Result]:
    """Make a retriever's method on a query, or a list of them, one search with a deadline.

    Within another such method the deadline is the outer one's.
    """

    @functools.wraps(method)
    def search(self: Owner, queries: Queries, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        with searching(self.settings.timeout_s, self.settings.collection, queries):
            return method(self, queries, *args, **kwargs)

    return search


@contextmanager
def searching(timeout_s: float, collection: str, queries: str | Sequence[str]) -> Iterator[None]:
    """Bound what is done inside by the deadline of a search, unless one is already in force."""
    if _scope.get() is not None:
        yield
        return
    several = [queries] if isinstance(queries, str) else list(queries)
    allowed = timeout_s * max(1, len(several))
    query = several[0] if len(several) == 1 else f"{len(several)} queries"
    ends = WAITING.now() + allowed
    with _in(Scope(ends=ends, stage="search", collection=collection, query=query, allowed_s=allowed)):
        yield


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name what is being done, for errors and the log.

    Raises:
        SearchTimeoutError: The deadline has passed before it began.
    """
    scope = _scope.get()
    if scope is None:
        yield
        return
    here = replace(scope, stage=name)
    if here.left <= 0:
        raise _too_late(here, "not begun")
    with _in(here):
        yield


def attempt(
    action: Callable[[], Result], *, name: str, timeout_s: float, collection: str = "", retried: bool = True
) -> Result:
    """Do something that may fail for a while, as often as the policy says.

    Args:
        action: What to do; it raises a `RetrievalError` whose `transient` tells whether to try again.
        name: The stage that it is, outside a search.
        timeout_s: What one attempt may take; outside a search `PATIENCE` times that is the deadline of all of them.
        collection: The collection it concerns, for the log, outside a search.
        retried: Whether it may be done again at all.

    Raises:
        SearchTimeoutError: The deadline of the search has passed, or would before the next attempt.
        RetrievalError: What `action` raised the last time, with how often and how long it was tried.
    """
    scope = _scope.get()
    if scope is None:
        ends = WAITING.now() + PATIENCE * timeout_s
        with _in(Scope(ends=ends, stage=name, collection=collection)):
            return attempt(action, name=name, timeout_s=timeout_s, retried=retried)
    start = WAITING.now()
    for number in range(1, ATTEMPTS + 1):
        if scope.left <= 0 and scope.allowed_s is not None:
            raise _too_late(scope, "not begun" if number == 1 else f"{number - 1} attempts", max(1, number - 1))
        try:
            return action()
        except RetrievalError as error:
            WAITING.sleep(_wait(error, number, start, scope, ATTEMPTS if retried else 1))
    raise AssertionError("the last attempt returns or raises")


def time_left(timeout_s: float) -> float:
    """The timeout of a request that may take `timeout_s`: cut to what the deadline leaves, in seconds, above 0."""
    scope = _scope.get()
    return timeout_s if scope is None else max(0.001, min(timeout_s, scope.left))


@contextmanager
def _in(scope: Scope) -> Iterator[None]:
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def _wait(error: RetrievalError, number: int, start: float, scope: Scope, attempts: int) -> float:
    """How long to wait before the next attempt: less than is left, so that there is time for it.

    Raises:
        RetrievalError: There will be none.
    """
    tried = f"{number} attempt{'s' if number > 1 else ''} in {WAITING.now() - start:.1f} s"
    left = scope.left
    if not error.transient:
        raise error.tried(scope.stage, number, f" ({tried})" if number > 1 else "")
    if left <= 0 and scope.allowed_s is not None:
        raise _too_late(scope, f"{tried}: {error}", number) from error
    if number == attempts or left <= 0:
        raise error.tried(scope.stage, number, f" ({tried})")
    asked = error.retry_after_s or 0.0
    if asked >= left:
        raise error.tried(scope.stage, number, f" ({tried}; asked to wait {asked:.0f} s, {left:.1f} s are left)")
    wait = asked + WAITING.jitter(0.0, min(CAP_S, BASE_S * 2 ** (number - 1), (left - asked) / 2))
    _warn(error, number, wait, scope, attempts)
    return wait


def _warn(error: RetrievalError, number: int, wait: float, scope: Scope, attempts: int) -> None:
    known = {"query": scope.query} if scope.query is not None else {}
    log.warning(
        "%s: attempt %d of %d failed, trying again in %.2f s: %s",
        *(scope.stage, number, attempts, wait, error),
        extra={**known, "stage": scope.stage, "collection": scope.collection, "attempt": number},
    )


def _too_late(scope: Scope, said: str, attempts: int = 1) -> SearchTimeoutError:
    error = SearchTimeoutError(
        f"the search did not end within {scope.allowed_s:g} s (stage {scope.stage}: {said}); "
        "raise timeout_s, or look at what is slow"
    )
    return error.tried(scope.stage, attempts, "")
