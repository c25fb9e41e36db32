"""Pages to a collection: read all, cut, compare with the stored chunks, embed only new ones, then write.

Every text is embedded before the first write, so a failing provider leaves the collection as it was. On a server the
manifest says `indexing` while it is written, and readers refuse it; it says `complete` when the last change is in.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from retrievers.config import EmbeddingConfig, IndexSettings, MetadataConfig, RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.cache import open_embedding_cache
from retrievers.errors import CollectionNotFoundError, ConfigError, IndexingError, StoreError
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.pages import Corpus
from retrievers.indexing.rows import RowCorpus
from retrievers.records import METADATA_FIELDS, Chunk
from retrievers.store import MANIFEST_KEY, CollectionInfo, describe, least, location, parts, store_errors
from retrievers.store.building import check_room
from retrievers.store.checks import other_model
from retrievers.store.chunks import filter_path, payload_keys, records, to_chunk, to_metadata
from retrievers.store.embedded import EmbeddedClient, is_embedded

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

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
NUMBERS = {name for name, kind in INDEXED.items() if kind != "keyword"} | {"start_line", "end_line", "page_number"}
LISTS = frozenset({"tags", "chunk_headings"})
# Called with the stage, the amount done, and the total.
Progress = Callable[[str, int, int], None]
Vectors = Mapping[str, NDArray[np.float32]]


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
    vectors: Vectors
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
    are gone are removed. Under other settings than the recorded ones the whole collection is made again.

    Args:
        client: An open client.
        config: Names the collection, the embedding model and the payload keys.
        embeddings: The model.
        corpus: The pages.
        options: Settings of the run.
        progress: Called with the stage, the amount done and the total.

    Raises:
        IndexingError: Pages are broken and `skip_broken` is off, or none is left; nothing was changed.
        ConfigError: `metadata` gives two fields one payload key, or `keyword.encoder` is a model of the user's own.
        StoreError: The collection was not made by this function, or with another model or other settings; or the disk
            has no room for it. An embedded collection is then as it was.
    """
    options = options or IndexOptions()
    if config.keyword.scale != "bm25":
        raise ConfigError(
            f"keyword.encoder {config.keyword.encoder!r} is for queries: indexing writes BM25; leave it out"
        )
    check_writable(config.metadata)
    if corpus.faults and (not options.skip_broken or not corpus.count):
        raise IndexingError(
            "pages cannot be indexed, nothing was changed (--skip-broken indexes the others):", corpus.faults
        )
    info = _existing(client, config)
    settings = options.settings.over(info.index if info else corpus.defaults(options.settings.named))
    outdated = info and _outdated(info, config, settings)
    if outdated and not options.replace:
        raise StoreError(f"collection {config.collection!r} {outdated}; index it again with --replace")
    info = None if outdated else info
    chunks = list(corpus.cut(settings))
    changes, stored = _compare(client, config, chunks, info)
    if len(changes.removed) * 2 > stored and not options.replace:
        raise StoreError(
            f"collection {config.collection!r} holds {stored} chunks, of which {len(changes.removed)} would be "
            "removed: are these the same pages? choose another name with --collection, or allow it with --replace"
        )
    if is_embedded(client):
        check_room(client.path, config.collection, sum(len(c.indexed_text.encode()) + POINT_BYTES for c in chunks))
    vectors = _embed(changes.added, config.embedding, embeddings, progress)
    lengths = {len(vector) for vector in vectors.values()} | ({info.dimension} if info else set())
    if len(lengths) > 1:
        raise StoreError(
            f"{config.embedding.label} and collection {config.collection!r} give vectors of "
            f"{' and '.join(map(str, sorted(lengths)))} dimensions; choose another name with --collection"
        )
    manifest = {
        "embedding": {**config.embedding.identity, "dimension": max(lengths)},
        "bm25": info.manifest["bm25"] if info else _bm25(config.keyword.language, chunks),
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


def _existing(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo | None:
    """Return the collection of that name; None where there is none, or one that can only be made again.

    Raises:
        StoreError: Another program made it, or another model.
    """
    try:
        info = describe(client, config)
    except CollectionNotFoundError:
        return None
    recorded = info.manifest.get("embedding")
    if not recorded:
        raise StoreError(
            f"collection {info.name!r} at {location(config.store)} was not made by `retrievers index` and is "
            "left alone; choose another name with --collection"
        )
    if other := other_model(config.embedding, recorded):
        raise StoreError(
            f"collection {info.name!r} was embedded by {other[0]}, not by {other[1]}; one collection holds one model: "
            "choose another name"
        )
    return info


def _outdated(info: CollectionInfo, config: RetrieverConfig, settings: IndexSettings) -> str:
    """Return why a collection can only be made again; empty if it can be brought up to date."""
    keyword, language = config.keyword, info.manifest.get("bm25", {}).get("language")
    if keyword.vector_name not in info.sparse_vectors or language is None:
        return f"has no sparse vector {keyword.vector_name!r}: an earlier version made it, or another name was set"
    if language != keyword.language:
        return f"was tokenised as {language}, not {keyword.language}"
    other = next((name for name, value in settings.named.items() if info.index.get(name) != value), None)
    return f"was indexed with index.{other} {info.index.get(other)!r}, not {settings.named[other]!r}" if other else ""


def _compare(
    client: "QdrantClient", config: RetrieverConfig, chunks: Sequence[Chunk], info: CollectionInfo | None
) -> tuple[Changes, int]:
    """Find the differences between the stored chunks and those of the pages; return also how many are stored.

    Under other payload keys all are refreshed. A chunk whose context or text changed (a whole document keeps its id) is
    added again, since its vector did.
    """
    if info is None:
        return Changes(added=chunks), 0
    # Earlier versions recorded no payload keys and used LangChain's.
    layout = MetadataConfig.model_validate(info.manifest.get("payload") or {})
    stored = {str(r.id): to_chunk(r.id, r.payload, layout) for r in records(client, config, info.limits)}
    refresh = layout.layout != config.metadata.layout
    added, refreshed = list[Chunk](), list[Chunk]()
    for chunk in chunks:
        before = stored.get(chunk.point_id)
        if before is None or before.indexed_text != chunk.indexed_text:
            added.append(chunk)
        elif refresh or before != chunk:
            refreshed.append(chunk)
    removed = tuple(sorted(stored.keys() - {chunk.point_id for chunk in chunks}))
    return Changes(added=tuple(added), refreshed=tuple(refreshed), removed=removed), len(stored)


def _embed(chunks: Sequence[Chunk], config: EmbeddingConfig, embeddings: Embeddings, progress: Progress) -> Vectors:
    """Return the vector of each text, embedded once; those of a hosted model are kept in the user's file of vectors."""
    texts = list(dict.fromkeys(chunk.indexed_text for chunk in chunks))
    asked = {**config.identity, "base_url": config.base_url, "options": dict(config.options)}
    model = json.dumps(asked, sort_keys=True, default=str)
    kept = open_embedding_cache(os.environ, hosted=config.declared.hosted is True)
    vectors: dict[str, NDArray[np.float32]] = {}
    for batch in parts(texts, EMBED_BATCH):
        known = {text: vector for text in batch if kept and (vector := kept.get(model, "search_document", text))}
        missing = [text for text in batch if text not in known]
        for text, vector in zip(missing, embeddings.embed_documents(missing), strict=True) if missing else ():
            known[text] = vector
            if kept:
                kept.put(vector, model, "search_document", text)
        vectors |= {text: np.asarray(known[text], np.float32) for text in batch}
        progress("embedding", len(vectors), len(texts))
    if kept:
        kept.close()
    return vectors


def _bm25(language: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """Return the arguments of a new collection's encoder."""
    counter = Bm25Encoder(language)
    average = sum(counter.length(chunk.indexed_text) for chunk in chunks) / len(chunks)
    return {"language": language, "average_length": round(max(1.0, average), 3)}


# Writing


def write(client: "QdrantClient", order: Order, progress: Progress) -> None:
    """Write changes, marked as unfinished until the last of them is in; an embedded collection is built anew.

    Args:
        client: An open client.
        order: Order to carry out.
        progress: Called with the stage, the amount done and the total.

    Raises:
        StoreError: The store failed; the collection then says that it is unfinished.
    """
    if is_embedded(client):
        _build(client, order, progress)
        return
    with store_errors(order.config.store, order.config.collection):
        _update(client, order, progress)


def _build(client: EmbeddedClient, order: Order, progress: Progress) -> None:
    """Build an embedded collection anew: what is unchanged is copied from the one of its name, with its vectors."""
    from qdrant_client import models

    config, changes = order.config, order.changes
    payloads = {chunk.point_id: to_payload(chunk, config.metadata) for chunk in changes.refreshed}
    left_out = {*changes.removed, *(chunk.point_id for chunk in changes.added)}
    dense, sparse = _vector_params(order)
    with client.building(
        config.collection,
        vectors={config.vector_name: dense},
        sparse=sparse,
        metadata={MANIFEST_KEY: {**order.manifest, "state": "complete"}},
        indexes=_payload_indexes(config.metadata),
    ) as build:
        offset, more = None, order.exists
        while more:
            stored, offset = client.scroll(config.collection, limit=WRITE_BATCH, offset=offset, with_vectors=True)
            kept: list[Any] = [record for record in stored if str(record.id) not in left_out]
            copied = ((record, payloads.get(str(record.id), record.payload)) for record in kept)
            build.upsert([models.PointStruct(id=r.id, vector=r.vector, payload=payload) for r, payload in copied])
            more = offset is not None
        for points in _added(order, WRITE_BATCH, progress):
            build.upsert(points)


def _update(client: "QdrantClient", order: Order, progress: Progress) -> None:
    from qdrant_client import models

    config, changes, name = order.config, order.changes, order.config.collection
    unfinished = {MANIFEST_KEY: {**order.manifest, "state": "indexing"}}
    if order.exists:
        client.update_collection(name, metadata=unfinished)
    else:
        if client.collection_exists(name):
            client.delete_collection(name)
        dense, sparse = _vector_params(order)
        vectors = {config.vector_name: dense} if config.vector_name else dense
        client.create_collection(name, vectors_config=vectors, sparse_vectors_config=sparse, metadata=unfinished)
    info = describe(client, config)
    if not info.manifest:  # nothing would name the model of the vectors
        client.delete_collection(name)
        raise StoreError(f"the Qdrant at {location(config.store)} keeps no collection metadata: it needs version 1.16")
    for key, kind in _payload_indexes(config.metadata).items():
        if key not in info.indexed:
            client.create_payload_index(name, key, field_schema=models.PayloadSchemaType(kind))
    for points in _added(order, least(WRITE_BATCH, info.limits.points), progress):
        client.upsert(name, points)
    for chunk in changes.refreshed:
        client.overwrite_payload(name, to_payload(chunk, config.metadata), points=[chunk.point_id])
    if changes.removed:
        client.delete(name, points_selector=list(changes.removed))
    client.update_collection(name, metadata={MANIFEST_KEY: {**order.manifest, "state": "complete"}})


def _vector_params(order: Order) -> "tuple[models.VectorParams, dict[str, models.SparseVectorParams]]":
    from qdrant_client import models

    dense = models.VectorParams(size=order.manifest["embedding"]["dimension"], distance=models.Distance.COSINE)
    return dense, {order.config.keyword.vector_name: models.SparseVectorParams(modifier=models.Modifier.IDF)}


def _added(order: Order, size: int, progress: Progress) -> "Iterator[list[models.PointStruct]]":
    """Yield the points to add in batches, and tell of each when it is written.

    langchain-qdrant could not write them: it embeds the text that it stores, here without the context.
    """
    from qdrant_client import models

    config, encoder, written = order.config, Bm25Encoder(**order.manifest["bm25"]), 0
    for batch in parts(order.changes.added, size):
        yield [
            models.PointStruct(
                id=chunk.point_id,
                vector={
                    config.vector_name: order.vectors[chunk.indexed_text].tolist(),
                    config.keyword.vector_name: encoder.document(chunk.indexed_text),
                },
                payload=to_payload(chunk, config.metadata),
            )
            for chunk in batch
        ]
        written += len(batch)
        progress("writing", written, len(order.changes.added))


def _payload_indexes(config: MetadataConfig) -> dict[str, str]:
    return {filter_path(payload_keys(name, config)[0]): kind for name, kind in INDEXED.items()}


def to_payload(chunk: Chunk, config: MetadataConfig) -> dict[str, Any]:
    """Return the payload that `to_chunk` reads with the same settings, and the preview."""
    fields = {config.map.get(name, name): value for name, value in to_metadata(chunk).items()}
    return {config.text_key: chunk.text} | ({config.nested_under: fields} if config.nested_under else fields)


def check_writable(config: MetadataConfig) -> None:
    """Make sure that each field is read back as it is written, and that a filter can name every key.

    Raises:
        ConfigError: Naming the field or the key.
    """
    for key in (config.text_key, config.nested_under or "-", *config.map.values()):
        if not key or "." in key or '"' in key:
            raise ConfigError(f"metadata: expected payload keys without dots and quotes to write under, got {key!r}")
    nothing = Chunk(chunk_id="id", point_id="1", text="text")
    for name in METADATA_FIELDS:
        value: Any = 1 if name in NUMBERS else ("a",) if name in LISTS else "a"
        chunk = replace(nothing, **{name: value})
        if to_chunk("1", to_payload(chunk, config), config) != chunk:
            raise ConfigError(
                f"metadata: {name} would not be read back as it is written; expected a payload key of its own for the "
                "text, for the other fields and for each of `map`"
            )
