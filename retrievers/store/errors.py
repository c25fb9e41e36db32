"""The client's errors and a server's refusals as ours, with the store, the collection and the remedy."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from json import JSONDecodeError
from typing import TYPE_CHECKING

from pydantic import ValidationError

from retrievers.config import StoreConfig
from retrievers.errors import BatchTooLargeError, RetrievalError, StoreError, StoreTimeoutError, StoreUnreachableError
from retrievers.net import faults
from retrievers.store.location import location
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    import httpx
    from qdrant_client.http.exceptions import UnexpectedResponse

    from retrievers.net import TooLargeError

# Statuses by which a proxy reports that the server is away.
GATEWAY = (502, 503, 504)
SERVER_FAILED = 500
# Qdrant's words for a batch larger than its rate limit.
TOO_LARGE = "larger than rate limiter capacity"
_asked: ContextVar[str] = ContextVar("retrievers.store", default="")


@contextmanager
def store_errors(store: StoreConfig, collection: str, *, keyed: bool = True) -> Iterator[None]:
    """Turn the client's errors into ours, naming the store and the collection, marked for `retrievers.net.retry`.

    Args:
        store: The store.
        collection: The collection that the requests inside are about.
        keyed: True if requests carry an API key.
    """
    token = _asked.set(collection)
    try:
        yield
    # Errors of inner blocks are typed and marked already.
    except RetrievalError:
        raise
    except Exception as error:
        typed = _typed(error, f"collection {collection!r} at {location(store)}", store, keyed)
        if typed is None:
            raise
        raise typed from error
    finally:
        _asked.reset(token)


@contextmanager
def client_errors(collection: str) -> Iterator[None]:
    """Turn whatever a client that the caller made raises into ours."""
    try:
        yield
    except RetrievalError:
        raise
    except Exception as error:
        raise StoreError(f"collection {collection!r} cannot be read: {faults.cause(error)}") from error


def asked_collection() -> str:
    """Return the collection of the innermost `store_errors`."""
    return _asked.get()


def _typed(error: Exception, address: str, store: StoreConfig, keyed: bool) -> StoreError | None:
    """Convert an error of the client's to ours; None for any other error."""
    import httpx
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    from retrievers.net import TooLargeError

    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        wait = faults.retry_after_s(error.headers)
        return refusal(
            store, address, f"{status} {error.reason_phrase}", status, _said(error), retry_after_s=wait, keyed=keyed
        )
    if isinstance(error, QdrantException | sqlite3.Error):
        return StoreError(f"{address}: cannot be read or written ({type(error).__name__}: {error})")
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(cause, httpx.HTTPError | TooLargeError):
        return _unanswered(cause, address, store)
    # The client's own parsing.
    foreign = (JSONDecodeError, UnicodeDecodeError, AssertionError, RecursionError)
    if isinstance(error, foreign) or isinstance(cause, ValidationError):
        return StoreError(f"{address}: answered something that is not Qdrant's; is the address right?")
    return None


def _unanswered(cause: "httpx.HTTPError | TooLargeError", address: str, store: StoreConfig) -> StoreError:
    from retrievers.net import TooLargeError

    if isinstance(cause, TooLargeError):
        return StoreError(f"{address}: sent {cause}; is the address right? if it is, lower candidates")
    if faults.timed_out(cause):
        waited = float(cause.request.extensions["timeout"]["read"])
        return StoreTimeoutError(
            f"{address}: no answer within {waited:.3g} s; raise store.timeout_s or look at the server"
        ).marked(transient=True, timed_out=True)
    if faults.is_untrusted(cause):
        return StoreError(
            f"{address}: its certificate is not trusted ({cause}); name the authority that signed it in SSL_CERT_FILE"
        )
    transient = faults.is_transient(cause) and not _is_no_http(cause)
    message = one_line(f"{type(cause).__name__}: {cause}")
    return StoreUnreachableError(f"{address}: cannot be reached ({message}); {_remedy(cause, store)}").marked(
        transient=transient
    )


def _remedy(cause: "httpx.HTTPError", store: StoreConfig) -> str:
    """Return the remedy for a server that cannot be reached."""
    import httpx

    plain = (store.url or "").startswith("http://")
    # A server that speaks TLS answers plain HTTP with an alert, or closes the connection.
    if plain and _is_no_http(cause):
        return "its answer is not HTTP: if it speaks TLS, write https:// in store.url"
    if not plain and "WRONG_VERSION_NUMBER" in str(cause):
        return "it does not speak TLS: write http:// in store.url"
    if plain and isinstance(cause, httpx.RemoteProtocolError | httpx.ReadError):
        return "is the server running, the address right? If it speaks TLS, write https:// in store.url"
    return "is the server running, the address right?"


def _is_no_http(cause: Exception) -> bool:
    """Return True if the reply does not begin as HTTP does, such as an alert of TLS."""
    return "illegal request line" in str(cause) or "illegal status line" in str(cause)


def _said(error: "UnexpectedResponse") -> str:
    """Return the server's own words; a proxy's page has none."""
    try:
        return one_line(error.structured()["status"]["error"])
    except (KeyError, TypeError):
        return ""
    except ValueError:  # no JSON: Qdrant refuses a key in plain text
        text = error.content.decode(errors="replace").strip()
        return "" if "<" in text or "\n" in text else one_line(text)


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
    kind = StoreUnreachableError if status in GATEWAY else StoreError
    return kind(f"{address}: answered {answer}: {_remedy_for(store, status, message, keyed)}").marked(
        transient=status in faults.TRANSIENT_STATUSES, retry_after_s=retry_after_s
    )


def one_line(message: object) -> str:
    """Prepare a server's words for a message: one line, not too long, and without secrets."""
    return redacted(" ".join(str(message).split()))[:240]


def _remedy_for(store: StoreConfig, status: int, message: str, keyed: bool) -> str:
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
