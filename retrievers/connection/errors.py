"""The client's errors as ours: which store, which collection, what was answered, what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from retrievers import faults
from retrievers.config import StoreConfig
from retrievers.connection.place import location
from retrievers.errors import RetrievalError, StoreError, StoreTimeoutError, StoreUnreachableError
from retrievers.secrets import redacted

if TYPE_CHECKING:
    import httpx
    from qdrant_client.http.exceptions import UnexpectedResponse

    from retrievers.net import TooLargeError

_asked: ContextVar[str] = ContextVar("retrievers.connection", default="")


@contextmanager
def store_errors(store: StoreConfig, collection: str) -> Iterator[None]:
    """Turn the client's errors into ours, naming the store and the collection, marked for `retrievers.retry`."""
    token = _asked.set(collection)
    try:
        yield
    except RetrievalError:
        raise
    except Exception as error:
        typed = _typed(error, f"collection {collection!r} at {location(store)}", store)
        if typed is None:
            raise
        raise typed from error
    finally:
        _asked.reset(token)


def asked_collection() -> str:
    """The collection that the innermost `store_errors` is about."""
    return _asked.get()


def _typed(error: Exception, place: str, store: StoreConfig) -> StoreError | None:
    """Our error for one of the client's; None for one that is not."""
    import httpx
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    from retrievers.net import TooLargeError

    if isinstance(error, UnexpectedResponse):
        return _refused(error, place, store).marked(
            transient=faults.is_transient(error), retry_after_s=faults.retry_after_s(error.headers)
        )
    if isinstance(error, QdrantException | sqlite3.Error):
        return StoreError(f"{place}: cannot be read or written ({type(error).__name__}: {error})")
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(cause, httpx.HTTPError | TooLargeError):
        return _unanswered(cause, place, store)
    if store.prefer_grpc and callable(getattr(error, "code", None)):
        return _over_grpc(error, place)
    foreign = (JSONDecodeError, UnicodeDecodeError, AssertionError, RecursionError)  # what the client makes of it
    if isinstance(error, foreign) or isinstance(cause, ValidationError):
        return StoreError(f"{place}: answered something that is not Qdrant's; is the address right?")
    return None


def _unanswered(cause: "httpx.HTTPError | TooLargeError", place: str, store: StoreConfig) -> StoreError:
    from retrievers.net import TooLargeError

    if isinstance(cause, TooLargeError):
        return StoreError(f"{place}: sent {cause}; is the address right? if it is, lower candidates")
    if faults.timed_out(cause):
        waited = float(cause.request.extensions["timeout"]["read"])
        return StoreTimeoutError(
            f"{place}: no answer within {waited:.3g} s; raise store.timeout_s or look at the server"
        ).marked(transient=True, timed_out=True)
    if faults.is_untrusted(cause):
        return StoreError(
            f"{place}: its certificate is not trusted ({cause}); name the authority that signed it in store.ca_file"
        )
    return StoreUnreachableError(
        f"{place}: cannot be reached ({type(cause).__name__}: {cause}); is the server running, the address right?"
    ).marked(transient=faults.is_transient(cause))


def _over_grpc(error: Any, place: str) -> StoreError:
    kinds = {"DEADLINE_EXCEEDED": StoreTimeoutError, "UNAVAILABLE": StoreUnreachableError}
    name = str(getattr(error.code(), "name", error.code()))
    return kinds.get(name, StoreError)(f"{place}: answered {name} over gRPC: {_one_line(error.details())}")


def _refused(error: "UnexpectedResponse", place: str, store: StoreConfig) -> StoreError:
    remedies = {
        401: f"the API key was refused; expected it in {store.api_key_env}",
        403: f"the API key in {store.api_key_env} may not do this",
        404: "not found; is the address that of Qdrant itself?",
        429: "requests come too fast; wait, and try again",
    }
    remedy = remedies.get(error.status_code or 0) or f"{_said(error)}see the log of the server"
    return StoreError(f"{place}: answered {error.status_code} {error.reason_phrase}: {remedy}")


def _one_line(said: object) -> str:
    return redacted(" ".join(str(said).split()))[:200]


def _said(error: "UnexpectedResponse") -> str:
    try:
        return _one_line(error.structured()["status"]["error"]) + "; "
    except (ValueError, KeyError, TypeError):  # a proxy's page
        return ""
