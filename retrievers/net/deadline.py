"""The deadline of a search, which embedding, store and reranking share, and the time by which it passes.

Requests are cut to what is left of `RetrieverConfig.timeout_s`, no wait goes past it, and once it has passed no stage
is begun. In a patient run (see `retrievers.net.patience`) it is later by what the store is waited for. A computation in
this process is not interrupted. An answer of Qdrant or Cohere has one deadline from connecting to its last byte (over
HTTP see `retrievers.net`).
"""

import functools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from retrievers.errors import SearchTimeoutError
from retrievers.net.patience import lose, patience

Result = TypeVar("Result")
Owner = TypeVar("Owner", bound="Configured")
Queries = TypeVar("Queries", bound=Sequence[str])
P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How time passes: the clock, the wait and the jitter. Tests put their own in place of `WAITING`."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float, float], float] = random.uniform


WAITING = Waiting()


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


_scope: ContextVar[Scope | None] = ContextVar("retrievers.net.retry", default=None)


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
    allowed = timeout_s * max(1, len(several)) + granted_s()
    query = several[0] if len(several) == 1 else f"{len(several)} queries"
    ends = WAITING.now() + allowed
    with within(Scope(ends=ends, stage="search", collection=collection, query=query, allowed_s=allowed)):
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
        raise too_late(here, "not begun")
    with within(here):
        yield


def pause(seconds: float) -> None:
    """Wait; in a patient run that is no working time."""
    before = time.perf_counter()
    WAITING.sleep(seconds)
    lose(time.perf_counter() - before)


def time_left(timeout_s: float) -> float:
    """The timeout of a request that may take `timeout_s`: cut to what the deadline leaves, in seconds, above 0."""
    scope = _scope.get()
    return timeout_s if scope is None else max(0.001, min(timeout_s, scope.left))


def scope() -> Scope | None:
    """What is being done; None outside a search and outside an attempt."""
    return _scope.get()


@contextmanager
def within(scope: Scope) -> Iterator[None]:
    """Let what is done inside be bounded by a scope."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def granted_s() -> float:
    """The seconds by which deadlines are later in a patient run."""
    granted = patience()
    return granted.wait_s if granted else 0.0


def too_late(scope: Scope, said: str, attempts: int = 1) -> SearchTimeoutError:
    """The error for a search whose deadline has passed, with what was last done."""
    error = SearchTimeoutError(
        f"the search did not end within {scope.allowed_s:g} s (stage {scope.stage}: {said}); "
        "raise timeout_s, or look at what is slow"
    )
    return error.tried(scope.stage, attempts, "")
