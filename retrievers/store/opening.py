"""The location of a store, a client for it, and typed errors in place of the client's.

A request to a server is bounded in time and size, and is repeated after a transient fault (see `retrievers.net`). A
client of the user's own sets its own bounds, and its requests are repeated alike (`Repeating`). To repeat a read is
safe. So it is to repeat a write of indexing: chunks have fixed point ids, so to put them, to delete them or to write
the manifest twice has the same effect as once.
"""

import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from retrievers import net
from retrievers.config import RetrieverConfig, StoreConfig, dump
from retrievers.config.files import user_cache
from retrievers.config.layers import api_key
from retrievers.errors import RetrievalError, StoreError
from retrievers.text.shown import redacted

if TYPE_CHECKING:
    from httpx import Client, Request, Response
    from qdrant_client import QdrantClient

DEFAULT_PATH = Path(".qdrant")
# Variable of the environment that holds the API key of a server.
KEY = "QDRANT_API_KEY"
COLLECTION = re.compile(r"/collections/([^/]+)")
# Parts of messages of faults that are not transient: Qdrant's for a batch larger than its rate limit, and that of httpx
# for a server without TLS.
TOO_LARGE, NO_TLS = "larger than rate limiter capacity", "illegal"
REMEDIES = {
    **dict.fromkeys((301, 302, 307, 308), "the address redirects; name the one that it leads to"),
    401: f"the API key in {KEY} was refused, or none was sent",
    403: f"the API key in {KEY} may not do this",
    404: "is the address that of Qdrant itself?",
    429: "requests come too fast; wait, and try again",
}
LIMITED = "raise it (strict_mode_config.max_query_limit): a run reads 256 points at once, a search candidates + 1"
NOT_QDRANT = "an HTML page, not Qdrant, answered: is a proxy between? is the address right?"
UNREACHED = "does it run? is http:// or https:// right? is its certificate's authority in SSL_CERT_FILE?"
LOCAL_MODE = "if you trust it, name a factory of your QdrantVectorStore over it (retriever.python)"
# Most characters of a server's message that are quoted.
QUOTED = 240


def location(store: StoreConfig, collection: str = "") -> str:
    """Return the store's location, for messages about a collection."""
    return store.url or str(embedded_folder(store, collection))


def embedded_folder(store: StoreConfig, collection: str = "", *, create: bool = False) -> Path:
    """Return the folder of an embedded store that is to hold a collection.

    If the settings name no folder, it is `.qdrant` in the working folder. If nothing is to be made, and that does not
    exist or lacks the collection, it is `.qdrant` in the user's cache folder, where an installed package keeps the
    collection of its experiments.
    """
    kept = user_cache(os.environ) / DEFAULT_PATH
    if store.path or create or not kept.exists():
        return store.path or DEFAULT_PATH
    from retrievers.store.building import find

    is_kept_alone = collection and find(kept, collection) and not find(DEFAULT_PATH, collection)
    return kept if is_kept_alone or not DEFAULT_PATH.exists() else DEFAULT_PATH


def placed(store: StoreConfig, collection: str, file: Path | None = None) -> StoreConfig:
    """Return the location of a collection's store with an absolute folder, which means the same in any working folder.

    Args:
        store: Location of the store.
        collection: The collection.
        file: File of settings that will name the store. The folder is relative to it if it is beside or below it.
    """
    if store.url:
        return store
    return store.model_copy(update={"path": placed_path(embedded_folder(store, collection), file)})


def placed_path(path: Path, file: Path | None) -> Path:
    """Return an absolute path, or one relative to `file` if it is beside or below it."""
    path, beside = path.absolute(), file and file.absolute().parent
    return path.relative_to(beside) if beside and path.is_relative_to(beside) else path


def portable_settings(retriever: RetrieverConfig, file: Path | None = None) -> dict[str, Any]:
    """Return the settings of a retriever, with the store as `placed` returns it."""
    settings = dump(retriever)
    if "store" in settings:
        settings["store"] = placed(retriever.store, retriever.collection, file).model_dump(mode="json")
    return settings


def open_client(
    store: StoreConfig, env: Mapping[str, str], collection: str = "", *, create: bool = False
) -> "QdrantClient":
    """Return a client of a server, or of the store in a folder.

    Args:
        store: Location of the store.
        env: The environment that holds the server's API key.
        collection: The collection that is to be read, if it is one.
        create: True to make a missing folder, for indexing.

    Raises:
        StoreError: The folder does not exist, cannot be read, or holds something else.
    """
    if store.url:
        return _server(store, api_key(env, KEY))
    folder = embedded_folder(store, collection, create=create)
    if (folder / "meta.json").is_file() and (folder / "collection").is_dir():
        fault = f"{folder} is a folder of qdrant-client's local mode, whose pickles may run any code"
        raise StoreError(f"{fault}; {LOCAL_MODE}")
    from retrievers.store.embedded import EmbeddedClient

    return cast("QdrantClient", EmbeddedClient(folder, create=create))  # the same methods for reading


@contextmanager
def store_errors(store: StoreConfig, collection: str) -> Iterator[None]:
    """Turn the client's errors into ours, which name the store and the collection.

    Args:
        store: The store.
        collection: The collection that the requests of the block are about.
    """
    try:
        yield
    # Errors of inner blocks are typed already. The reader of the progress may have gone (BrokenPipeError).
    except (RetrievalError, MemoryError, BrokenPipeError):
        raise
    except Exception as error:
        raise _typed(error, f"collection {collection!r} at {location(store, collection)}") from error


class Repeating:
    """A client of the user's own, whose requests are repeated as those of ours are, with our errors.

    The client itself stays as it is.

    Args:
        client: The client.
        config: Names the collection and, for messages, the store.
    """

    def __init__(self, client: Any, config: RetrieverConfig) -> None:
        self._client, self._config = client, config

    def __getattr__(self, name: str) -> Any:
        method, config = getattr(self._client, name), self._config

        def repeated(*args: Any, **options: Any) -> Any:
            def once() -> Any:
                # A client that we made would repeat the request as well.
                with net.patient(0), store_errors(config.store, config.collection):
                    return method(*args, **options)

            return net.attempt(once, name="store")

        return repeated


def _typed(error: Exception, where: str) -> StoreError:
    """Convert an error of the client to ours, and mark it if it is transient."""
    import httpx
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    cause = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(cause, ResourceExhaustedResponse):  # what the client makes of a 429 that has a Retry-After
        asked = httpx.Headers({"Retry-After": str(cause.retry_after_s)})
        cause = UnexpectedResponse(429, "Too Many Requests", cause.message.encode(), asked)
    late, words = net.timed_out(cause), _words(cause)
    if isinstance(cause, UnexpectedResponse):
        status = cause.status_code or 0
        remedy = REMEDIES.get(status, "see the log of the server" if status >= 500 or not words else "")
        remedy = LIMITED if "Limit exceeded" in words else remedy
        if status >= 400 and cause.content.lstrip().startswith(b"<"):  # a redirect has a page as well
            remedy = NOT_QDRANT
        fault = f"answered {status} {cause.reason_phrase}: {'; '.join(filter(None, (words, remedy)))}"
    elif late:
        fault = "no answer in time; raise store.timeout_s or look at the server"
    elif isinstance(cause, httpx.HTTPError):
        fault = f"cannot be reached ({words}); {UNREACHED}"
    else:
        fault = f"cannot be read or written ({words}); is it Qdrant, and the address right?"
    typed = net.marked(StoreError(f"{where}: {fault}"), cause)
    typed.transient &= NO_TLS not in words and TOO_LARGE not in words
    return typed


def _words(cause: Exception) -> str:
    """Return the message of an error or of a server in one line, shortened and without secrets; empty for HTML."""
    from qdrant_client.http.exceptions import UnexpectedResponse

    text = f"{type(cause).__name__}: {cause}"
    if isinstance(cause, UnexpectedResponse):
        try:
            text = cause.structured()["status"]["error"]
        except (KeyError, TypeError, ValueError):  # Qdrant refuses a key in plain text
            text = cause.content.decode(errors="replace").strip()
            text = "" if "<" in text or "\n" in text else text
    return redacted(" ".join(str(text).split()))[:QUOTED]


# A server


def _server(store: StoreConfig, key: str | None) -> "QdrantClient":
    """Return a client of the server at `store.url`, without sending a request."""
    from qdrant_client import QdrantClient

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        client = QdrantClient(
            url=store.url,
            api_key=key,
            timeout=math.ceil(store.timeout_s),  # the client takes whole seconds; `exchange` has the exact time
            check_compatibility=False,
            port=None,
            cloud_inference=True,  # any server encodes texts itself, so that FastEmbed is not needed here
        )
    rest = client.http.client
    http = rest._client
    rest.add_middleware(lambda request, _: _sent(store, http, request))
    return client


def _sent(store: StoreConfig, http: "Client", request: "Request") -> "Response":
    """Send a request, and repeat it while its fault is transient. Other errors of the server are left to the client."""
    from qdrant_client.http.exceptions import UnexpectedResponse

    named = COLLECTION.search(request.url.path)

    def once() -> "Response":
        with store_errors(store, named[1] if named else ""):
            response = net.exchange(http, request, timeout_s=store.timeout_s, most_bytes=net.MOST_BYTES)
            if response.status_code in net.TRANSIENT_STATUSES:
                raise UnexpectedResponse.for_response(response)
        return response

    return net.attempt(once, name="store")
