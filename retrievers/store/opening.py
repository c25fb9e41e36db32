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
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import portalocker
from pydantic import ValidationError

from retrievers.config import RetrieverConfig, StoreConfig, dump
from retrievers.config.files import LOCAL_MODE, user_cache
from retrievers.config.layers import api_key
from retrievers.errors import BatchTooLargeError, RetrievalError, StoreError
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
# What the client's parsing raises.
NOT_QDRANT = (ValidationError, json.JSONDecodeError, UnicodeDecodeError, RecursionError, AssertionError)
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
    if store.local_mode and not create:
        return _local_mode(folder)
    if _is_local_mode(folder):
        raise StoreError(
            f"{folder}: found a folder of qdrant-client's local mode, expected an embedded store; to read it write "
            f"--store.path {LOCAL_MODE}{folder}. Opening it runs the pickles in it: only for a folder that you trust. "
            "It is never written to: name another folder to index into"
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
    transient = isinstance(cause, httpx.HTTPError) and faults.is_transient(cause) and "illegal" not in said
    if isinstance(cause, TooLargeError):
        fault = f"sent {cause}; is the address right? if it is, lower candidates"
    elif isinstance(cause, NOT_QDRANT):
        fault = "answered something that is not Qdrant's; is the address right?"
    elif not isinstance(cause, httpx.HTTPError):
        fault = f"cannot be read or written ({said})"
    elif late:
        fault = "no answer in time; raise store.timeout_s or look at the server"
    elif faults.is_untrusted(cause):
        fault = f"its certificate is not trusted ({said}); name the authority that signed it in SSL_CERT_FILE"
    else:
        fault = f"cannot be reached ({said}); is the server running, the address with http:// or https:// right?"
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
    }
    otherwise = f"{said}; see the log of the server" if said and status >= 500 else said or "see the log of the server"
    message = f"{where}: answered {status} {error.reason_phrase}: {remedy.get(status, otherwise)}"
    if status == 429 and TOO_LARGE in said:
        return BatchTooLargeError(message)
    wait = faults.retry_after_s(error.headers)
    return StoreError(message).marked(transient=status in faults.TRANSIENT_STATUSES, retry_after_s=wait)


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


# Local mode


def _is_local_mode(path: Path) -> bool:
    """Return True if a folder is one that qdrant-client's local mode has made."""
    return (path / "meta.json").is_file() and (path / "collection").is_dir()


def _local_mode(path: Path) -> "QdrantClient":
    """Return a client of a copy of the folder; whoever made the folder may run any code.

    The client locks such a folder against all others and may write to it when it opens it, so that an evaluation would
    keep out the application whose folder it is. A copy needs the lock only while it is made, and changes nothing.
    """
    from qdrant_client import QdrantClient

    if not _is_local_mode(path):
        raise StoreError(f"{path}: expected a folder that qdrant-client's local mode has made; name it without local:")
    expect_exact_search()
    flags = portalocker.LockFlags.SHARED | portalocker.LockFlags.NON_BLOCKING
    held: AbstractContextManager[Any] = nullcontext()
    if (path / ".lock").exists():
        held = portalocker.Lock(path / ".lock", mode="r", timeout=0, flags=flags)
    try:
        # On POSIX the copy is gone once it is loaded, so that a killed process leaves nothing behind.
        with tempfile.TemporaryDirectory(prefix="retrievers-", ignore_cleanup_errors=True) as folder:
            with held:
                shutil.copytree(path, Path(folder) / "copy", ignore=shutil.ignore_patterns(".lock"))
            return QdrantClient(path=str(Path(folder) / "copy"), force_disable_check_same_thread=True)
    except portalocker.LockException as error:
        held_by = "a client of qdrant-client's local mode has this folder open"
        raise StoreError(f"{path}: {held_by}, in this process or another; call its close(), then try again") from error
    # What is stored is pickled, and unpickling damaged bytes may raise anything.
    except Exception as error:
        raise StoreError(
            f"{path}: the folder of qdrant-client's local mode cannot be read, is damaged, or was made by another "
            f"version of it ({type(error).__name__}: {error}); make the collection again"
        ) from error
