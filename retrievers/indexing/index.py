"""Pages to a collection: read all, cut, embed the texts that the collection has not got, then write.

Every text is embedded before the first write, so a failing provider leaves the collection as it was. An embedded
collection is built whole from the chunks. On a server what is new or changed is put and what is gone is deleted, while
the manifest says `indexing`, which readers refuse; it says `complete` when the last change is in.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from retrievers.config import IndexSettings, MetadataConfig, RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import CollectionNotFoundError, StoreError
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.pages import Corpus
from retrievers.records import Chunk
from retrievers.store.building import check_room
from retrievers.store.checks import other_model
from retrievers.store.chunks import filter_path, payload_keys, records, to_chunk, to_metadata
from retrievers.store.collection import MANIFEST_KEY, CollectionInfo, by_name, describe, parts
from retrievers.store.embedded import is_embedded
from retrievers.store.opening import location, store_errors

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

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
Vector = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class IndexReport:
    """Summary of an indexing run: the chunks of the corpus, how many were written, and how many others removed."""

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

    The vector of a text that is stored already is taken over: only new texts are embedded. Under other settings than
    the recorded ones the whole collection is made again.

    Args:
        client: An open client.
        config: Names the collection, the embedding model and the payload keys.
        embeddings: The model.
        corpus: The pages.
        settings: How pages are cut and embedded; what is left out is that of the existing collection.
        replace: Allow more than half of the stored chunks to be removed, and other settings than the recorded ones.
        search: Settings of the retriever that `retrievers search` takes where it is given none; as recorded before
            without.
        progress: Called with the stage, the amount done and the total.

    Raises:
        StoreError: The collection was not made by this function, or with another model or other settings; or the disk
            has no room for it. An embedded collection is then as it was.
    """
    info, settings, anew = _existing(client, config, corpus, settings, replace=replace)
    stored, vectors = _stored(client, config, info) if info else ({}, {})
    # Of a collection that is made anew only the vectors stay.
    before = {} if anew else stored
    recorded = info.manifest if info and not anew else {}
    chunks = list(corpus.cut(settings))
    gone = before.keys() - {chunk.point_id for chunk in chunks}
    if len(gone) * 2 > len(before) and not replace:
        lost = f"collection {config.collection!r} would lose {len(gone)} of its {len(before)} chunks"
        raise StoreError(f"{lost}: are these its pages? name another collection, or allow it with --replace")
    if is_embedded(client):
        check_room(client.path, config.collection, sum(len(c.indexed_text.encode()) + POINT_BYTES for c in chunks))
    vectors |= _embed([c.indexed_text for c in chunks if c.indexed_text not in vectors], embeddings, progress)
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
    return IndexReport(chunks=len(chunks), changed=len(changed), removed=len(gone))


def _existing(
    client: "QdrantClient", config: RetrieverConfig, corpus: Corpus, named: IndexSettings, *, replace: bool
) -> tuple[CollectionInfo | None, IndexSettings, bool]:
    """Return the facts of the collection, None without one; the settings to cut by; True where it is made anew.

    Raises:
        StoreError: Another program made it, or another model; or it has to be made anew, which is not allowed.
    """
    try:
        info = describe(client, config)
    except CollectionNotFoundError:
        return None, named.over(corpus.defaults(named.named)), True
    name, recorded, keyword = f"collection {info.name!r}", info.manifest.get("embedding"), config.keyword
    if not recorded:
        raise StoreError(f"{name} was not made by `retrievers index` and is left alone; name another collection")
    if other := other_model(config.embedding, recorded):
        raise StoreError(f"{name} {other}; name another collection")
    settings = named.over(info.index)
    language = info.manifest.get("bm25", {}).get("language")
    searched = keyword.vector_name if keyword.vector_name in info.sparse_vectors else None
    was = {**info.index, "keyword.language": language, "keyword.vector_name": searched}
    wanted = {**settings.named, "keyword.language": keyword.language, "keyword.vector_name": keyword.vector_name}
    differing = next((setting for setting in wanted if was.get(setting) != wanted[setting]), None)
    if differing and not replace:
        had = f"{'' if '.' in differing else 'index.'}{differing} {was.get(differing)!r}, not {wanted[differing]!r}"
        raise StoreError(f"{name} was indexed with {had}; index it again with --replace")
    return info, settings, differing is not None


def _stored(
    client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo
) -> tuple[dict[str, Chunk], dict[str, Vector]]:
    """Return the stored chunks by their point ids, and the vectors by the texts that were embedded."""
    chunks, vectors = dict[str, Chunk](), dict[str, Vector]()
    for record in records(client, config, with_vectors=True):
        chunk = chunks[str(record.id)] = to_chunk(record.id, record.payload, config.metadata)
        vector: Any = by_name(record.vector).get(info.vector_name)
        if vector is not None:
            vectors[chunk.indexed_text] = np.asarray(vector, np.float32)
    return chunks, vectors


def _embed(given: Sequence[str], embeddings: Embeddings, progress: Progress) -> dict[str, Vector]:
    """Return the vector of each text, embedded once."""
    texts, vectors = list(dict.fromkeys(given)), dict[str, Vector]()
    for batch in parts(texts, EMBED_BATCH):
        embedded = embeddings.embed_documents([*batch])
        vectors |= {text: np.asarray(vector, np.float32) for text, vector in zip(batch, embedded, strict=True)}
        progress("embedding", len(vectors), len(texts))
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
    """Build an embedded collection of chunks; or write them into one on a server, unfinished until the last is in.

    Args:
        client: An open client.
        config: Names the collection, its vectors and its payload keys.
        chunks: All chunks of an embedded collection; of one on a server those to put.
        vectors: Indexed text to vector, for every chunk.
        manifest: Record of the collection about itself, without its state.
        gone: Ids of points to remove; None to make the collection on the server anew.
        progress: Called with the stage, the amount done and the total.

    Raises:
        StoreError: The store failed; the collection on the server then says that it is unfinished.
    """
    from qdrant_client import models

    name, whole = config.collection, {MANIFEST_KEY: {**manifest, "state": "complete"}}
    dense = models.VectorParams(size=manifest["embedding"]["dimension"], distance=models.Distance.COSINE)
    sparse = {config.keyword.vector_name: models.SparseVectorParams(modifier=models.Modifier.IDF)}
    indexes = {filter_path(payload_keys(key, config.metadata)[0]): kind for key, kind in INDEXED.items()}
    encoder = Bm25Encoder(**manifest["bm25"])

    def batches(size: int) -> Iterator[list[models.PointStruct]]:
        # langchain-qdrant could not write them: it embeds the text that it stores, here without the context.
        for start in range(0, len(chunks), size):
            batch = chunks[start : start + size]
            yield [
                models.PointStruct(
                    id=chunk.point_id,
                    vector={
                        config.vector_name: vectors[chunk.indexed_text].tolist(),
                        config.keyword.vector_name: encoder.document(chunk.indexed_text),
                    },
                    payload=to_payload(chunk, config.metadata),
                )
                for chunk in batch
            ]
            progress("writing", start + len(batch), len(chunks))

    if is_embedded(client):
        vectors_config = {config.vector_name: dense}
        with client.building(name, vectors=vectors_config, sparse=sparse, metadata=whole, indexes=indexes) as build:
            for batch in batches(WRITE_BATCH):
                build.upsert(batch)
        return
    with store_errors(config.store, name):
        unfinished = {MANIFEST_KEY: {**manifest, "state": "indexing"}}
        if gone is not None:
            client.update_collection(name, metadata=unfinished)
        else:
            if client.collection_exists(name):
                client.delete_collection(name)
            named = {config.vector_name: dense} if config.vector_name else dense
            client.create_collection(name, named, sparse_vectors_config=sparse, metadata=unfinished)
        info = describe(client, config)
        if not info.manifest:  # nothing would name the model of the vectors
            client.delete_collection(name)
            raise StoreError(f"{location(config.store)} keeps no collection metadata: Qdrant 1.16 or later is needed")
        for key in sorted(indexes.keys() - info.indexed.keys()):
            client.create_payload_index(name, key, field_schema=models.PayloadSchemaType(indexes[key]))
        for batch in batches(WRITE_BATCH):
            client.upsert(name, batch)
        if gone:
            client.delete(name, points_selector=sorted(gone))
        client.update_collection(name, metadata=whole)


def to_payload(chunk: Chunk, config: MetadataConfig) -> dict[str, Any]:
    """Return the payload that `to_chunk` reads with the same settings, and the preview."""
    fields = {config.map.get(name, name): value for name, value in to_metadata(chunk).items()}
    return {config.text_key: chunk.text} | ({config.nested_under: fields} if config.nested_under else fields)
