"""What may pass by itself and what will not, told from the errors of HTTP libraries and of the SDKs built on them."""

import math
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from retrievers.text.secrets import redacted

TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})
TIMEOUTS = frozenset({"TimeoutError", "Timeout", "TimeoutException", "APITimeoutError"})
DROPPED = frozenset(
    {"ConnectionError", "APIConnectionError", "ClientConnectionError"}
    | {"ConnectError", "ReadError", "WriteError", "RemoteProtocolError"}
)
"""Names of error classes, Python's own and those of httpx, requests, aiohttp and SDKs: none of them need be loaded."""


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a little later.

    Told from the first of the error and its causes that has a status, or is of a class of one of the names above.
    """
    told = _telling(error)
    if told is None:
        return False
    status = status_of(told)
    if status:
        return status in TRANSIENT_STATUSES
    return _is(told, TIMEOUTS) or not any(lasts(cause) for cause in causes(error))


def is_untrusted(error: BaseException) -> bool:
    """Whether a server's certificate was refused."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error))


def timed_out(error: BaseException) -> bool:
    """Whether no answer came in time."""
    told = _telling(error)
    return told is not None and not status_of(told) and _is(told, TIMEOUTS)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error itself has: as `status_code`, as `status`, or that of its `response`."""
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (error, "status"), (response, "status_code"), (response, "status")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and 100 <= status <= 599:
            return status
    return None


def headers_of(error: BaseException) -> Any:
    """The headers of the answer that an error came of, None without one."""
    return getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)


def retry_after_s(headers: Any) -> float | None:
    """What a Retry-After header asks for, in seconds from now; None when there is none, or none that can be read.

    Args:
        headers: A mapping of header names, in whatever case, to values; anything else holds none.
    """
    if not isinstance(headers, Mapping):
        return None
    value = next((str(v).strip() for k, v in headers.items() if str(k).lower() == "retry-after"), "")
    try:
        seconds = float(value)
    except ValueError:
        return _until(value)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def cause(error: BaseException, settings: str = "embedding") -> str:
    """What a provider's error comes to in one line: its type, status and remedy or message.

    Args:
        error: What the provider's library raised.
        settings: The group of settings that the provider is configured by.
    """
    status = status_of(error)
    hint = {
        200: f"the answer is not the provider's; is {settings}.base_url right?",
        401: "the API key was refused",
        403: "the API key may not do this",
        429: "the rate limit was hit",
    }
    if status:
        body = getattr(error, "body", None)
        detail = hint.get(status) or _one_line(body.get("message", "") if isinstance(body, Mapping) else "")
    elif "timeout" in type(error).__name__.lower():
        detail = f"no answer in time; {settings}.timeout_s sets how long to wait"
    else:
        detail = _one_line(error)
    parts = [type(error).__name__, f"status {status}" if status else "", detail]
    return ", ".join(part for part in parts if part)


def _telling(error: BaseException) -> BaseException | None:
    """The first of an error and its causes that says what kind of failure it is."""
    kinds = TIMEOUTS | DROPPED
    return next((one for one in causes(error) if _is(one, kinds) or status_of(one)), None)


def _is(error: BaseException, names: frozenset[str]) -> bool:
    return any(parent.__name__ in names for parent in type(error).__mro__)


def _one_line(said: object) -> str:
    return redacted(str(said).strip().split("\n")[0])[:200]


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from, each once, the error itself first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def lasts(error: BaseException) -> bool:
    """Whether it is a host that does not exist, or anything wrong with TLS but a connection ended in its handshake."""
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
