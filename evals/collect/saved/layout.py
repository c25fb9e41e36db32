"""The layout of a saved retrieval: its files and their columns."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa

from retrievers.records import Chunk, StageTimings

SCHEMA_VERSION = 1
TABLES = ("queries", "candidates", "chunks")
STAGES = tuple(field.name for field in fields(StageTimings))
# Payload keys that are no fields of a chunk are not saved.
HINTS = {name: hint for name, hint in get_type_hints(Chunk).items() if name != "extra"}
TEXTS = pa.list_(pa.string())
TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    str | None: pa.string(),
    int | None: pa.int64(),
    float | None: pa.float64(),
    tuple[str, ...]: TEXTS,
    tuple[str, ...] | None: TEXTS,
}
QUERIES = pa.schema(
    [
        ("variant", pa.int32()),
        ("id", pa.string()),
        ("query", pa.string()),
        ("candidates", pa.int32()),
        ("scale", pa.string()),
        ("vector", pa.list_(pa.float32())),
        *((name, pa.float64()) for name in STAGES),
        ("no_cosine", pa.string()),
        ("distance", pa.string()),
        ("incomplete", pa.string()),
        ("cache", pa.string()),
        ("ann_recall", pa.string()),
        ("retrieved_at", pa.timestamp("us", tz="UTC")),
    ]
)
CHUNKS = pa.schema([(name, TYPES[hint]) for name, hint in HINTS.items()])


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
