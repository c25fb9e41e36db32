"""A failed call of the judge: what kind of fault it is, and how it is told. Providers' libraries share no classes."""

import re
from dataclasses import dataclass
from typing import Literal

from retrievers.net.faults import (
    DROPPED,
    TIMEOUTS,
    TRANSIENT_STATUSES,
    cause,
    causes,
    headers_of,
    is_named,
    lasts,
    retry_after_s,
    status_of,
)

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
    chain = list(causes(error))
    late, broken, unsent = (any(is_named(link, names) for link in chain) for names in (TIMEOUTS, TRANSPORT, UNSENT))
    lasting = any(map(lasts, chain))
    status = next(filter(None, map(status_of, chain)), 0)
    unreadable = status == 200 or (isinstance(error, UNREADABLE) and not (status or broken or late))
    if status == 429 and any(getattr(link, "code", None) in NO_CREDIT for link in chain):
        status = 402
    kind: Kind = "refused"
    if late:
        kind = "late"
    elif status == 429:
        kind = "limited"
    elif status in (400, 415, 422, 501) and OF_STRUCTURE.search(str(error)):
        kind = "plain"
    elif status == 413 or (status in (400, 422) and OF_PROMPT.search(str(error))):
        kind = "prompt"
    elif not lasting and (unreadable or status in OVERLOADED or (broken and not status)):
        kind = "passing"
    return Fault(
        kind=kind,
        type="Timeout" if late else type(error).__name__,
        message="the answer cannot be read: " * unreadable + cause(error, "judge") + "; raise judge.timeout_s" * late,
        retry_after_s=retry_after_s(headers_of(error)),
        billed=status in (0, 200) and not (unsent or lasting),
    )
