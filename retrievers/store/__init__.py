"""Settings to a Qdrant client, what it holds, and the checks before a collection may be queried. Never falls back."""

from retrievers.store.checks import check_index, with_distance
from retrievers.store.collection import (
    CollectionInfo,
    Limits,
    describe,
    least,
    parts,
    read_info,
)
from retrievers.store.opening import client_errors, location, open_client, store_errors

__all__ = [
    "CollectionInfo",
    "Limits",
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
