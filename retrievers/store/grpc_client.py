"""Requests over gRPC, bounded and retried like those over HTTP."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrievers.config import StoreConfig
from retrievers.config.text_files import read_bytes
from retrievers.errors import ConfigError
from retrievers.net import deadline, retry
from retrievers.store.errors import asked_collection, store_errors
from retrievers.store.location import MOST_BYTES
from retrievers.store.request_pace import RequestPace

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

MAKES_A_COLLECTION = "/qdrant.Collections/Create"
CHANNEL = {
    "grpc.initial_reconnect_backoff_ms": 200,
    "grpc.max_reconnect_backoff_ms": 1000,  # it would be two minutes, in which every call fails
    "grpc.max_receive_message_length": MOST_BYTES,
}


def grpc_options(store: StoreConfig) -> dict[str, Any] | None:
    """Return the options of the client's channels: the delay of a reconnect, and the trusted authority.

    Where `store.ca_file` is not set, the file that SSL_CERT_FILE names is trusted, as it is over HTTP.

    Raises:
        ConfigError: `store.ca_file` cannot be read.
    """
    if not store.prefer_grpc:
        return None
    file = str(store.ca_file or os.environ.get("SSL_CERT_FILE", ""))
    if not file:
        return dict(CHANNEL)
    try:
        return {**CHANNEL, "root_certificates": read_bytes(Path(file), "a PEM file of certificates", MOST_BYTES)}
    except OSError as error:
        raise ConfigError(f"store.ca_file {file!r}: cannot be read ({error.strerror})") from error


def guard(client: "QdrantClient", store: StoreConfig, pace: RequestPace, *, keyed: bool) -> None:
    """Let every call of a client that has not called yet pass through `retrievers.net.retry`.

    Args:
        client: A client that prefers gRPC.
        store: Its settings.
        pace: RequestPace that the server's rate limit allows.
        keyed: True if requests carry an API key.
    """
    import grpc

    class Guard(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            return _called(store, pace, keyed, continuation, details, request)

    # The client has no parameter for interceptors.
    remote: Any = client._client
    remote._init_grpc_channel()
    remote._grpc_channel_pool = [grpc.intercept_channel(channel, Guard()) for channel in remote._grpc_channel_pool]


def _called(
    store: StoreConfig, pace: RequestPace, keyed: bool, call: Callable[[Any, Any], Any], details: Any, request: Any
) -> Any:
    """Make a call, again while its fault may pass."""
    collection = asked_collection()
    method = details.method.decode() if isinstance(details.method, bytes) else details.method

    def once() -> Any:
        bounded = details._replace(timeout=deadline.time_left(store.timeout_s))
        with store_errors(store, collection, keyed=keyed):
            answer = call(bounded, request)
            # Raises the error of the call.
            answer.result()
        return answer

    return retry.attempt(
        lambda: pace.keep(lambda: len(getattr(request, "query_points", ())) or 1, once),
        name="store",
        timeout_s=store.timeout_s,
        collection=collection,
        retried=method != MAKES_A_COLLECTION,
    )
