"""Settings to a Qdrant client, and the checks before a collection may be queried. Never falls back."""

from retrievers.store.checks import check_collection, check_index, with_distance
from retrievers.store.client import open_client
from retrievers.store.collection import (
    MANIFEST_KEY,
    NO_LIMITS,
    CollectionInfo,
    Deployment,
    Limits,
    describe,
    least,
    parts,
    read_info,
    survey,
)
from retrievers.store.errors import client_errors, store_errors
from retrievers.store.location import embedded_folder, location

__all__ = [
    "MANIFEST_KEY",
    "NO_LIMITS",
    "CollectionInfo",
    "Deployment",
    "Limits",
    "check_collection",
    "check_index",
    "client_errors",
    "describe",
    "embedded_folder",
    "least",
    "location",
    "open_client",
    "parts",
    "read_info",
    "store_errors",
    "survey",
    "with_distance",
]
