"""Settings to a Qdrant client, what it holds, and the checks before a collection may be queried. Never falls back."""

from retrievers.store.checks import check_collection, check_index, with_distance
from retrievers.store.collection import (
    MANIFEST_KEY,
    NO_LIMITS,
    CollectionInfo,
    Limits,
    describe,
    least,
    parts,
    read_info,
)
from retrievers.store.opening import client_errors, location, open_client, store_errors

__all__ = [
    "MANIFEST_KEY",
    "NO_LIMITS",
    "CollectionInfo",
    "Limits",
    "check_collection",
    "check_index",
    "client_errors",
    "describe",
    "least",
    "location",
    "open_client",
    "parts",
    "read_info",
    "store_errors",
    "with_distance",
]
