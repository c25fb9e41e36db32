"""Where a store is, a client of it, and its errors as ours.

A request to a server is bounded in time and size, tried again, and typed when it fails. Reading is repeatable. So are
the writes of indexing: chunks have fixed point ids, so putting, refreshing and deleting them twice has the same effect,
as has writing the manifest. Only making a collection is sent once, since a second request would meet the first one's
collection. See `retrievers.net.retry` for the rules of retries.
"""

import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from retrievers.config import RetrieverConfig, StoreConfig, dump
from retrievers.config.files import LOCAL_MODE, user_cache
from retrievers.config.layers import api_key
from retrievers.errors import RetrievalError, StoreError
from retrievers.net import TooLargeError, exchange, faults, retry
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from httpx import Client, Request, Response
    from qdrant_client import QdrantClient

DEFAULT_PATH = Path(".qdrant")
# Bytes of an answer: three times those of 32 queries with 100 candidates and vectors of 3,072 dimensions.
MOST_BYTES = 512 * 2**20
COLLECTION = re.compile(r"/collections/([^/]+)")
# Qdrant's words for a batch larger than its rate limit.
TOO_LARGE = "larger than rate limiter capacity"
# What the client's parsing raises of an answer that is not Qdrant's.
NOT_QDRANT = (
    *(ValidationError, json.JSONDecodeError, UnicodeDecodeError, RecursionError, AssertionError),
    TooLargeError,
)
# Characters of a server's own words that are quoted.
QUOTED = 240


def location(store: StoreConfig) -> str:
    """Return the store's location, for messages."""
    return store.url or str(embedded_folder(store))


def embedded_folder(store: StoreConfig, *, create: bool = False) -> Path:
    """Return the folder of an embedded store.

    Where the settings name none, it is `.qdrant` in the working folder. For reading, if that is not there, it is the
    one in the user's cache folder, where an installed package keeps the collection of the packaged experiments.
    """
    if store.path or create or DEFAULT_PATH.exists():
        return store.local_mode or store.path or DEFAULT_PATH
    folder = user_cache(os.environ) / DEFAULT_PATH
    return folder if folder.exists() else DEFAULT_PATH


def portable_settings(retriever: RetrieverConfig) -> dict[str, Any]:
    """Return a retriever's settings with the place of the embedded store and the models that are taken by default."""
    settings, store = dump(retriever), retriever.store
    for name in ("embedding", "cross_encoder"):
        if name in settings:
            settings[name]["model"] = settings[name]["model"] or getattr(retriever, name).resolved_model
    if "store" in settings and not store.url and not store.path:
        settings["store"]["path"] = str(embedded_folder(store).absolute())
    return settings


def open_client(store: StoreConfig, env: Mapping[str, str], *, create: bool = False) -> "QdrantClient":
    """Open a server, an embedded folder, or for reading a folder of qdrant-client's local mode where that is said.

    Args:
        store: Location of the store.
        env: The environment that holds the server's API key.
        create: True to make a missing folder (indexing does; reading never writes).

    Raises:
        StoreError: The folder does not exist, is locked by another process, holds something else, or is damaged.
        ConfigError: The API key cannot be one.
    """
    if store.url:
        return _server(store, api_key(env, store.api_key_env))
    folder = embedded_folder(store, create=create)
    if (folder / "meta.json").is_file() and (folder / "collection").is_dir():
        return _local_mode(folder, trusted=store.local_mode is not None and not create)
    if store.local_mode:
        raise StoreError(
            f"{folder}: expected a folder that qdrant-client's local mode has made; name it without local:"
        )
    from retrievers.store.embedded import EmbeddedClient

    return cast("QdrantClient", EmbeddedClient(folder, create=create))  # the same methods for reading


@contextmanager
def store_errors(store: StoreConfig | None, collection: str, *, keyed: bool = True) -> Iterator[None]:
    """Turn the client's errors into ours, naming the store and the collection, marked for `retrievers.net.retry`.

    Args:
        store: The store; None for one that a client of the caller's own reads.
        collection: The collection that the requests inside are about.
        keyed: True if requests carry an API key.
    """
    try:
        yield
    # Errors of inner blocks are typed and marked already; whoever reads the progress may leave.
    except (RetrievalError, MemoryError, BrokenPipeError):
        raise
    except Exception as error:
        where = f"collection {collection!r}{f' at {location(store)}' if store else ''}"
        key = store.api_key_env if store else "QDRANT_API_KEY"
        raise _typed(error, where, key if keyed else "") from error


client_errors = partial(store_errors, None)
"""Turn whatever a client that the caller made raises into ours."""


def expect_exact_search() -> None:
    """Silence a warning of local mode: all its searches are exact, which is what is asked for."""
    warnings.filterwarnings("ignore", message="Local mode performs exact")


def _typed(error: Exception, where: str, key: str) -> StoreError:
    """Convert an error of the client's to ours. `key` is the variable of the API key that was sent, if one was."""
    import httpx
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, UnexpectedResponse):
        return _refusal(error, where, key)
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    said, late = _one_line(f"{type(cause).__name__}: {cause}"), faults.timed_out(cause)
    sent = isinstance(cause, httpx.HTTPError)
    if late:
        fault = "no answer in time; raise store.timeout_s or look at the server"
    elif sent:
        fault = (
            f"cannot be reached ({said}); is the server running, the address with http:// or https:// right, the "
            "authority of its certificate named in SSL_CERT_FILE?"
        )
    elif isinstance(cause, NOT_QDRANT):
        fault = f"sent what is no answer of Qdrant ({said}); is the address right? if it is, lower candidates"
    else:
        fault = f"cannot be read or written ({said})"
    transient = sent and faults.is_transient(cause) and "illegal" not in said
    return StoreError(f"{where}: {fault}").marked(transient=transient, timed_out=late)


def _refusal(error: Any, where: str, key: str) -> StoreError:
    """Return the error for a request that a server, or something in front of it, refused."""
    status = error.status_code or 0
    try:
        said = _one_line(error.structured()["status"]["error"])
    except (KeyError, TypeError, ValueError):  # Qdrant refuses a key in plain text; a proxy's page says nothing
        text = error.content.decode(errors="replace").strip()
        said = "" if "<" in text or "\n" in text else _one_line(text)
    quoted = f" ({said})" if said else ""
    remedy = {
        401: f"the API key in {key} was refused{quoted}" if key else "it wants an API key, and none was sent",
        403: f"the API key may not do this{quoted}",
        404: f"not found{quoted}; is the address that of Qdrant itself?",
        429: f"requests come too fast{quoted}; wait, and try again",
    }.get(status, said if said and status < 500 else f"see the log of the server{quoted}")
    transient = status in faults.TRANSIENT_STATUSES and TOO_LARGE not in said
    return StoreError(f"{where}: answered {status} {error.reason_phrase}: {remedy}").marked(
        transient=transient, retry_after_s=faults.retry_after_s(error.headers)
    )


def _one_line(message: object) -> str:
    """Prepare a server's words for a message: one line, not too long, and without secrets."""
    return redacted(" ".join(str(message).split()))[:QUOTED]


# A server


def _server(store: StoreConfig, key: str | None) -> "QdrantClient":
    """Return a client of the server at `store.url`, without sending a request."""
    from qdrant_client import QdrantClient

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        client = QdrantClient(
            url=store.url,
            api_key=key,
            timeout=math.ceil(store.timeout_s),  # the client takes whole seconds; each request gets the exact ones
            check_compatibility=False,
            port=None,
            cloud_inference=True,  # texts are for the server to encode, which any server does, not for FastEmbed here
        )
    rest = client.http.client
    http = rest._client
    rest.add_middleware(lambda request, _: _sent(store, http, request, keyed=bool(key)))
    return client


def _sent(store: StoreConfig, http: "Client", request: "Request", *, keyed: bool) -> "Response":
    """Send a request, again while its fault may pass; most that do not pass are left to the client."""
    from qdrant_client.http.exceptions import UnexpectedResponse

    named = COLLECTION.search(request.url.path)
    makes_collection = request.method == "PUT" and named is not None and named.end() == len(request.url.path)

    def once() -> "Response":
        with store_errors(store, named[1] if named else "", keyed=keyed):
            response = exchange(http, request, timeout_s=store.timeout_s, most_bytes=MOST_BYTES)
            if response.status_code in faults.TRANSIENT_STATUSES or response.status_code == 401:
                raise UnexpectedResponse.for_response(response)
        return response

    return retry.attempt(once, name="store", retried=not makes_collection)


def _local_mode(folder: Path, *, trusted: bool) -> "QdrantClient":
    """Return a client of a folder of qdrant-client's local mode, which it locks; whoever made it may run any code."""
    from qdrant_client import QdrantClient

    if not trusted:
        raise StoreError(
            f"{folder}: a folder of qdrant-client's local mode, which is read as --store.path {LOCAL_MODE}{folder} and "
            "never written to. Opening it runs the pickles in it: only for a folder that you trust"
        )
    expect_exact_search()
    try:
        return QdrantClient(path=str(folder), force_disable_check_same_thread=True)
    except Exception as error:  # what is stored is pickled, and unpickling damaged bytes may raise anything
        raise StoreError(
            f"{folder}: qdrant-client's local mode cannot open it ({type(error).__name__}: {error}); close the client "
            "that has it open, or make the collection again"
        ) from error
