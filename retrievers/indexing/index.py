"""Pages to a collection: read all, cut, compare with the stored chunks, embed only new ones, then write.

Every text is embedded before the first write, so a failing provider leaves the collection as it was. While writing,
the collection's manifest says `indexing`, and readers refuse it; it says `complete` when the last change is in.
"""

import logging
from array import array
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from retrievers.config import IndexSettings, MetadataConfig, RetrieverConfig
from retrievers.config.indexing import DEFAULTS
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import (
    CollectionDamagedError,
    CollectionNotFoundError,
    CollectionStateError,
    ConfigError,
    EmbeddingMismatchError,
    IndexingError,
)
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.corpus import Corpus
from retrievers.indexing.disk_tables import DiskChunks, DiskMapping, disk_tables
from retrievers.indexing.points import check_writable, to_payload, written_part
from retrievers.indexing.row_corpus import RowCorpus
from retrievers.indexing.writing import Changes, Order, Progress, write
from retrievers.records import Chunk
from retrievers.store import CollectionInfo, Limits, describe, location
from retrievers.store.building import check_room
from retrievers.store.embedded import is_embedded
from retrievers.store.payload import to_chunk
from retrievers.store.recorded_model import other_model
from retrievers.store.stored_chunks import records

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
EMBED_BATCH = 96
# Approximate bytes of a point besides its text.
POINT_BYTES = 2_000


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Settings of an indexing run.

    Attributes:
        settings: How pages are cut and embedded; what is left out is that of the existing collection.
        skip_broken: Index the readable pages although others are broken (recorded in the manifest).
        replace: Allow more than half of the stored chunks to be removed, and other settings than the recorded ones.
    """

    settings: IndexSettings = field(default_factory=lambda: IndexSettings.model_validate({}))
    skip_broken: bool = False
    replace: bool = False


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
        CollectionStateError: The collection exists and was not made by this function, or with other settings.
        EmbeddingMismatchError: It was made with another model.
        StoreFullError: The disk has no room for it; an embedded collection is as it was.
    """
    options = options or IndexOptions()
    if config.keyword.scale != "bm25":
        raise ConfigError(
            f"keyword.encoder {config.keyword.encoder!r} is for queries, and indexing writes BM25; leave it out"
        )
    check_writable(config.metadata)
    _check_pages(corpus, options)
    collection = existing(client, config)
    settings = options.settings.over(
        collection.index if collection else {**DEFAULTS, **corpus.defaults(options.settings.named)}
    )
    info = kept(collection, config, settings, replace=options.replace)
    with disk_tables() if corpus.large else nullcontext() as database:
        cut = corpus.cut(settings)
        chunks: Sequence[Chunk] = list(cut) if database is None else DiskChunks.of(database, cut)
        stored: MutableMapping[str, Any] = {} if database is None else DiskMapping(database, "stored")
        stored.update(payloads(client, config, info.limits) if info else ())
        changes = _compare(config.metadata, chunks, stored, layout(info) if info else config.metadata)
        _refuse_mass_removal(config, changes, stored, options)
        if is_embedded(client):
            check_room(client.path, config.collection, sum(len(c.indexed_text.encode()) + POINT_BYTES for c in chunks))
        vectors: MutableMapping[str, Any] = {} if database is None else DiskMapping(database, "vectors")
        _embed(changes.added, embeddings, vectors, progress)
        manifest = {
            "embedding": embedded_by(config, vectors, info),
            "bm25": keyword_side(config, chunks, info),
            **_origin(config, corpus, settings),
            "points": len(chunks),
        }
        if not info or changes != Changes() or info.manifest != {**manifest, "state": "complete"}:
            order = Order(config=config, changes=changes, vectors=vectors, manifest=manifest, exists=info is not None)
            write(client, order, progress)
        return _report(corpus, chunks, changes)


def _origin(config: RetrieverConfig, corpus: Corpus | RowCorpus, settings: IndexSettings) -> dict[str, Any]:
    """Return the settings that the payloads were made with."""
    return {
        "payload": config.metadata.layout,
        "pages_fingerprint": corpus.fingerprint,
        "index": settings.named,
        "chunking": CHUNKING_VERSION,
        "skipped": [str(corpus.folder / file) for file in corpus.broken],
    }


def _check_pages(corpus: Corpus | RowCorpus, options: IndexOptions) -> None:
    if corpus.faults and (not options.skip_broken or not corpus.count):
        raise IndexingError(
            "pages cannot be indexed, nothing was changed (--skip-broken indexes the others):", corpus.faults
        )


def _refuse_mass_removal(
    config: RetrieverConfig, changes: Changes, stored: Mapping[str, Any], options: IndexOptions
) -> None:
    if len(changes.removed) * 2 > len(stored) and not options.replace:
        raise CollectionStateError(
            f"collection {config.collection!r} holds {len(stored)} chunks, of which {len(changes.removed)} would be "
            "removed: are these the same pages? choose another name with --collection, or allow it with --replace"
        )


def _report(corpus: Corpus | RowCorpus, chunks: Sequence[Chunk], changes: Changes) -> IndexReport:
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
    # In place of the texts themselves, which may be many.
    embedded = {point: hash(to_chunk(point, payload, before).indexed_text) for point, payload in stored.items()}
    refresh = before.layout != config.layout
    added, refreshed, point_ids = array("q"), array("q"), set[str]()
    for index, chunk in enumerate(chunks):
        point_ids.add(chunk.point_id)
        if embedded.get(chunk.point_id) != hash(chunk.indexed_text):
            added.append(index)
        elif refresh or written_part(stored[chunk.point_id], config) != to_payload(chunk, config):
            refreshed.append(index)
    removed = tuple(sorted(embedded.keys() - point_ids))
    return Changes(added=_at(chunks, added), refreshed=_at(chunks, refreshed), removed=removed)


def _at(chunks: Sequence[Chunk], places: Sequence[int]) -> Sequence[Chunk]:
    if places and isinstance(chunks, DiskChunks):
        return chunks.at(places)
    return tuple(chunks[index] for index in places)


def _embed(
    chunks: Sequence[Chunk], embeddings: Embeddings, vectors: MutableMapping[str, Any], progress: Progress
) -> None:
    """Add the vector of each text, embedded once; the texts themselves are not all held at once."""
    total = len({hash(chunk.indexed_text) for chunk in chunks})
    done, batch = 0, dict[str, None]()
    for text in chain((chunk.indexed_text for chunk in chunks), [None]):
        if batch and (text is None or len(batch) == EMBED_BATCH):
            texts = list(batch)
            vectors.update(zip(texts, embeddings.embed_documents(texts), strict=True))
            done, batch = done + len(texts), {}
            progress("embedding", done, total)
        if text is not None and text not in vectors:
            batch[text] = None


def existing(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo | None:
    """Return the collection of that name; None where there is none.

    Raises:
        CollectionStateError: Another program made it.
        EmbeddingMismatchError: It was made with another model.
    """
    try:
        info = describe(client, config)
    except (CollectionNotFoundError, CollectionDamagedError):  # a damaged one can only be made again
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


def embedded_by(
    config: RetrieverConfig, vectors: Mapping[str, Sequence[float]], info: CollectionInfo | None
) -> dict[str, Any]:
    """Return the model and the length of its vectors, from the new and the existing ones.

    Raises:
        EmbeddingMismatchError: They have several lengths.
    """
    lengths = {len(vector) for vector in vectors.values()} | ({info.dimension} if info else set())
    if len(lengths) > 1:
        raise EmbeddingMismatchError(
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
    average = config.keyword.average_length or sum(counter.length(chunk.indexed_text) for chunk in chunks) / len(chunks)
    return {"language": config.keyword.language, "average_length": round(max(1.0, average), 3)}
