"""Transient and lasting faults, classified from the errors of HTTP libraries and of the SDKs built on them."""

import math
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from retrievers.text.secrets import redacted

TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})
# Names of error classes, Python's own and those of httpx, requests, aiohttp and SDKs, so that none is imported.
TIMEOUTS = frozenset({"TimeoutError", "Timeout", "TimeoutException", "APITimeoutError"})
DROPPED = frozenset(
    {"ConnectionError", "APIConnectionError", "ClientConnectionError"}
    | {"ConnectError", "ReadError", "WriteError", "RemoteProtocolError"}
)
# Characters of a provider's own words that are quoted.
QUOTED = 200


def is_transient(error: BaseException) -> bool:
    """Return True if the same request may succeed a little later.

    Classified by the first of the error and its causes that has a status, or a class of one of the names above.
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
    """Return True for a host that does not exist, or a TLS fault other than a connection closed in its handshake."""
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error: its `status_code`, its `status`, or that of its `response`."""
    holders = (error, getattr(error, "response", None))
    found = (getattr(holder, name, None) for holder in holders for name in ("status_code", "status"))
    return next((status for status in found if isinstance(status, int) and 100 <= status <= 599), None)


def headers_of(error: BaseException) -> Any:
    """Return the headers of the answer behind an error, None without one."""
    return getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)


def retry_after_s(headers: Any) -> float | None:
    """Return the seconds that a server asks to wait by `Retry-After`; None where it names none.

    Args:
        headers: A mapping of header names, in any case, to values; anything else holds none.
    """
    named = {str(name).lower(): value for name, value in headers.items()} if isinstance(headers, Mapping) else {}
    try:
        seconds = float(named.get("retry-after", "nan"))
    except ValueError:  # a date, which no server of models or of Qdrant sends
        return None
    return seconds if 0 <= seconds < math.inf else None


def cause(error: BaseException, settings: str = "embedding") -> str:
    """Describe a provider's error in one line: its type, status and remedy or message.

    Args:
        error: Error of the provider's library.
        settings: The group of settings that the provider is configured by.
    """
    status, body = status_of(error), getattr(error, "body", None)
    said = body.get("message", "") if isinstance(body, Mapping) else "" if status else error
    if not status and timed_out(error):
        said = "no answer in time"
    elif not status and is_named(error, DROPPED):
        # The SDKs' own words are that there was a connection error; the system's say which.
        texts = [str(error), *(str(link) for link in causes(error) if isinstance(link, OSError))]
        said = ": ".join(dict.fromkeys(text.rstrip(".") for text in (texts[0], texts[-1])))
    remedies = {
        200: f"the answer is not the provider's; is {settings}.base_url right?",
        401: "the API key was refused",
        403: "the API key may not do this",
        429: said or "the rate limit was hit",  # also of whoever has no credit, which only the server tells
    }
    detail = redacted(str(remedies.get(status or 0) or said).strip().split("\n")[0])[:QUOTED]
    return ", ".join(filter(None, (type(error).__name__, f"status {status}" if status else "", detail)))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error and its causes, each once, the error itself first."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def is_named(error: BaseException, names: frozenset[str]) -> bool:
    """Return True if the class of an error, or a class it derives from, has one of these names."""
    return any(parent.__name__ in names for parent in type(error).__mro__)


def _decisive(error: BaseException) -> BaseException | None:
    """Return the first of an error and its causes that shows the kind of failure."""
    return next((cause for cause in causes(error) if is_named(cause, TIMEOUTS | DROPPED) or status_of(cause)), None)
