"""The deadline of a search, which embedding, store and reranking share, and the time by which it passes.

Requests are cut to the rest of `RetrieverConfig.timeout_s`, no wait goes past it, and once it has passed no stage
is begun. In a patient run (see `retrievers.net.patience`) it is later by what the store is waited for. A computation in
this process is not interrupted. An answer of Qdrant or Cohere has one deadline from connecting to its last byte (over
HTTP see `retrievers.net`).
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from retrievers import clock
from retrievers.errors import SearchTimeoutError
from retrievers.net.patience import lose, patience

Result = TypeVar("Result")
Owner = TypeVar("Owner", bound="Configured")
Queries = TypeVar("Queries", bound=Sequence[str])
P = ParamSpec("P")


class Bounds(Protocol):
    """Settings that bound a search."""

    @property
    def timeout_s(self) -> float:
        """Seconds that one search may take in all."""

    @property
    def collection(self) -> str:
        """Name of the collection."""


class Configured(Protocol):
    """A retriever with settings."""

    @property
    def settings(self) -> Bounds:
        """The settings."""
        ...


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Current operation and its end; `query` and `allowed_s` are those of a search, None outside of one."""

    ends: float
    stage: str
    collection: str = ""
    query: str | None = None
    allowed_s: float | None = None

    @property
    def left(self) -> float:
        """Seconds until the end; negative when it has passed."""
        return self.ends - clock.CLOCK.now()


_scope: ContextVar[Scope | None] = ContextVar("retrievers.net.deadline", default=None)


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
    """Bound the block by the deadline of a search, unless one is already in force."""
    if _scope.get() is not None:
        yield
        return
    texts = [queries] if isinstance(queries, str) else list(queries)
    # A batch is as many searches, so it gets the time of all of them.
    allowed = timeout_s * max(1, len(texts)) + granted_s()
    query = texts[0] if len(texts) == 1 else f"{len(texts)} queries"
    ends = clock.CLOCK.now() + allowed
    with within(Scope(ends=ends, stage="search", collection=collection, query=query, allowed_s=allowed)):
        yield


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name the current operation, for errors and the log.

    Raises:
        SearchTimeoutError: The deadline has passed before it began.
    """
    scope = _scope.get()
    if scope is None:
        yield
        return
    # Not by `replace`, which takes five times as long, in every stage of every search.
    inner = Scope(
        ends=scope.ends, stage=name, collection=scope.collection, query=scope.query, allowed_s=scope.allowed_s
    )
    if inner.left <= 0:
        raise too_late(inner, "not begun")
    with within(inner):
        yield


def pause(seconds: float) -> None:
    """Wait; in a patient run that is no working time."""
    before = time.perf_counter()
    clock.CLOCK.sleep(seconds)
    lose(time.perf_counter() - before)


def time_left(timeout_s: float) -> float:
    """Return the timeout of a request: `timeout_s` or the time until the deadline if less, in seconds, above 0."""
    scope = _scope.get()
    # A timeout that is not above 0 would be an error of the client instead of a timeout.
    return timeout_s if scope is None else max(0.001, min(timeout_s, scope.left))


def scope() -> Scope | None:
    """Return the current operation; None outside a search and outside an attempt."""
    return _scope.get()


@contextmanager
def within(scope: Scope) -> Iterator[None]:
    """Bound the block by a scope."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def granted_s() -> float:
    """Return the seconds by which a patient run moves deadlines."""
    granted = patience()
    return granted.wait_s if granted else 0.0


def too_late(scope: Scope, message: str, attempts: int = 1) -> SearchTimeoutError:
    """Return the error for a search whose deadline has passed, with its last operation."""
    error = SearchTimeoutError(
        f"the search did not end within {scope.allowed_s:g} s (stage {scope.stage}: {message}); "
        "raise timeout_s, or find what is slow"
    )
    return error.tried(scope.stage, attempts, "")
