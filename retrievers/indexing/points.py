"""Chunks to points: vectors, term weights and payload, as langchain-qdrant reads them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import ConfigError
from retrievers.records import METADATA_FIELDS, Chunk
from retrievers.store.payload import DERIVED_FIELDS, payload_keys, to_metadata

if TYPE_CHECKING:
    from qdrant_client import models


def to_points(
    chunks: Sequence[Chunk], config: RetrieverConfig, vectors: Mapping[str, list[float]], encoder: Bm25Encoder
) -> "list[models.PointStruct]":
    """Make the points of chunks.

    langchain-qdrant could not write them: it embeds the text that it stores, here without the context.

    Args:
        chunks: The chunks.
        config: Names the vectors and the payload keys.
        vectors: Indexed text to vector, for every chunk.
        encoder: Weighs the terms.
    """
    from qdrant_client import models

    return [
        models.PointStruct(
            id=chunk.point_id,
            vector={
                config.vector_name: vectors[chunk.indexed_text],
                config.keyword.vector_name: encoder.document(chunk.indexed_text),
            },
            payload=to_payload(chunk, config.metadata),
        )
        for chunk in chunks
    ]


def to_payload(chunk: Chunk, config: MetadataConfig) -> dict[str, Any]:
    """Return the payload that `retrievers.store.payload.to_chunk` reads with the same settings, and the preview."""
    fields = {config.map.get(name, name): value for name, value in to_metadata(chunk).items()}
    return {config.text_key: chunk.text} | ({config.nested_under: fields} if config.nested_under else fields)


def written_part(payload: Mapping[str, Any], config: MetadataConfig) -> dict[str, Any]:
    """Return the part of a stored payload that `to_payload` writes; other top-level keys belong to others."""
    fields = (config.map.get(name, name) for name in (*METADATA_FIELDS, *DERIVED_FIELDS))
    keys = (config.text_key, *([config.nested_under] if config.nested_under else fields))
    return {key: payload[key] for key in keys if key in payload}


def check_writable(config: MetadataConfig) -> None:
    """Make sure that no two values have one key, and that a filter can name every key.

    Raises:
        ConfigError: Naming the settings and the key.
    """
    targets = {"metadata.text_key": config.text_key}
    if config.nested_under:
        targets["metadata.nested_under"] = config.nested_under
    targets |= {f"metadata.map.{name}": key for name, key in config.map.items()}
    for setting, key in targets.items():
        if not key or "." in key or '"' in key:
            raise ConfigError(f"{setting}: expected a payload key without dots and quotes to write under, got {key!r}")
    readers = {name: payload_keys(name, config) for name in METADATA_FIELDS} | {
        name: (name,) for name in DERIVED_FIELDS
    }
    for name, key in config.map.items():
        for other in (other for other, keys in readers.items() if other != name and key in _last(keys)):
            raise ConfigError(f"metadata.map: {name} and {other} would both be under the payload key {key!r}")
    used = {config.nested_under} if config.nested_under else {key for keys in readers.values() for key in _last(keys)}
    if config.text_key in used:
        raise ConfigError(
            f"metadata.text_key: the payload key {config.text_key!r} holds other fields already; choose another"
        )


def _last(keys: tuple[str, ...]) -> set[str]:
    return {key.rpartition(".")[2] for key in keys}
