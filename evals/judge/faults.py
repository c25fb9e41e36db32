"""Faults of a call of the judge, classified from the errors of the providers' libraries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from retrievers.net import faults
from retrievers.net.faults import DROPPED, TIMEOUTS, TRANSIENT_STATUSES, causes, is_named, lasts, retry_after_s
from retrievers.text.secrets import redacted

OVERLOADED = TRANSIENT_STATUSES | {408, 409, 425, 529}
# The next call would fail as well: the key, the account or the model is wrong.
HOPELESS = frozenset({401, 402, 403, 404})
# Names of error classes, since each library brings HTTP errors of its own (httpx, httpx2, requests, the SDKs').
TRANSPORT = TIMEOUTS | DROPPED | {"TransportError"}
UNSENT = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError"})
# Errors of libraries for an answer of another shape than they expect: a proxy's page, or an incomplete answer.
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
# Words of servers that refuse one prompt, and not all.
OF_PROMPT = re.compile(
    r"context.?(length|window|size)|too (long|large|many tokens)|string_above_max_length|maximum .{0,40}(length|tokens)"
    r"|content.?(filter|policy|management)|moderation|flagged|safety|invalid_prompt",
    re.IGNORECASE,
)
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
Kind = Literal["limited", "passing", "hopeless", "refused"]
QUOTED = 200
# Seconds before the second attempt at most, before each further one twice as many, and the most; and after a rate limit
# of a server that names no time.
BASE_S, CAP_S, LONGEST_S = 0.5, 8.0, 60.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A failed call.

    Attributes:
        kind: `limited` and `passing` may pass; `hopeless` will fail for every call; `refused` for this one.
        type: Name of the library's error.
        message: One line with status and remedy, without secrets.
        retry_after_s: Seconds that the server asked to wait, None when it gave none.
        of_prompt: True for a refusal of this prompt alone: too long for the model, or stopped by a filter.
        billed: True if the call may have been paid for: it was sent, and no refusal came.
    """

    kind: Kind
    type: str
    message: str
    retry_after_s: float | None = None
    of_prompt: bool = False
    billed: bool = False


def read_fault(error: Exception) -> Fault:
    """Classify an exception of a provider's library."""
    return Fault(
        kind=_kind(error),
        type="Timeout" if _is(error, TIMEOUTS) else type(error).__name__,
        message=explain(error),
        retry_after_s=retry_after_s(faults.headers_of(error)),
        of_prompt=_of_prompt(error),
        billed=status_of(error) in (None, 200) and not (_is(error, UNSENT) or any(map(lasts, causes(error)))),
    )


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a provider's error, None when there was no answer."""
    return next((status for cause in causes(error) if (status := faults.status_of(cause))), None)


def rejects_structure(error: Exception) -> bool:
    """Return True if a server refused the request for JSON itself, as servers without `response_format` do."""
    message = str(error).lower()
    return status_of(error) in (400, 404, 415, 422, 501) and any(
        word in message for word in ("response_format", "json_schema", "json_object", "json mode", "structured output")
    )


def explain(error: BaseException) -> str:
    """Describe an error in one line: type, status, the server's message, and the remedy."""
    status = status_of(error)
    if _is(error, TIMEOUTS):
        message = "no answer in time; judge.timeout_s sets how long to wait"
    elif _no_credit(error):
        message = HINTS[402]
    elif _unreadable(error, status):
        message = f"{NOT_AN_ANSWER}: {_said(error)}"
    else:
        message = _hinted(error, status)
    return ", ".join(part for part in (type(error).__name__, f"status {status}" if status else "", message) if part)


def _kind(error: Exception) -> Kind:
    status = status_of(error)
    if status in HOPELESS or _no_credit(error) or any(lasts(cause) for cause in causes(error)):
        return "hopeless"
    if status == 429:
        return "limited"
    passing = status in OVERLOADED or (status is None and _is(error, TRANSPORT)) or _unreadable(error, status)
    return "passing" if passing else "refused"


def _hinted(error: BaseException, status: int | None) -> str:
    message, hint = _said(error), HINTS.get(status or 0, "")
    if status == 401:
        # The server's message on a wrong key may hold the key.
        return hint
    if status is None and _is(error, TRANSPORT):
        hint = "the connection failed; is judge.base_url right, and does the server run?"
    return f"{hint} ({message})" if hint else message


def _unreadable(error: BaseException, status: int | None) -> bool:
    """Return True if a reply came that is not in the provider's API: with status 200, or noticed only later."""
    return status == 200 or (status is None and isinstance(error, UNREADABLE) and not _is(error, TRANSPORT))


def _of_prompt(error: BaseException) -> bool:
    status = status_of(error)
    return status == 413 or (status in (400, 422) and OF_PROMPT.search(str(error)) is not None)


def _no_credit(error: BaseException) -> bool:
    """Return True if a rate limit means that the account has no money left, which waiting does not change."""
    return any(getattr(cause, "code", None) in NO_CREDIT for cause in causes(error))


def _is(error: BaseException, names: frozenset[str]) -> bool:
    return any(is_named(cause, names) for cause in causes(error))


def _said(error: BaseException) -> str:
    """Return the server's message in the body of its reply or, without one, the message of the first cause."""
    bodies = (getattr(cause, "body", None) for cause in causes(error))
    message = next((text for body in bodies if (text := _in_body(body))), "") or str([*causes(error)][-1]) or str(error)
    text = redacted(" ".join(message.split()))
    return text[:QUOTED] + ("…" if len(text) > QUOTED else "")


def _in_body(body: Any) -> str:
    if isinstance(body, Mapping):
        inner = body.get("error")
        return str(body.get("message") or (inner.get("message") if isinstance(inner, Mapping) else inner) or body)
    return re.sub(r"<[^<>]*>", " ", body).strip() if isinstance(body, str) else ""
