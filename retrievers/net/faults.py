"""Transient and lasting faults, classified from the errors of HTTP libraries and of the SDKs built on them."""

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
# Names of error classes, Python's own and those of httpx, requests, aiohttp and SDKs, so that none is imported.
TIMEOUTS = frozenset({"TimeoutError", "Timeout", "TimeoutException", "APITimeoutError"})
DROPPED = frozenset(
    {"ConnectionError", "APIConnectionError", "ClientConnectionError"}
    | {"ConnectError", "ReadError", "WriteError", "RemoteProtocolError"}
)


def is_transient(error: BaseException) -> bool:
    """Return True if the same request may succeed a little later.

    Classified by the first of the error and its causes that has a status, or a class of one of the names above.
    """
    origin = _decisive(error)
    if origin is None:
        return False
    status = status_of(origin)
    if status:
        return status in TRANSIENT_STATUSES
    return is_named(origin, TIMEOUTS) or not any(lasts(cause) for cause in causes(error))


def is_untrusted(error: BaseException) -> bool:
    """Return True if a server's certificate was refused."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error))


def timed_out(error: BaseException) -> bool:
    """Return True if no answer came in time."""
    cause = _decisive(error)
    return cause is not None and not status_of(cause) and is_named(cause, TIMEOUTS)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error: its `status_code`, its `status`, or that of its `response`."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        status = _aws(response).get("HTTPStatusCode")
        return status if isinstance(status, int) else None
    for holder, name in ((error, "status_code"), (error, "status"), (response, "status_code"), (response, "status")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and 100 <= status <= 599:
            return status
    return None


def headers_of(error: BaseException) -> Any:
    """Return the headers of the answer behind an error, None without one."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return _aws(response).get("HTTPHeaders")
    return getattr(error, "headers", None) or getattr(response, "headers", None)


def _aws(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what botocore's errors hold of an answer."""
    metadata = response.get("ResponseMetadata")
    return metadata if isinstance(metadata, Mapping) else {}


def retry_after_s(headers: Any) -> float | None:
    """Return the seconds that a Retry-After header asks for; None without a header, or when it cannot be read.

    Args:
        headers: A mapping of header names, in any case, to values; anything else holds none.
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
    """Describe a provider's error in one line: its type, status and remedy or message.

    Args:
        error: Error of the provider's library.
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
        detail = "no answer in time"
    else:
        detail = _one_line(error)
    parts = [type(error).__name__, f"status {status}" if status else "", detail]
    return ", ".join(part for part in parts if part)


def _decisive(error: BaseException) -> BaseException | None:
    """Return the first of an error and its causes that shows the kind of failure."""
    kinds = TIMEOUTS | DROPPED
    return next((cause for cause in causes(error) if is_named(cause, kinds) or status_of(cause)), None)


def _one_line(text: object) -> str:
    return redacted(str(text).strip().split("\n")[0])[:200]


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())


def is_named(error: BaseException, names: frozenset[str]) -> bool:
    """Return True if the class of an error, or a class it derives from, has one of these names."""
    return any(parent.__name__ in names for parent in type(error).__mro__)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error and its causes, each once, the error itself first."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def lasts(error: BaseException) -> bool:
    """Return True for a host that does not exist, or a TLS fault other than a connection closed in its handshake."""
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
