"""Where a store is, for messages."""

from pathlib import Path

from retrievers.config import StoreConfig

DEFAULT_PATH = Path(".qdrant")


def location(store: StoreConfig) -> str:
    """Where the store is, for messages."""
    return store.url or str(store.path or DEFAULT_PATH)
