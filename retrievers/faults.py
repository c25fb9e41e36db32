"""What may pass by itself and what will not, told from the errors of HTTP libraries and of the SDKs built on them."""

import math
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a little later.

    Args:
        error: An error of httpx, or of an SDK that has a `status_code`.
    """
    import httpx

    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in TRANSIENT_STATUSES
    if isinstance(error, httpx.TimeoutException):
        return True
    passing = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
    return isinstance(error, passing) and not any(lasts(cause) for cause in causes(error))


def is_untrusted(error: BaseException) -> bool:
    """Whether a server's certificate was refused."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error))


def timed_out(error: BaseException) -> bool:
    """Whether no answer came in time."""
    import httpx

    return isinstance(error, httpx.TimeoutException)


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
    status = getattr(error, "status_code", None)
    hint = {
        200: f"the answer is not the provider's; is {settings}.base_url right?",
        401: "the API key was refused",
        403: "the API key may not do this",
        429: "the rate limit was hit",
    }
    if isinstance(status, int):
        body = getattr(error, "body", None)
        detail = hint.get(status) or _one_line(body.get("message", "") if isinstance(body, Mapping) else "")
    elif "timeout" in type(error).__name__.lower():
        detail = f"no answer in time; {settings}.timeout_s sets how long to wait"
    else:
        detail = _one_line(error)
    parts = [type(error).__name__, f"status {status}" if status else "", detail]
    return ", ".join(part for part in parts if part)


def _one_line(said: object) -> str:
    return str(said).strip().split("\n")[0][:200]


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
