"""A server's refusal as an error: its words, the remedy, and whether it is transient."""

from retrievers.config import StoreConfig
from retrievers.errors import BatchTooLargeError, StoreError, StoreUnreachableError
from retrievers.net import faults
from retrievers.text.secrets import redacted

# Statuses by which a proxy reports that the server is away.
GATEWAY = (502, 503, 504)
SERVER_FAILED = 500
# Qdrant's words for a batch larger than its rate limit.
TOO_LARGE = "larger than rate limiter capacity"


def refusal(
    store: StoreConfig,
    address: str,
    answer: str,
    status: int,
    message: str,
    *,
    retry_after_s: float | None,
    keyed: bool,
) -> StoreError:
    """Return the error for a request that the server refused, marked for `retrievers.net.retry`.

    Args:
        store: The store.
        address: Address of the store, with the collection.
        answer: The answer as it is named to the user, such as `429 Too Many Requests`.
        status: Its HTTP status.
        message: The server's own words, one line or empty.
        retry_after_s: Seconds that the server asks to wait.
        keyed: True if the request carried an API key.
    """
    if status == 429 and TOO_LARGE in message:
        return BatchTooLargeError(f"{address}: answered {answer}: {message}")
    away = status in GATEWAY
    kind = StoreUnreachableError if away else StoreError
    return kind(f"{address}: answered {answer}: {_remedy(store, status, message, keyed)}").marked(
        transient=status in faults.TRANSIENT_STATUSES, retry_after_s=retry_after_s, away=away
    )


def one_line(message: object) -> str:
    """Prepare a server's words for a message: one line, not too long, and without secrets."""
    return redacted(" ".join(str(message).split()))[:240]


def _remedy(store: StoreConfig, status: int, message: str, keyed: bool) -> str:
    quoted = f" ({message})" if message else ""
    remedies = {
        401: f"the API key in {store.api_key_env} was refused{quoted}"
        if keyed
        else f"it wants an API key, and none was sent; set {store.api_key_env}",
        403: f"the API key in {store.api_key_env} may not do this{quoted}",
        404: f"not found{quoted}; is the address that of Qdrant itself?",
        429: f"requests come too fast{quoted}; wait, and try again",
    }
    of_its_own = f"{message}; see the log of the server" if message else "see the log of the server"
    return remedies.get(status) or (message if message and status < SERVER_FAILED else of_its_own)
