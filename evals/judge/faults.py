"""A failed call of the judge: what kind of fault it is, and how it is told. Providers' libraries share no classes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from retrievers.net.faults import (
    DROPPED,
    TIMEOUTS,
    TRANSIENT_STATUSES,
    causes,
    headers_of,
    is_named,
    lasts,
    retry_after_s,
    status_of,
)
from retrievers.text.secrets import redacted

Kind = Literal["malformed", "plain", "limited", "passing", "late", "refused", "prompt"]
OVERLOADED = TRANSIENT_STATUSES | {408, 409, 425, 529}
UNSENT = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError"})
TRANSPORT = DROPPED | UNSENT | {"TransportError"}
# What libraries raise for a reply of another shape than they expect: a proxy's page, or a torn one.
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
# Words of servers that take no request for JSON, and of those that refuse one prompt alone.
OF_STRUCTURE = re.compile(r"response_format|json_schema|json_object|json mode|structured output", re.IGNORECASE)
OF_PROMPT = re.compile(
    r"context.?(length|window|size)|too (long|large|many tokens)|string_above_max_length|maximum .{0,40}(length|tokens)"
    r"|content.?(filter|policy|management)|moderation|flagged|safety|invalid_prompt",
    re.IGNORECASE,
)
# What to do, by status; 408 stands for every answer that came too late, 0 for a connection that failed.
HINTS = {
    0: "the connection failed; is judge.base_url right, and does the server run?",
    200: "the reply is no answer of a chat model; if all are, judge.base_url is not the address of the provider's API",
    401: "the API key was refused; check the variable that judge.api_key_env names",
    402: "the account has no credit left",
    403: "the API key may not use this model",
    404: "no such model, or judge.base_url is wrong",
    408: "no answer in time; judge.timeout_s sets how long to wait",
    429: "the rate limit was hit; lower judge.requests_per_minute or judge.max_concurrency",
}
QUOTED = 200


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A call without a verdict.

    Attributes:
        kind: An answer that is no verdict (`malformed`); a server that takes no request for JSON (`plain`), has had too
            many requests (`limited`), did not answer in time (`late`), or has another trouble that may pass
            (`passing`); a refusal of this prompt (`prompt`), or of any request (`refused`).
        type: Name of the library's error.
        message: One line with status and remedy, without secrets.
        retry_after_s: Seconds that the server asked to wait, None when it gave none.
        billed: True if the call may have been paid for: it was sent, and no refusal came.
    """

    kind: Kind
    type: str
    message: str
    retry_after_s: float | None = None
    billed: bool = False


def read_fault(error: Exception) -> Fault:
    """Classify an exception of a provider's library."""
    chain, said = list(causes(error)), str(error)
    late, broken, unsent = (any(is_named(cause, names) for cause in chain) for names in (TIMEOUTS, TRANSPORT, UNSENT))
    status, lasting = next(filter(None, map(status_of, chain)), 0), any(map(lasts, chain))
    unreadable = status == 200 or not (status or broken or late or not isinstance(error, UNREADABLE))
    if status == 429 and any(getattr(cause, "code", None) in NO_CREDIT for cause in chain):
        status = 402
    kind: Kind = "refused"
    if late:
        kind = "late"
    elif status == 429:
        kind = "limited"
    elif status in (400, 415, 422, 501) and OF_STRUCTURE.search(said):
        kind = "plain"
    elif status == 413 or (status in (400, 422) and OF_PROMPT.search(said)):
        kind = "prompt"
    elif not lasting and (unreadable or status in OVERLOADED or (broken and not status)):
        kind = "passing"
    hint = (
        HINTS.get(408 if late else 200 if unreadable else status, "") if status or late or broken or unreadable else ""
    )
    # What a server says of a wrong key may hold the key.
    words = "" if late or status == 401 else _said(chain)
    about = (type(error).__name__, f"status {status}" if status else "", hint, words)
    return Fault(
        kind=kind,
        type="Timeout" if late else type(error).__name__,
        message=", ".join(filter(None, about)),
        retry_after_s=retry_after_s(headers_of(error)),
        billed=status in (0, 200) and not (unsent or lasting),
    )


def _said(chain: list[BaseException]) -> str:
    """Return the server's message in the body of its reply or, without one, the message of the first cause."""
    body = next(filter(None, (getattr(cause, "body", None) for cause in chain)), None)
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    text = inner.get("message", inner) if isinstance(inner, Mapping) else inner
    return redacted(" ".join(str(text or str(chain[-1]) or chain[0]).split()))[:QUOTED]
