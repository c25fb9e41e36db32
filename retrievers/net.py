"""Requests to servers: which faults are transient, how long a request is repeated, and how large an answer may be.

The errors of HTTP libraries, and of the SDKs built on them, tell faults apart. Transient are a status 429, 500, 502,
503 or 504, a connection that was refused, reset or dropped, and a request that got no answer in time. All other faults
fail at once: 400, 401, 403, 404, a certificate that is not trusted, a host that does not exist, an answer that is not
the provider's. stamina repeats requests. The libraries below must not repeat them.

A search of an application repeats its requests for `SEARCH_S` seconds. A run of an evaluation or of indexing repeats
them for `RUN_S` seconds (see `patient`), since it should survive the restart of a server. If a server asks to wait
(Retry-After), the request waits as long as the server says, if that is within these seconds.
"""

import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import stamina

from retrievers.errors import RetrievalError
from retrievers.text.shown import redacted

Result = TypeVar("Result")
Typed = TypeVar("Typed", bound=RetrievalError)
SEARCH_S, RUN_S = 5.0, 60.0
# Seconds before the second attempt, the longest wait, and the longest random time that is added to a wait. Each wait is
# twice as long as the one before.
FIRST_S, MOST_S, JITTER_S = 0.25, 2.0, 0.25
TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})
# Names of error classes of Python, httpx, requests, aiohttp and SDKs, none of which has to be imported.
TIMEOUTS = frozenset({"TimeoutError", "Timeout", "TimeoutException", "APITimeoutError"})
DROPPED = frozenset(
    {"ConnectionError", "APIConnectionError", "ClientConnectionError"}
    | {"ConnectError", "ReadError", "WriteError", "RemoteProtocolError"}
)
# Most characters of a provider's message that are quoted.
QUOTED = 200
# Most bytes of an answer: three times those for 32 queries with 100 candidates and vectors of 3,072 dimensions.
MOST_BYTES = 512 * 2**20
# Headers that describe the bytes on the wire. They are wrong for an answer that was read and unpacked.
ENCODED = frozenset({"content-encoding", "content-length", "transfer-encoding"})
log = logging.getLogger(__name__)
# stamina logs every wait by the name of the function. Our own record names the fault.
logging.getLogger("stamina").addFilter(lambda record: __name__ not in str(record.__dict__.get("stamina.callable")))


# For each thread: a wait of one search must not shorten the measured time of another search.
class _Lost(threading.local):
    seconds = 0.0


# Seconds for which a run repeats a request; None in a search of an application.
_wait_s: ContextVar[float | None] = ContextVar("retrievers.net", default=None)
_lost = _Lost()


@contextmanager
def patient(wait_s: float = RUN_S) -> Iterator[None]:
    """Repeat the requests inside for up to `wait_s` seconds, or never for 0. Threads need a copy of the context."""
    token = _wait_s.set(wait_s)
    try:
        yield
    finally:
        _wait_s.reset(token)


def working_time() -> float:
    """Return the seconds of a clock that, in a patient run, leaves out failed attempts and waits of this thread."""
    return time.perf_counter() - _lost.seconds


def attempt(action: Callable[[], Result], *, name: str, retried: bool = True) -> Result:
    """Call an action, and repeat it while its fault is transient.

    Args:
        action: Function to call. It raises a `RetrievalError` whose `transient` is True if a retry may help.
        name: Name of the stage, for the log.
        retried: False to call the action only once.

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

    # stamina takes 50 µs a call, which models in this process are spared.
    tried = once
    if retried and wait_s > 0:
        waits = {"timeout": wait_s, "wait_initial": FIRST_S, "wait_max": MOST_S, "wait_jitter": JITTER_S}
        tried = stamina.retry(on=passes, attempts=None, **waits)(once)
    try:
        result = tried()
    except RetrievalError as error:
        remarks = [f"{attempts} attempts in {time.monotonic() - began:.1f} s"] if attempts > 1 else []
        if (asked := error.retry_after_s or 0.0) > wait_s > 0:
            remarks.append(f"asked to wait {asked:.0f} s, more than {wait_s:g} s")
        error.args = (f"{error} ({'; '.join(remarks)})" if remarks else str(error),)
        raise
    if of_run is not None:
        _lost.seconds += last - before
    return result


def marked(typed: Typed, error: BaseException) -> Typed:
    """Return an error of ours that is marked by its cause: as transient, as a timeout, with the wait it asks for."""
    typed.transient, typed.timed_out = is_transient(error), timed_out(error)
    typed.retry_after_s = retry_after_s(error)
    return typed


def is_transient(error: BaseException) -> bool:
    """Return True if the same request may succeed a little later.

    The first of the error and its causes that has a status, or a class with one of the names above, decides.
    """
    decisive = _decisive(error)
    if decisive is None:
        return False
    if status := status_of(decisive):
        return status in TRANSIENT_STATUSES
    return is_named(decisive, TIMEOUTS) or not any(map(lasts, causes(error)))


def timed_out(error: BaseException) -> bool:
    """Return True if no answer came in time."""
    decisive = _decisive(error)
    return decisive is not None and not status_of(decisive) and is_named(decisive, TIMEOUTS)


def lasts(error: BaseException) -> bool:
    """Return True for too large an answer, endless redirects, a host that does not exist, or a fault of TLS.

    A connection that was closed in the handshake of TLS may pass.
    """
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    fault = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return fault or isinstance(error, TooLargeError) or is_named(error, frozenset({"TooManyRedirects"}))


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error, which is an attribute of the error or of its `response`; None without one."""
    holders = (error, getattr(error, "response", None))
    statuses = (getattr(holder, name, None) for holder in holders for name in ("status_code", "status"))
    return next((status for status in statuses if isinstance(status, int) and 100 <= status <= 599), None)


def retry_after_s(error: BaseException) -> float | None:
    """Return the seconds that a server asked to wait by `Retry-After`, in its answer; None if it did not ask."""
    headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)
    named = {str(name).lower(): value for name, value in headers.items()} if isinstance(headers, Mapping) else {}
    asked = str(named.get("retry-after", ""))
    with suppress(ValueError, TypeError):  # it is no date
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    with suppress(ValueError):
        return float(asked) if 0 <= float(asked) < math.inf else None
    return None


def cause(error: BaseException, settings: str = "embedding", key: str | None = None) -> str:
    """Describe a provider's error in one line: its type, status and remedy or message.

    Args:
        error: Error of the provider's library.
        settings: The group of settings that the provider is configured by.
        key: Environment variable that holds the API key, if it is known.
    """
    status, body = status_of(error), getattr(error, "body", None)
    message = body.get("message", "") if isinstance(body, Mapping) else getattr(error, "error", "") if status else error
    if not status and timed_out(error):
        message = (type(error) is TimeoutError and str(error)) or "no answer in time"  # a user's own error may say more
    elif not status and is_named(error, DROPPED):
        # An SDK says only that there was a connection error. The error of the system says which.
        texts = [str(error), *(str(link) for link in causes(error) if isinstance(link, OSError) or lasts(link))]
        message = ": ".join(dict.fromkeys(text.rstrip(".") for text in (texts[0], texts[-1])))
    remedies = {
        200: f"the answer is not the provider's; is {settings}.base_url right?",
        401: f"the API key{f' in {key}' * bool(key)} was refused",
        403: f"the API key{f' in {key}' * bool(key)} may not do this",
        429: message or "the rate limit was hit",  # or there is no credit left, which only the server says
    }
    detail = redacted(" ".join(str(remedies.get(status or 0) or message).split()))[:QUOTED]
    return ", ".join(filter(None, (type(error).__name__, f"status {status}" if status else "", detail)))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and then its causes, each once."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def is_named(error: BaseException, names: frozenset[str]) -> bool:
    """Return True if the class of an error, or one of its base classes, has one of the names."""
    return any(parent.__name__ in names for parent in type(error).__mro__)


def _decisive(error: BaseException) -> BaseException | None:
    """Return the first of an error and its causes that tells the kind of fault; None if none does."""
    return next((cause for cause in causes(error) if is_named(cause, TIMEOUTS | DROPPED) or status_of(cause)), None)


class TooLargeError(OSError):
    """An answer is larger than allowed. The rest of it was not read."""


def exchange(client: httpx.Client, request: httpx.Request, *, timeout_s: float, most_bytes: int) -> httpx.Response:
    """Send a request and read its answer.

    Args:
        client: The client.
        request: The request. Its own timeouts are replaced.
        timeout_s: Most seconds of each wait for the server, and of the whole body.
        most_bytes: Largest size of the answer, unpacked.

    Raises:
        httpx.HTTPError: The request failed, or its answer did not end in time.
        TooLargeError: The answer is larger.
    """
    request.extensions["timeout"] = httpx.Timeout(timeout_s).as_dict()
    ends, content = time.perf_counter() + timeout_s, bytearray()
    with closing(client.send(request, stream=True)) as response:
        for part in response.iter_bytes():
            content += part
            if len(content) > most_bytes:
                raise TooLargeError(f"an answer of more than {most_bytes:,} bytes")
            if time.perf_counter() > ends:
                raise httpx.ReadTimeout("the answer does not end", request=request)
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in ENCODED]
    return httpx.Response(response.status_code, headers=headers, content=bytes(content), request=request)


class BoundedClient(httpx.Client):
    """A client for an SDK whose answers must end in time (see `exchange`): an SDK bounds each wait for a part alone.

    Args:
        timeout_s: Most seconds of each wait for the server, and of the whole body.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__(follow_redirects=True)
        self._timeout_s = timeout_s

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """Send a request, and read its answer unless it is streamed."""
        if stream:
            return super().send(request, stream=True, **options)
        return exchange(self, request, timeout_s=self._timeout_s, most_bytes=MOST_BYTES)
