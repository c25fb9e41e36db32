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

Kind = Literal["malformed", "structure", "limited", "passing", "hopeless", "prompt", "refused"]
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
HINTS = {
    401: "the API key was refused; check the variable that judge.api_key_env names",
    402: "the account has no credit left",
    403: "the API key may not use this model",
    404: "no such model, or judge.base_url is wrong",
    429: "the rate limit was hit; lower judge.requests_per_minute or judge.max_concurrency",
}
LATE = "no answer in time; judge.timeout_s sets how long to wait"
UNREACHED = "the connection failed; is judge.base_url right, and does the server run?"
NO_ANSWER = (
    "the reply is no answer of a chat model; if all are, judge.base_url is not the address of the provider's API"
)
QUOTED = 200


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A call without a verdict.

    Attributes:
        kind: An answer that is no verdict (`malformed`); a server that takes no request for JSON (`structure`), has
            had too many requests (`limited`), or another trouble that may pass (`passing`); a refusal of all requests
            (`hopeless`), of this prompt (`prompt`), or of this request for a reason that is not known (`refused`).
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
    chain = list(causes(error))
    status = next(filter(None, map(status_of, chain)), None)
    late, broken, unsent = (any(is_named(one, names) for one in chain) for names in (TIMEOUTS, TRANSPORT, UNSENT))
    broken = status is None and (late or broken)
    unreadable = status == 200 or (status is None and not broken and isinstance(error, UNREADABLE))
    lasting = any(map(lasts, chain))
    if status == 429 and any(getattr(one, "code", None) in NO_CREDIT for one in chain):
        status = 402
    kind: Kind = "refused"
    if lasting or status in (401, 402, 403, 404):
        kind = "hopeless"
    elif status == 429:
        kind = "limited"
    elif broken or unreadable or status in OVERLOADED:
        kind = "passing"
    elif status in (400, 415, 422, 501) and OF_STRUCTURE.search(str(error)):
        kind = "structure"
    elif status == 413 or (status in (400, 422) and OF_PROMPT.search(str(error))):
        kind = "prompt"
    hint = LATE if late else NO_ANSWER if unreadable else UNREACHED if broken else HINTS.get(status or 0, "")
    # What a server says of a wrong key may hold the key.
    said = "" if late or status == 401 else _said(chain)
    about = (type(error).__name__, f"status {status}" if status else "", hint, said)
    return Fault(
        kind=kind,
        type="Timeout" if late else type(error).__name__,
        message=", ".join(filter(None, about)),
        retry_after_s=retry_after_s(headers_of(error)),
        billed=status in (None, 200) and not (unsent or lasting),
    )


def _said(chain: list[BaseException]) -> str:
    """Return the server's message in the body of its reply or, without one, the message of the first cause."""
    body = next(filter(None, (getattr(one, "body", None) for one in chain)), None)
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    text = inner.get("message", inner) if isinstance(inner, Mapping) else inner
    return redacted(" ".join(str(text or str(chain[-1]) or chain[0]).split()))[:QUOTED]
