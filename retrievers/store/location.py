"""The location of a store, and the limit of its answers."""

import os
from pathlib import Path
from typing import Any

from retrievers.config import RetrieverConfig, StoreConfig, dump
from retrievers.config.files import user_cache

DEFAULT_PATH = Path(".qdrant")
# Bytes of an answer: three times those of 32 queries with 100 candidates and vectors of 3,072 dimensions.
MOST_BYTES = 512 * 2**20


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
    settings = dump(retriever)
    for name in ("embedding", "cross_encoder"):
        if name in settings and (settings[name]["model"] is None):
            settings[name]["model"] = getattr(retriever, name).resolved_model
    store = retriever.store
    if "store" in settings and not store.url and not store.path:
        settings["store"]["path"] = str(embedded_folder(store).absolute())
    return settings
