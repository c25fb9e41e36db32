"""Pages to a collection: read all, cut, compare with the stored chunks, embed only new ones, then write.

Every text is embedded before the first write, so a failing provider leaves the collection as it was. While writing,
the collection's manifest says `indexing`, and readers refuse it; it says `complete` when the last change is in.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from retrievers.config import IndexSettings, MetadataConfig, RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import (
    BatchTooLargeError,
    CollectionNotFoundError,
    ConfigError,
    IndexingError,
    StoreError,
)
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.pages import Corpus
from retrievers.indexing.rows import RowCorpus
from retrievers.records import METADATA_FIELDS, Chunk
from retrievers.store import (
    MANIFEST_KEY,
    CollectionInfo,
    Limits,
    describe,
    least,
    location,
    parts,
    store_errors,
)
from retrievers.store.building import check_room
from retrievers.store.checks import other_model
from retrievers.store.chunks import DERIVED_FIELDS, filter_path, payload_keys, records, to_chunk, to_metadata
from retrievers.store.embedded import EmbeddedClient, is_embedded

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

log = logging.getLogger(__name__)
EMBED_BATCH, WRITE_BATCH = 96, 256
# Approximate bytes of a point besides its text.
POINT_BYTES = 2_000
# Fields that filters are likely to name, with the kind of payload index each gets.
INDEXED: Mapping[str, str] = {
    **dict.fromkeys(("source_url", "title", "heading", "section_path", "module", "chapter", "tags"), "keyword"),
    **dict.fromkeys(("source_document_id", "file_path", "chunk_id"), "keyword"),
    **dict.fromkeys(("chunk_index", "total_chunks", "chunk_token_count"), "integer"),
    "sidebar_position": "float",
}
# Called with the stage, the amount done, and the total.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Chunks to add and to refresh, and point ids to remove."""

    added: Sequence[Chunk] = ()
    refreshed: Sequence[Chunk] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Order:
    """Order to write a collection.

    Attributes:
        config: Names the collection, its vectors and its payload keys.
        changes: The chunks.
        vectors: Indexed text to vector, for every added chunk.
        manifest: Record of the collection about itself, without its state.
        exists: True to keep and change the collection; otherwise one of that name is replaced.
    """

    config: RetrieverConfig
    changes: Changes
    vectors: Mapping[str, NDArray[np.float32]]
    manifest: Mapping[str, Any]
    exists: bool


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Settings of an indexing run.

    Attributes:
        settings: How pages are cut and embedded; what is left out is that of the existing collection.
        skip_broken: Index the readable pages although others are broken (recorded in the manifest).
        replace: Allow more than half of the stored chunks to be removed, and other settings than the recorded ones.
        search: Settings of the retriever that `retrievers search` takes where it is given none; as recorded before if
            empty.
    """

    settings: IndexSettings = field(default_factory=lambda: IndexSettings.model_validate({}))
    skip_broken: bool = False
    replace: bool = False
    search: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class IndexReport:
    """Summary of an indexing run, in chunks; `skipped` names the pages that were left out."""

    pages: int
    chunks: int
    added: int
    refreshed: int
    removed: int
    unchanged: int
    skipped: tuple[str, ...] = ()


def index_corpus(
    client: "QdrantClient",
    config: RetrieverConfig,
    embeddings: Embeddings,
    corpus: Corpus | RowCorpus,
    options: IndexOptions | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> IndexReport:
    """Bring a collection up to date with a corpus.

    Unchanged chunks are left alone; chunks that only moved, or whose fields are to be under other payload keys, get
    their payload refreshed without being embedded again; chunks with another context are embedded again; chunks that
    are gone are removed.
    Under other settings than the recorded ones the whole collection is made again.

    Args:
        client: An open client.
        config: Names the collection, the embedding model and the payload keys.
        embeddings: The model.
        corpus: The pages.
        options: Settings of the run.
        progress: Called with the stage, the amount done and the total.

    Raises:
        IndexingError: Pages are broken and `skip_broken` is off, or none is left; nothing was changed.
        ConfigError: `metadata` gives two fields one payload key, `keyword.encoder` is a model of the user's own,
            or `within` is set.
        StoreError: The collection exists and was not made by this function, or with other settings or another model;
            or the disk has no room for it. An embedded collection is as it was.
    """
    options = options or IndexOptions()
    if config.keyword.scale != "bm25":
        raise ConfigError(
            f"keyword.encoder {config.keyword.encoder!r} is for queries, and indexing writes BM25; leave it out"
        )
    check_writable(config.metadata)
    if corpus.faults and (not options.skip_broken or not corpus.count):
        raise IndexingError(
            "pages cannot be indexed, nothing was changed (--skip-broken indexes the others):", corpus.faults
        )
    collection = _existing(client, config)
    settings = options.settings.over(collection.index if collection else corpus.defaults(options.settings.named))
    info = kept(collection, config, settings, replace=options.replace)
    chunks = list(corpus.cut(settings))
    stored = dict(payloads(client, config, info.limits)) if info else {}
    changes = _compare(config.metadata, chunks, stored, layout(info) if info else config.metadata)
    if len(changes.removed) * 2 > len(stored) and not options.replace:
        raise StoreError(
            f"collection {config.collection!r} holds {len(stored)} chunks, of which {len(changes.removed)} would be "
            "removed: are these the same pages? choose another name with --collection, or allow it with --replace"
        )
    if is_embedded(client):
        check_room(client.path, config.collection, sum(len(c.indexed_text.encode()) + POINT_BYTES for c in chunks))
    vectors = _embed(changes.added, embeddings, progress)
    manifest = {
        "embedding": embedded_by(config, vectors, info),
        "bm25": keyword_side(config, chunks, info),
        "payload": config.metadata.layout,
        "pages_fingerprint": corpus.fingerprint,
        "index": settings.named,
        "chunking": CHUNKING_VERSION,
        "skipped": [str(corpus.folder / file) for file in corpus.broken],
        "points": len(chunks),
    }
    if search := options.search or (info.manifest.get("search") if info else None):
        manifest["search"] = search
    if not info or changes != Changes() or info.manifest != {**manifest, "state": "complete"}:
        order = Order(config=config, changes=changes, vectors=vectors, manifest=manifest, exists=info is not None)
        write(client, order, progress)
    return IndexReport(
        pages=corpus.count,
        chunks=len(chunks),
        added=len(changes.added),
        refreshed=len(changes.refreshed),
        removed=len(changes.removed),
        unchanged=len(chunks) - len(changes.added) - len(changes.refreshed),
        skipped=corpus.faults,
    )


def _compare(
    config: MetadataConfig, chunks: Sequence[Chunk], stored: Mapping[str, Mapping[str, Any]], before: MetadataConfig
) -> Changes:
    """Find the differences between the stored payloads, under the keys they had `before`, and the chunks.

    Under other keys all are refreshed. A chunk whose context or text changed (a whole document keeps its id) is
    added again, since its vector did.
    """
    embedded = {point: to_chunk(point, payload, before).indexed_text for point, payload in stored.items()}
    refresh = before.layout != config.layout
    added, refreshed = list[Chunk](), list[Chunk]()
    for chunk in chunks:
        if embedded.get(chunk.point_id) != chunk.indexed_text:
            added.append(chunk)
        elif refresh or written_part(stored[chunk.point_id], config) != to_payload(chunk, config):
            refreshed.append(chunk)
    removed = tuple(sorted(embedded.keys() - {chunk.point_id for chunk in chunks}))
    return Changes(added=tuple(added), refreshed=tuple(refreshed), removed=removed)


def _embed(chunks: Sequence[Chunk], embeddings: Embeddings, progress: Progress) -> dict[str, NDArray[np.float32]]:
    """Return the vector of each text, embedded once."""
    texts = list(dict.fromkeys(chunk.indexed_text for chunk in chunks))
    vectors: dict[str, NDArray[np.float32]] = {}
    for batch in parts(texts, EMBED_BATCH):
        made = (np.asarray(vector, np.float32) for vector in embeddings.embed_documents([*batch]))
        vectors.update(zip(batch, made, strict=True))
        progress("embedding", len(vectors), len(texts))
    return vectors


def _existing(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo | None:
    """Return the collection of that name; None where there is none.

    Raises:
        StoreError: Another program or another model made it.
    """
    try:
        info = describe(client, config)
    except CollectionNotFoundError:  # a damaged one can only be made again
        return None
    recorded = info.manifest.get("embedding")
    if not recorded:
        raise StoreError(
            f"collection {info.name!r} at {location(config.store)} was not made by `retrievers index` and is "
            "left alone; choose another name with --collection"
        )
    other = other_model(config.embedding, recorded)
    if other:
        raise StoreError(
            f"collection {info.name!r} was embedded by {other[0]}, not by "
            f"{other[1]}; one collection holds one model: choose another name"
        )
    return info


def kept(
    info: CollectionInfo | None, config: RetrieverConfig, settings: IndexSettings, *, replace: bool
) -> CollectionInfo | None:
    """Return the collection if it can be brought up to date; None where it is to be made, or made again.

    Raises:
        StoreError: It can only be made again, and `replace` is off.
    """
    if info is None:
        return None
    other = _other_keyword_side(config, info) or _other_settings(settings, info)
    if other and not replace:
        raise StoreError(f"collection {info.name!r} {other}; index it again with --replace")
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


def embedded_by(
    config: RetrieverConfig, vectors: Mapping[str, NDArray[np.float32]], info: CollectionInfo | None
) -> dict[str, Any]:
    """Return the model and the length of its vectors, from the new and the existing ones.

    Raises:
        StoreError: They have several lengths.
    """
    lengths = {len(vector) for vector in vectors.values()} | ({info.dimension} if info else set())
    if len(lengths) > 1:
        raise StoreError(
            f"{config.embedding.label} and collection {config.collection!r} give "
            f"vectors of {' and '.join(map(str, sorted(lengths)))} dimensions; one collection holds one length: "
            "choose another name with --collection"
        )
    return {**config.embedding.identity, "dimension": max(lengths)}


def keyword_side(config: RetrieverConfig, chunks: Sequence[Chunk], info: CollectionInfo | None) -> Mapping[str, Any]:
    """Return language and average length: those of the chunks for a new collection, else the recorded ones."""
    recorded: Mapping[str, Any] | None = info.manifest.get("bm25") if info else None
    if recorded:
        return recorded
    counter = Bm25Encoder(config.keyword.language)
    average = sum(counter.length(chunk.indexed_text) for chunk in chunks) / len(chunks)
    return {"language": config.keyword.language, "average_length": round(max(1.0, average), 3)}


# Writing


def write(client: "QdrantClient", order: Order, progress: Progress) -> None:
    """Write changes, marked as unfinished until the last of them is in.

    Args:
        client: An open client.
        order: Order to carry out.
        progress: Called with the stage, the amount done and the total.

    Raises:
        StoreError: The store failed; the collection then says that it is unfinished.
    """
    config, changes, manifest, name = order.config, order.changes, order.manifest, order.config.collection
    if is_embedded(client):
        _build(client, order, progress)
        return
    with store_errors(config.store, name):
        _begin(client, config, manifest, exists=order.exists)
        encoder = Bm25Encoder(manifest["bm25"]["language"], manifest["bm25"]["average_length"])
        written = 0
        for batch in parts(changes.added, least(WRITE_BATCH, describe(client, config).limits.points)):
            _add(client, name, to_points(batch, config, order.vectors, encoder))
            written += len(batch)
            progress("writing", written, len(changes.added))
        for chunk in changes.refreshed:
            client.overwrite_payload(name, to_payload(chunk, config.metadata), points=[chunk.point_id])
        if changes.removed:
            client.delete(name, points_selector=list(changes.removed))
        client.update_collection(name, metadata={MANIFEST_KEY: {**manifest, "state": "complete"}})


def _build(client: EmbeddedClient, order: Order, progress: Progress) -> None:
    """Build an embedded collection anew: what is unchanged is copied from the one of its name, with its vectors."""
    from qdrant_client import models

    config, changes, name = order.config, order.changes, order.config.collection
    encoder = Bm25Encoder(order.manifest["bm25"]["language"], order.manifest["bm25"]["average_length"])
    refreshed = {chunk.point_id: to_payload(chunk, config.metadata) for chunk in changes.refreshed}
    left_out = {*changes.removed, *(chunk.point_id for chunk in changes.added)}
    parameters = models.VectorParams(size=order.manifest["embedding"]["dimension"], distance=models.Distance.COSINE)
    with client.building(
        name,
        vectors={config.vector_name: parameters},
        sparse={config.keyword.vector_name: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        metadata={MANIFEST_KEY: {**order.manifest, "state": "complete"}},
        indexes={filter_path(payload_keys(field, config.metadata)[0]): kind for field, kind in INDEXED.items()},
    ) as build:
        offset, more = None, order.exists
        while more:
            records, offset = client.scroll(name, limit=WRITE_BATCH, offset=offset, with_vectors=True)
            stored = ((str(record.id), record) for record in records)
            build.upsert(
                [
                    models.PointStruct(id=record.id, vector=record.vector, payload=refreshed.get(key, record.payload))
                    for key, record in stored
                    if key not in left_out
                ]
            )
            more = offset is not None
        written = 0
        for batch in parts(changes.added, WRITE_BATCH):
            build.upsert(to_points(batch, config, order.vectors, encoder))
            written += len(batch)
            progress("writing", written, len(changes.added))


def _add(client: "QdrantClient", collection: str, points: "Sequence[models.PointStruct]") -> None:
    """Add points, replacing those of the same id; in halves where the store wants it so."""
    try:
        client.upsert(collection, points)
    except BatchTooLargeError:
        if len(points) == 1:
            raise
        half = len(points) // 2
        _add(client, collection, points[:half])
        _add(client, collection, points[half:])


def _begin(client: "QdrantClient", config: RetrieverConfig, manifest: Mapping[str, Any], *, exists: bool) -> None:
    """Make the collection or keep it, marked as unfinished, with a payload index wherever one is wanted."""
    unfinished = {MANIFEST_KEY: {**manifest, "state": "indexing"}}
    if exists:
        client.update_collection(config.collection, metadata=unfinished)
    else:
        _create(client, config, manifest["embedding"]["dimension"], unfinished)
    present = client.get_collection(config.collection).payload_schema
    for name, kind in INDEXED.items():
        key = filter_path(payload_keys(name, config.metadata)[0])
        if key not in present:
            client.create_payload_index(config.collection, key, field_schema=_index_kind(kind))


def _index_kind(kind: str) -> Any:
    from qdrant_client import models

    return models.PayloadSchemaType(kind)


def _create(client: "QdrantClient", config: RetrieverConfig, dimension: int, metadata: dict[str, Any]) -> None:
    from qdrant_client import models

    size = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
    if client.collection_exists(config.collection):
        client.delete_collection(config.collection)
    client.create_collection(
        config.collection,
        vectors_config={config.vector_name: size} if config.vector_name else size,
        sparse_vectors_config={config.keyword.vector_name: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        metadata=metadata,
    )
    _refuse_forgetful(client, config)


def _refuse_forgetful(client: "QdrantClient", config: RetrieverConfig) -> None:
    """Refuse a server before 1.16: it drops the metadata, so that nothing would name the model of the vectors."""
    if not describe(client, config).manifest:
        client.delete_collection(config.collection)
        raise StoreError(
            f"the Qdrant at {location(config.store)} does not keep collection metadata; "
            "indexing needs version 1.16 or later"
        )


# Points


def to_points(
    chunks: Sequence[Chunk], config: RetrieverConfig, vectors: Mapping[str, NDArray[np.float32]], encoder: Bm25Encoder
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
                config.vector_name: vectors[chunk.indexed_text].tolist(),
                config.keyword.vector_name: encoder.document(chunk.indexed_text),
            },
            payload=to_payload(chunk, config.metadata),
        )
        for chunk in chunks
    ]


def to_payload(chunk: Chunk, config: MetadataConfig) -> dict[str, Any]:
    """Return the payload that `retrievers.store.chunks.to_chunk` reads with the same settings, and the preview."""
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
