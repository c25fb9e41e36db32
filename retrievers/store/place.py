"""Where a store is, and how much it may answer."""

from pathlib import Path

from retrievers.config import StoreConfig

DEFAULT_PATH = Path(".qdrant")
MOST_BYTES = 512 * 2**20
"""Of an answer: thrice what 100 candidates with vectors of 3,072 dimensions take in each of 32 queries."""


def location(store: StoreConfig) -> str:
    """Where the store is, for messages."""
    return store.url or str(store.path or DEFAULT_PATH)
