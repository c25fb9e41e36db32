"""The location of a store, and the limit of its answers."""

from pathlib import Path

from retrievers.config import StoreConfig

DEFAULT_PATH = Path(".qdrant")
# Bytes of an answer: three times those of 32 queries with 100 candidates and vectors of 3,072 dimensions.
MOST_BYTES = 512 * 2**20


def location(store: StoreConfig) -> str:
    """Return the store's location, for messages."""
    return store.url or str(store.path or DEFAULT_PATH)
