"""What went wrong with a call of the judge, told from the errors of the providers' libraries."""

from dataclasses import dataclass
from typing import Literal

from retrievers.errors import redacted
from retrievers.faults import TRANSIENT_STATUSES, causes, is_transient, retry_after_s, timed_out

OVERLOADED = TRANSIENT_STATUSES | {408, 409, 425, 529}
HOPELESS = frozenset({401, 402, 403, 404})
"""The next call would fail as well: the key, the account or the model is wrong."""
HINTS = {
    401: "the API key was refused; check the variable that judge.api_key_env names",
    402: "the account has no credit left",
    403: "the API key may not use this model",
    404: "no such model, or judge.base_url is wrong",
    429: "the rate limit was hit; lower judge.requests_per_minute or judge.max_concurrency",
}
Kind = Literal["rate_limit", "transient", "hopeless", "refused"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A failed call.

    Attributes:
        kind: `rate_limit` and `transient` may pass; `hopeless` will fail for every call; `refused` for this one.
        type: Name of the library's error.
        message: One line with status and remedy, without secrets.
        retry_after_s: What the server asked to wait, None when it did not say.
    """

    kind: Kind
    type: str
    message: str
    retry_after_s: float | None = None


def read_fault(error: Exception) -> Fault:
    """What an exception of a provider's library comes to."""
    status = status_of(error)
    kind: Kind = "refused"
    if status == 429:
        kind = "rate_limit"
    elif status in OVERLOADED or (status is None and _may_pass(error)):
        kind = "transient"
    elif status in HOPELESS:
        kind = "hopeless"
    headers = getattr(error, "headers", None) or dict(getattr(getattr(error, "response", None), "headers", None) or {})
    return Fault(
        kind=kind,
        type="Timeout" if _timed_out(error) else type(error).__name__,
        message=explain(error),
        retry_after_s=retry_after_s(headers),
    )


def status_of(error: BaseException) -> int | None:
    """The HTTP status of a provider's error, None when there was no answer."""
    for one in causes(error):
        status = getattr(one, "status_code", None)
        if isinstance(status, int) and status > 0:
            return status
    return None


def rejects_structure(error: Exception) -> bool:
    """Whether a server refused the request for JSON itself, as those do that know no `response_format`."""
    said = str(error).lower()
    return status_of(error) in (400, 404, 415, 422, 501) and any(
        word in said for word in ("response_format", "json_schema", "json_object", "json mode", "structured output")
    )


def explain(error: BaseException) -> str:
    """An error in one line: type, status, and what to do or what the server said."""
    status = status_of(error)
    if _timed_out(error):
        said = "no answer in time; judge.timeout_s sets how long to wait"
    else:
        said = HINTS.get(status or 0) or redacted(" ".join(str(error).split()))[:300]
    return ", ".join(part for part in (type(error).__name__, f"status {status}" if status else "", said) if part)


def _may_pass(error: Exception) -> bool:
    import httpx

    passing = (httpx.TransportError, ConnectionError, TimeoutError)
    return any(is_transient(one) or isinstance(one, passing) for one in causes(error))


def _timed_out(error: BaseException) -> bool:
    return any(timed_out(one) or isinstance(one, TimeoutError) for one in causes(error))
