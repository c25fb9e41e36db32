"""Settings to a client: of a server, of an embedded folder, or of a folder of qdrant-client's local mode."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from retrievers.config import StoreConfig
from retrievers.config.layers import api_key
from retrievers.store.local_mode import open_local_mode
from retrievers.store.location import embedded_folder

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


def open_client(store: StoreConfig, env: Mapping[str, str], *, create: bool = False) -> "QdrantClient":
    """Open a server, an embedded folder, or for reading a folder of qdrant-client's local mode where that is said.

    Args:
        store: Location of the store.
        env: The environment that holds the server's API key.
        create: True to make a missing folder (indexing does; reading never writes).

    Raises:
        StoreUnreachableError: The folder does not exist, or cannot be opened.
        StoreLockedError: Another process holds the folder.
        StoreError: The folder holds something else, or is damaged.
        ConfigError: The API key cannot be one, or the file of the authority holds no certificate.
    """
    if store.url:
        from retrievers.store.server import open_server

        return open_server(store, api_key(env, store.api_key_env))
    if store.local_mode and not create:
        return open_local_mode(store.local_mode)
    from retrievers.store.embedded import EmbeddedClient

    folder = embedded_folder(store, create=create)
    return cast("QdrantClient", EmbeddedClient(folder, create=create))  # the same methods for reading
