"""A client of a Qdrant server: every request is bounded in time and size, tried again, and typed when it fails.

Reading is repeatable. So are the writes of indexing: chunks have fixed point ids, so putting, refreshing and deleting
them twice has the same effect, as has writing the manifest. Only making a collection is sent once, since a second
request would meet the first one's collection. See `retrievers.net.retry` for the rules of retries.
"""

import math
import re
import warnings
from typing import TYPE_CHECKING

from retrievers.config import StoreConfig
from retrievers.net import exchange, faults, retry
from retrievers.store.errors import asked_collection, store_errors
from retrievers.store.location import MOST_BYTES

if TYPE_CHECKING:
    from httpx import Client, Request, Response
    from qdrant_client import QdrantClient

MAKES_A_COLLECTION = re.compile(r"/collections/[^/]+$")


def open_server(store: StoreConfig, key: str | None) -> "QdrantClient":
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
    rest.add_middleware(lambda request, _: _sent(store, bool(key), http, request))
    return client


def _sent(store: StoreConfig, keyed: bool, http: "Client", request: "Request") -> "Response":
    """Send a request, again while its fault may pass; most that do not pass are left to the client."""
    collection = asked_collection()
    makes_collection = request.method == "PUT" and MAKES_A_COLLECTION.search(request.url.path) is not None
    return retry.attempt(
        lambda: _once(store, collection, keyed, http, request),
        name="store",
        collection=collection,
        retried=not makes_collection,
    )


def _once(store: StoreConfig, collection: str, keyed: bool, http: "Client", request: "Request") -> "Response":
    from qdrant_client.http.exceptions import UnexpectedResponse

    with store_errors(store, collection, keyed=keyed):
        response = exchange(http, request, timeout_s=store.timeout_s, most_bytes=MOST_BYTES)
        if response.status_code in faults.TRANSIENT_STATUSES or response.status_code == 401:
            raise UnexpectedResponse.for_response(response)
    return response
