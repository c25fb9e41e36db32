"""Pages to a collection: read all, cut, compare with the stored chunks, embed only new ones, then write.

Every text is embedded before the first write, so a failing provider leaves the collection as it was. While writing,
the collection's manifest says `indexing`, and readers refuse it; it says `complete` when the last change is in.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import CollectionStateError, IndexingError
from retrievers.indexing.child_process import check_room, write_safely
from retrievers.indexing.chunking import CHUNKING_VERSION, DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.corpus import Corpus
from retrievers.indexing.existing_collection import existing, layout, payloads
from retrievers.indexing.manifest import embedded_by, keyword_side
from retrievers.indexing.payloads import check_writable, to_payload, written_part
from retrievers.indexing.writing import Changes, Order, Progress
from retrievers.records import Chunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
EMBED_BATCH = 96


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Settings of an indexing run.

    Attributes:
        max_tokens: Token budget of a chunk.
        skip_broken: Index the readable pages although others are broken (recorded in the manifest).
        replace: Allow more than half of the stored chunks to be removed (other pages, or another chunk size).
    """

    max_tokens: int = DEFAULT_MAX_TOKENS
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
    corpus: Corpus,
    options: IndexOptions | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> IndexReport:
    """Bring a collection up to date with a corpus.

    Unchanged chunks are left alone; chunks that only moved, or whose fields are to be under other payload keys, get
    their payload refreshed without being embedded again; chunks that are gone are removed.

    Args:
        client: An open client.
        config: Names the collection, the embedding model and the payload keys.
        embeddings: The model.
        corpus: The pages.
        options: Settings of the run.
        progress: Called with the stage, the amount done and the total.

    Raises:
        IndexingError: Pages are broken and `skip_broken` is off, or none is left; nothing was changed.
        ConfigError: `metadata` gives two fields one payload key.
        CollectionStateError: The collection exists and was not made by this function.
        EmbeddingMismatchError: It was made with another model.
        StoreFullError: The disk has no room for it; an embedded collection is as it was.
    """
    options = options or IndexOptions()
    check_writable(config.metadata)
    chunks = _cut(corpus, options)
    info = existing(client, config, replace=options.replace)
    stored = payloads(client, config, info.limits) if info else {}
    changes = _compare(
        config.metadata, chunks, stored, refresh=info is not None and layout(info) != config.metadata.layout
    )
    _refuse_mass_removal(config, changes, stored, options)
    check_room(client, config.collection, changes.added)
    vectors = _embed(changes.added, embeddings, progress)
    manifest = {
        "embedding": embedded_by(config, vectors, info),
        "bm25": keyword_side(config, chunks, info),
        **_origin(config, corpus, options),
        "points": len(chunks),
    }
    if not info or changes != Changes() or info.manifest != {**manifest, "state": "complete"}:
        order = Order(config=config, changes=changes, vectors=vectors, manifest=manifest, exists=info is not None)
        write_safely(client, order, progress)
    return _report(corpus, chunks, changes)


def _origin(config: RetrieverConfig, corpus: Corpus, options: IndexOptions) -> dict[str, Any]:
    """Return the settings that the payloads were made with."""
    return {
        "payload": config.metadata.layout,
        "pages_fingerprint": corpus.fingerprint,
        "max_tokens": options.max_tokens,
        "chunking": CHUNKING_VERSION,
        "skipped": [str(corpus.folder / file) for file in corpus.broken],
    }


def _cut(corpus: Corpus, options: IndexOptions) -> list[Chunk]:
    if corpus.faults and (not options.skip_broken or not corpus.pages):
        raise IndexingError(
            "pages cannot be indexed, nothing was changed (--skip-broken indexes the others):", corpus.faults
        )
    return [chunk for page in corpus.pages for chunk in chunk_page(page, options.max_tokens, count_tokens)]


def _refuse_mass_removal(
    config: RetrieverConfig, changes: Changes, stored: Mapping[str, Any], options: IndexOptions
) -> None:
    if len(changes.removed) * 2 > len(stored) and not options.replace:
        raise CollectionStateError(
            f"collection {config.collection!r} holds {len(stored)} chunks, of which {len(changes.removed)} would be "
            "removed: are these the same pages? choose another name with --collection, or allow it with --replace"
        )


def _report(corpus: Corpus, chunks: Sequence[Chunk], changes: Changes) -> IndexReport:
    return IndexReport(
        pages=len(corpus.pages),
        chunks=len(chunks),
        added=len(changes.added),
        refreshed=len(changes.refreshed),
        removed=len(changes.removed),
        unchanged=len(chunks) - len(changes.added) - len(changes.refreshed),
        skipped=corpus.faults,
    )


def _compare(
    config: MetadataConfig, chunks: Sequence[Chunk], stored: Mapping[str, Mapping[str, Any]], *, refresh: bool
) -> Changes:
    """Find the differences between the stored payloads and the chunks; `refresh` writes all of them again."""
    point_ids = {chunk.point_id for chunk in chunks}
    matching = (chunk for chunk in chunks if chunk.point_id in stored)
    return Changes(
        added=tuple(chunk for chunk in chunks if chunk.point_id not in stored),
        refreshed=tuple(
            chunk
            for chunk in matching
            if refresh or written_part(stored[chunk.point_id], config) != to_payload(chunk, config)
        ),
        removed=tuple(sorted(set(stored) - point_ids)),
    )


def _embed(chunks: Sequence[Chunk], embeddings: Embeddings, progress: Progress) -> dict[str, list[float]]:
    texts = list(dict.fromkeys(chunk.text for chunk in chunks))
    vectors: dict[str, list[float]] = {}
    for batch in _batches(texts, EMBED_BATCH):
        vectors |= zip(batch, embeddings.embed_documents(list(batch)), strict=True)
        progress("embedding", len(vectors), len(texts))
    return vectors


def _batches(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
