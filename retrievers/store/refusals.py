"""What a server's refusal comes to, over HTTP or gRPC: its words, what to do, and whether it may pass."""

from retrievers.config import StoreConfig
from retrievers.errors import BatchTooLargeError, StoreError, StoreUnreachableError
from retrievers.net import faults
from retrievers.text.secrets import redacted

GATEWAY = (502, 503, 504)
"""Statuses by which something in front of the server says that it is away."""
SERVER_FAILED = 500
TOO_LARGE = "larger than rate limiter capacity"
"""Qdrant's words for a batch that its rate limiter can never let pass."""


def refusal(
    store: StoreConfig,
    place: str,
    answer: str,
    status: int,
    said: str,
    *,
    retry_after_s: float | None,
    keyed: bool,
) -> StoreError:
    """The error for a request that the server refused, marked for `retrievers.net.retry`.

    Args:
        store: The store.
        place: Where it is, with the collection.
        answer: The answer as it is named to the user, such as `429 Too Many Requests`.
        status: Its HTTP status, or the one that a gRPC code stands for.
        said: The server's own words, one line or empty.
        retry_after_s: How long the server asks to be left alone.
        keyed: Whether the request was sent with an API key.
    """
    if status == 429 and TOO_LARGE in said:
        return BatchTooLargeError(f"{place}: answered {answer}: {said}")
    away = status in GATEWAY
    kind = StoreUnreachableError if away else StoreError
    return kind(f"{place}: answered {answer}: {_remedy(store, status, said, keyed)}").marked(
        transient=status in faults.TRANSIENT_STATUSES, retry_after_s=retry_after_s, away=away
    )


def one_line(said: object) -> str:
    """A server's words for a message: on one line, not too long, and without secrets."""
    return redacted(" ".join(str(said).split()))[:240]


def _remedy(store: StoreConfig, status: int, said: str, keyed: bool) -> str:
    quoted = f" ({said})" if said else ""
    remedies = {
        401: f"the API key in {store.api_key_env} was refused{quoted}"
        if keyed
        else f"it wants an API key, and none was sent; set {store.api_key_env}",
        403: f"the API key in {store.api_key_env} may not do this{quoted}",
        404: f"not found{quoted}; is the address that of Qdrant itself?",
        429: f"requests come too fast{quoted}; wait, and try again",
    }
    of_its_own = f"{said}; see the log of the server" if said else "see the log of the server"
    return remedies.get(status) or (said if said and status < SERVER_FAILED else of_its_own)
