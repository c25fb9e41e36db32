"""The content and record of a collection, before an update."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from retrievers.config import IndexSettings, MetadataConfig, RetrieverConfig
from retrievers.errors import CollectionNotFoundError, CollectionStateError, EmbeddingMismatchError
from retrievers.store import CollectionInfo, Limits, describe, location
from retrievers.store.recorded_model import other_model
from retrievers.store.stored_chunks import records

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


def existing(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo | None:
    """Return the collection of that name; None where there is none.

    Raises:
        CollectionStateError: Another program made it.
        EmbeddingMismatchError: It was made with another model.
    """
    try:
        info = describe(client, config)
    except CollectionNotFoundError:
        return None
    recorded = info.manifest.get("embedding")
    if not recorded:
        raise CollectionStateError(
            f"collection {info.name!r} at {location(config.store)} was not made by `retrievers index` and is "
            "left alone; choose another name with --collection"
        )
    other = other_model(config.embedding, recorded)
    if other:
        raise EmbeddingMismatchError(
            f"collection {info.name!r} was embedded by {other[0]}, not by "
            f"{other[1]}; one collection holds one model: choose another name"
        )
    return info


def kept(
    info: CollectionInfo | None, config: RetrieverConfig, settings: IndexSettings, *, replace: bool
) -> CollectionInfo | None:
    """Return the collection if it can be brought up to date; None where it is to be made, or made again.

    Raises:
        CollectionStateError: It can only be made again, and `replace` is off.
    """
    if info is None:
        return None
    other = _other_keyword_side(config, info) or _other_settings(settings, info)
    if other and not replace:
        raise CollectionStateError(f"collection {info.name!r} {other}; index it again with --replace")
    return None if other else info


def _other_settings(settings: IndexSettings, info: CollectionInfo) -> str | None:
    """Return the setting with which the collection was not indexed."""
    names = (name for name, value in settings.named.items() if info.index.get(name) != value)
    return next((f"was indexed with index.{n} {info.index.get(n)!r}, not {settings.named[n]!r}" for n in names), None)


def _other_keyword_side(config: RetrieverConfig, info: CollectionInfo) -> str | None:
    """Return the reason why the collection's term weights cannot be brought up to date."""
    if config.keyword.vector_name not in info.sparse_vectors:
        return (
            f"has no sparse vector {config.keyword.vector_name!r}: it was made by an earlier version, or under another "
            "keyword.vector_name"
        )
    language = info.manifest.get("bm25", {}).get("language", config.keyword.language)
    return (
        None if language == config.keyword.language else f"was tokenised as {language}, not {config.keyword.language}"
    )


def payloads(
    client: "QdrantClient", config: RetrieverConfig, limits: Limits
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return id and payload of every point.

    Raises:
        StoreError: The store failed.
    """
    return ((str(record.id), record.payload or {}) for record in records(client, config, limits))


def layout(info: CollectionInfo) -> MetadataConfig:
    """Return the payload keys of its chunks; earlier versions recorded none and used LangChain's."""
    return MetadataConfig.model_validate(info.manifest.get("payload") or {})
