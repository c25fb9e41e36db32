"""Index pages: cut them into chunks, embed the texts whose vectors the collection lacks, and write the points.

Every text is embedded before the first write, so a provider that fails leaves the collection as it was. What a hosted
model embedded is kept in a file until the collection has it, so that the same command goes on after an interruption.

An embedded collection is built as a whole. On a server, points of new and changed chunks are put, and points of other
chunks are deleted. Meanwhile the manifest says `indexing`, and readers refuse the collection. The manifest says
`complete` after the last write.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.utils import batch_iterate
from numpy.typing import NDArray

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.files import open_sqlite, user_cache
from retrievers.config.models import LOCAL
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import CollectionNotFoundError, EmbeddingError, IndexingError, StoreError
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.pages import Corpus
from retrievers.records import Chunk
from retrievers.store.building import check_room
from retrievers.store.checks import SCROLLED, model_fault, other_model
from retrievers.store.chunks import filter_path, payload_keys, records, to_chunk, to_payload
from retrievers.store.collection import MANIFEST_KEY, CollectionInfo, by_name, describe
from retrievers.store.embedded import is_embedded
from retrievers.store.opening import location, store_errors
from retrievers.text import digest

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

log = logging.getLogger(__name__)

EMBED_BATCH, WRITE_BATCH = 96, 256
VECTORS = "CREATE TABLE IF NOT EXISTS vectors (text TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
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
Vector = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class IndexReport:
    """Summary of an indexing run.

    Attributes:
        chunks: Number of chunks of the corpus.
        changed: Number of these that were new or changed.
        removed: Number of stored chunks that were removed, since the corpus no longer has them.
    """

    chunks: int
    changed: int
    removed: int


def index_corpus(
    client: "QdrantClient",
    config: RetrieverConfig,
    embeddings: Embeddings,
    corpus: Corpus,
    settings: IndexSettings,
    *,
    replace: bool = False,
    search: Mapping[str, Any] | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> IndexReport:
    """Bring a collection up to date with a corpus.

    Only new texts are embedded: the vector of a stored text is taken over, if the model still gives up to eight of them
    the same vector. If the recorded settings differ, the whole collection is made anew.

    Args:
        client: An open client.
        config: Names the collection, the embedding model and the payload keys.
        embeddings: The model.
        corpus: The pages.
        settings: How pages are cut and embedded. A setting that is left out is that of the existing collection.
        replace: Allow more than half of the stored chunks to be removed, settings that differ from the recorded ones,
            and vectors of another model, which are then made again.
        search: Settings that the collection records for `retrievers search`, which takes them where it is given none.
            If left out, those that the collection already records stay.
        progress: Called with the stage, the amount done and the total.

    Raises:
        IndexingError: The pages have no text to index.
        EmbeddingError: The model failed, or its vectors change their dimension.
        StoreError: The collection was not made by this function, or with another model or other settings; or the disk
            has no room for it. An embedded collection is then as it was.
    """
    info = _existing(client, config)
    settings = settings.over(info.index if info else corpus.defaults(settings.named))
    name = f"collection {config.collection!r}"
    difference = _difference(info, config, settings) if info else ""
    if difference and not replace:
        raise StoreError(f"{name} was indexed with {difference}; index it again with --replace")
    if difference:
        log.warning("%s was indexed with %s: it is made anew, and stays so where no setting is named", name, difference)
    stored, vectors, some = _stored(client, config, info) if info else ({}, {}, [])
    # A collection that is made anew takes over nothing but vectors.
    before, recorded = ({}, {}) if info is None or difference else (stored, info.manifest)
    chunks = list(corpus.cut(settings, progress))
    if not chunks:
        raise IndexingError(f"{corpus.folder}: its {corpus.unit} have no text to index; nothing was changed")
    gone = before.keys() - {chunk.point_id for chunk in chunks}
    if len(gone) * 2 > len(before) and not replace:
        lost = f"{name} would lose {len(gone)} of its {len(before)} chunks"
        raise StoreError(
            f"{lost}: are these its pages, with its --base-url? name another collection, or allow it with --replace"
        )
    if is_embedded(client):
        check_room(client.path, config.collection, sum(len(c.indexed_text.encode()) + POINT_BYTES for c in chunks))
    texts, file = [chunk.indexed_text for chunk in chunks], _unwritten(config)
    if info and any(c.text for c in stored.values()) and (replace or not vectors.keys() >= {*texts}):
        if fault := model_fault(config, info, lambda: embeddings, some):
            if not replace:
                raise StoreError(f"{name} {fault}, or embed all of it again with --replace")
            before, recorded, vectors = {}, {}, {}
    lacking = [text for text in texts if text not in vectors]
    with closing(_kept(file if config.embedding.provider not in LOCAL else None)) as database:
        vectors |= _embed(lacking, embeddings, database, progress)
    manifest = {
        "embedding": {**config.embedding.identity, "dimension": len(vectors[chunks[0].indexed_text])},
        # The points that stay on a server were weighed by the recorded length.
        "bm25": (config.store.url and recorded.get("bm25")) or _bm25(config.keyword.language, chunks),
        "pages_fingerprint": corpus.fingerprint,
        "index": settings.named,
        "chunking": CHUNKING_VERSION,
    }
    if search := search or recorded.get("search"):
        manifest["search"] = search
    changed = [chunk for chunk in chunks if before.get(chunk.point_id) != chunk]
    if changed or gone or recorded != {**manifest, "state": "complete"}:
        written = chunks if is_embedded(client) else changed
        write(client, config, written, vectors, manifest, gone=gone if recorded else None, progress=progress)
    for left in file.parent.glob(f"{file.name}*"):
        left.unlink(missing_ok=True)
    return IndexReport(chunks=len(chunks), changed=len(changed), removed=len(gone))


def _existing(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo | None:
    """Return the properties of the collection, or None if there is no such collection.

    Raises:
        StoreError: Another program made the collection, or another model embedded it.
    """
    try:
        info = describe(client, config)
    except CollectionNotFoundError:
        return None
    name, recorded = f"collection {info.name!r}", info.manifest.get("embedding")
    if not recorded:
        raise StoreError(f"{name} was not made by `retrievers index` and is left alone; name another collection")
    if other := other_model(config.embedding, recorded):
        raise StoreError(f"{name} {other}; name another collection")
    return info


def _difference(info: CollectionInfo, config: RetrieverConfig, settings: IndexSettings) -> str:
    """Name the first setting that differs from the recorded one, with both values; empty if none differs."""
    keyword = config.keyword
    recorded = {**info.index, "keyword.language": info.manifest.get("bm25", {}).get("language")}
    if keyword.vector_name in info.sparse_vectors:
        recorded["keyword.vector_name"] = keyword.vector_name
    wanted = {**settings.named, "keyword.language": keyword.language, "keyword.vector_name": keyword.vector_name}
    for name, value in wanted.items():
        if recorded.get(name) != value:
            return f"{'' if '.' in name else 'index.'}{name} {recorded.get(name)!r}, not {value!r}"
    return ""


def _stored(
    client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo
) -> tuple[dict[str, Chunk], dict[str, Vector], list[Any]]:
    """Return the stored chunks by point id, the stored vectors by the text that was embedded, and the first points."""
    chunks, vectors = dict[str, Chunk](), dict[str, Vector]()
    points = records(client, config, with_vectors=True, info=info)
    some = list(islice(points, SCROLLED))
    for record in chain(some, points):
        chunk = chunks[str(record.id)] = to_chunk(record.id, record.payload, config.metadata)
        vector: Any = by_name(record.vector).get(info.vector_name)
        if vector is not None:
            vectors[chunk.indexed_text] = np.asarray(vector, np.float32)
    return chunks, vectors, some


def _unwritten(config: RetrieverConfig) -> Path:
    """Return the file of vectors that were embedded for a collection and that it does not have yet."""
    whose = json.dumps([config.embedding.identity, location(config.store), config.collection], default=str)
    return user_cache(os.environ) / f"vectors-{digest(whose)[:16]}.sqlite"


def _kept(file: Path | None) -> sqlite3.Connection:
    """Open a file of vectors by text. Without a file, and where the cache cannot be written, it is in memory."""
    if file:
        with suppress(OSError, sqlite3.Error):
            return open_sqlite(file, VECTORS, "SELECT text, vector FROM vectors LIMIT 1")
    memory = sqlite3.connect(":memory:")
    memory.execute(VECTORS)
    return memory


def _embed(
    texts: Sequence[str], embeddings: Embeddings, database: sqlite3.Connection, progress: Progress
) -> dict[str, Vector]:
    """Return the vectors by text. A repeated text is embedded once, and one that the database holds is not."""
    rows = database.execute("SELECT text, vector FROM vectors")
    bought = {text: np.frombuffer(vector, np.float32) for text, vector in rows}
    distinct = list(dict.fromkeys(texts))
    vectors = {text: bought[text] for text in distinct if text in bought}
    for batch in batch_iterate(EMBED_BATCH, (text for text in distinct if text not in bought)):
        try:
            embedded = embeddings.embed_documents(batch)
        except EmbeddingError as error:
            # A database in memory has no file.
            [kept] = database.execute("SELECT count(*) FROM vectors, pragma_database_list WHERE file <> ''").fetchone()
            if kept:
                error.args = (f"{error}; {kept} embedded texts are kept: the same command goes on with the rest",)
            raise
        if vectors and len(embedded[0]) != (before := len(next(iter(vectors.values())))):
            database.execute("DELETE FROM vectors")  # of one of two models, nobody knows of which
            changed = f"the model's vectors had {before} dimensions, and now have {len(embedded[0])}"
            raise EmbeddingError(f"{changed}: none of them was written; index again when the server has one model")
        new = {text: np.asarray(vector, np.float32) for text, vector in zip(batch, embedded, strict=True)}
        with suppress(sqlite3.Error):  # a full disk ends no indexing
            database.executemany("INSERT INTO vectors VALUES (?, ?)", [(t, v.tobytes()) for t, v in new.items()])
        vectors |= new
        progress("embedding", len(vectors), len(distinct))
    return vectors


def _bm25(language: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """Return the arguments of a new collection's encoder."""
    counter = Bm25Encoder(language)
    average = sum(counter.length(chunk.indexed_text) for chunk in chunks) / len(chunks)
    return {"language": language, "average_length": round(max(1.0, average), 3)}


# Writing


def write(
    client: "QdrantClient",
    config: RetrieverConfig,
    chunks: Sequence[Chunk],
    vectors: Mapping[str, Vector],
    manifest: Mapping[str, Any],
    *,
    gone: Collection[str] | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> None:
    """Build an embedded collection from chunks, or write them into a collection on a server.

    Args:
        client: An open client.
        config: Names the collection, its vectors and its payload keys.
        chunks: All chunks of an embedded collection, or the chunks to put on a server.
        vectors: The vector of each chunk by the chunk's indexed text.
        manifest: Record of the collection about itself, without its state.
        gone: Ids of points to remove; None to make the collection on the server anew.
        progress: Called with the stage, the amount done and the total.

    Raises:
        StoreError: The store failed. The collection on a server then says that it is unfinished.
    """
    from qdrant_client import models
    from qdrant_client.http.exceptions import UnexpectedResponse

    name, complete = config.collection, {MANIFEST_KEY: {**manifest, "state": "complete"}}
    dense = models.VectorParams(size=manifest["embedding"]["dimension"], distance=models.Distance.COSINE)
    named = {config.vector_name: dense}
    sparse = {config.keyword.vector_name: models.SparseVectorParams(modifier=models.Modifier.IDF)}
    indexes = {filter_path(payload_keys(key, config.metadata)[0]): kind for key, kind in INDEXED.items()}
    encoder = Bm25Encoder(**manifest["bm25"])

    def batches_of_points() -> Iterator[list[models.PointStruct]]:
        written = 0
        for batch in batch_iterate(WRITE_BATCH, chunks):
            yield [_point(chunk, vectors[chunk.indexed_text], config, encoder) for chunk in batch]
            written += len(batch)
            progress("writing", written, len(chunks))

    if is_embedded(client):
        with client.building(name, vectors=named, sparse=sparse, metadata=complete, indexes=indexes) as upsert:
            for points in batches_of_points():
                upsert(points)
        return
    with store_errors(config.store, name):
        unfinished = {MANIFEST_KEY: {**manifest, "state": "indexing"}}
        if gone is not None:
            client.update_collection(name, metadata=unfinished)
        else:
            if client.collection_exists(name):
                client.delete_collection(name)
            vectors_config = named if config.vector_name else dense
            try:
                client.create_collection(name, vectors_config, sparse_vectors_config=sparse, metadata=unfinished)
            except UnexpectedResponse:
                # A request whose answer was lost is repeated, and refused since the first one made the collection.
                made = client.collection_exists(name) and client.get_collection(name).config.metadata
                if made != unfinished:
                    raise
        info = describe(client, config)
        if not info.manifest:  # nothing would name the model of the vectors
            client.delete_collection(name)
            raise StoreError(f"{location(config.store)} keeps no collection metadata: Qdrant 1.16 or later is needed")
        for key in sorted(indexes.keys() - info.indexed.keys()):
            client.create_payload_index(name, key, field_schema=models.PayloadSchemaType(indexes[key]))
        for points in batches_of_points():
            client.upsert(name, points)
        if gone:
            client.delete(name, points_selector=sorted(gone))
        client.update_collection(name, metadata=complete)


def _point(chunk: Chunk, vector: Vector, config: RetrieverConfig, encoder: Bm25Encoder) -> "models.PointStruct":
    """Return the point of a chunk.

    langchain-qdrant could not make it: it embeds the text that it stores, without the chunk's context.
    """
    from qdrant_client import models

    vectors = {config.vector_name: vector.tolist(), config.keyword.vector_name: encoder.document(chunk.indexed_text)}
    return models.PointStruct(id=chunk.point_id, vector=vectors, payload=to_payload(chunk, config.metadata))
