"""What went wrong with a call of the judge, told from the errors of the providers' libraries."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from retrievers.net.faults import TRANSIENT_STATUSES, causes, lasts, retry_after_s
from retrievers.text.secrets import redacted

OVERLOADED = TRANSIENT_STATUSES | {408, 409, 425, 529}
HOPELESS = frozenset({401, 402, 403, 404})
"""The next call would fail as well: the key, the account or the model is wrong."""
TIMEOUTS = ("TimeoutException", "TimeoutError", "Timeout", "APITimeoutError")
TRANSPORT = (*TIMEOUTS, "TransportError", "ConnectionError", "APIConnectionError")
"""Names of error classes, since each library brings HTTP errors of its own (httpx, httpx2, requests, the SDKs')."""
UNSENT = ("ConnectError", "ConnectTimeout", "ConnectionRefusedError")
"""Names of errors of a connection that was never made."""
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
"""What libraries raise when an answer is not of the shape they expect: a proxy's page, or a torn one."""
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
OF_PROMPT = re.compile(
    r"context.?(length|window|size)|too (long|large|many tokens)|string_above_max_length|maximum .{0,40}(length|tokens)"
    r"|content.?(filter|policy|management)|moderation|flagged|safety|invalid_prompt",
    re.IGNORECASE,
)
"""How servers word it that they refuse one prompt, and not all."""
HINTS = {
    401: "the API key was refused; check the variable that judge.api_key_env names",
    402: "the account has no credit left",
    403: "the API key may not use this model",
    404: "no such model, or judge.base_url is wrong",
    429: "the rate limit was hit; lower judge.requests_per_minute or judge.max_concurrency",
}
NOT_AN_ANSWER = (
    "the reply is no answer of a chat model, as a proxy's page or a torn reply is none; if all are, "
    "judge.base_url is not the address of the provider's API"
)
Kind = Literal["rate_limit", "transient", "hopeless", "refused"]
QUOTED = 200
BASE_S, CAP_S, LONGEST_S = 0.5, 8.0, 60.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A failed call.

    Attributes:
        kind: `rate_limit` and `transient` may pass; `hopeless` will fail for every call; `refused` for this one.
        type: Name of the library's error.
        message: One line with status and remedy, without secrets.
        retry_after_s: What the server asked to wait, None when it did not say.
        of_prompt: Whether a refusal was of this prompt: too long for the model, or stopped by a filter.
        billed: Whether the call may have been paid for: it was sent, and no refusal came.
    """

    kind: Kind
    type: str
    message: str
    retry_after_s: float | None = None
    of_prompt: bool = False
    billed: bool = False


def read_fault(error: Exception) -> Fault:
    """What an exception of a provider's library comes to."""
    headers = getattr(error, "headers", None) or dict(getattr(getattr(error, "response", None), "headers", None) or {})
    return Fault(
        kind=_kind(error),
        type="Timeout" if _is(error, TIMEOUTS) else type(error).__name__,
        message=explain(error),
        retry_after_s=retry_after_s(headers),
        of_prompt=_of_prompt(error),
        billed=status_of(error) in (None, 200) and not (_is(error, UNSENT) or any(map(lasts, causes(error)))),
    )


def wait_s(fault: Fault, attempt: int, left: float) -> float | None:
    """Seconds until the next attempt: what the server asked for, else longer each time; None when there is none.

    Args:
        fault: Why the last attempt failed.
        attempt: Its number, counted from 1.
        left: Seconds that are left for the verdict.
    """
    if fault.kind in ("hopeless", "refused") or left <= 0:
        return None
    asked = fault.retry_after_s
    if fault.kind == "rate_limit":
        wait = asked or min(LONGEST_S, 2.0**attempt)
    else:
        wait = (asked or 0.0) + random.uniform(0, min(CAP_S, BASE_S * 2 ** (attempt - 1)))
    return wait if wait < left else None


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
    """An error in one line: type, status, what the server said, and what to do."""
    status = status_of(error)
    if _is(error, TIMEOUTS):
        said = "no answer in time; judge.timeout_s sets how long to wait"
    elif _no_credit(error):
        said = HINTS[402]
    elif _unreadable(error, status):
        said = f"{NOT_AN_ANSWER}: {_said(error)}"
    else:
        said = _hinted(error, status)
    return ", ".join(part for part in (type(error).__name__, f"status {status}" if status else "", said) if part)


def _kind(error: Exception) -> Kind:
    status = status_of(error)
    if status in HOPELESS or _no_credit(error) or any(lasts(one) for one in causes(error)):
        return "hopeless"
    if status == 429:
        return "rate_limit"
    passing = status in OVERLOADED or (status is None and _is(error, TRANSPORT)) or _unreadable(error, status)
    return "transient" if passing else "refused"


def _hinted(error: BaseException, status: int | None) -> str:
    said, hint = _said(error), HINTS.get(status or 0, "")
    if status == 401:
        return hint  # what the server says of a wrong key may hold the key
    if status is None and _is(error, TRANSPORT):
        hint = "the connection failed; is judge.base_url right, and does the server run?"
    return f"{hint} ({said})" if hint else said


def _unreadable(error: BaseException, status: int | None) -> bool:
    """Whether a reply came that is not what the provider's API answers: with status 200, or noticed only later."""
    return status == 200 or (status is None and isinstance(error, UNREADABLE) and not _is(error, TRANSPORT))


def _of_prompt(error: BaseException) -> bool:
    status = status_of(error)
    return status == 413 or (status in (400, 422) and OF_PROMPT.search(str(error)) is not None)


def _no_credit(error: BaseException) -> bool:
    """Whether a rate limit is the end of the account's money, which no waiting brings back."""
    return any(getattr(one, "code", None) in NO_CREDIT for one in causes(error))


def _is(error: BaseException, names: tuple[str, ...]) -> bool:
    return any(parent.__name__ in names for one in causes(error) for parent in type(one).__mro__)


def _said(error: BaseException) -> str:
    """What the server said in the body of its reply; without one, what the first of all causes says."""
    bodies = (getattr(one, "body", None) for one in causes(error))
    told = next((text for body in bodies if (text := _in_body(body))), "") or str([*causes(error)][-1]) or str(error)
    text = redacted(" ".join(told.split()))
    return text[:QUOTED] + ("…" if len(text) > QUOTED else "")


def _in_body(body: Any) -> str:
    if isinstance(body, Mapping):
        inner = body.get("error")
        return str(body.get("message") or (inner.get("message") if isinstance(inner, Mapping) else inner) or body)
    return re.sub(r"<[^<>]*>", " ", body).strip() if isinstance(body, str) else ""
