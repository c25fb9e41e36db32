"""Pages to a collection: read all, cut, compare with what is stored, embed only what is new, then write.

Every text is embedded before the first write, so a failing provider leaves the collection as it was. While writing,
the collection's manifest says `indexing`, and readers refuse it; it says `complete` when the last change is in.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.connection import MANIFEST_KEY, CollectionInfo, describe, location, store_errors
from retrievers.errors import CollectionNotFoundError, CollectionStateError, EmbeddingMismatchError, IndexingError
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.markdown import Page, PageError, parse_page
from retrievers.payload import to_metadata
from retrievers.records import Chunk
from retrievers.tokens import count_tokens

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
PAGE_SUFFIXES = (".md", ".mdx")
EMBED_BATCH = 96
WRITE_BATCH = 256
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Pages read from a folder.

    Attributes:
        pages: The pages that could be parsed, in path order; of two with one address the first.
        faults: One line per file that could not, beginning with its path.
        fingerprint: SHA-256 over the base of the addresses and every file's path and bytes.
    """

    pages: tuple[Page, ...]
    faults: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class IndexReport:
    """What an indexing run did, in chunks; `skipped` names the pages that were left out."""

    pages: int
    chunks: int
    added: int
    refreshed: int
    removed: int
    unchanged: int
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Changes:
    added: tuple[Chunk, ...]
    refreshed: tuple[Chunk, ...]
    removed: tuple[str, ...]


def read_corpus(folder: Path, base_url: str = "/docs") -> Corpus:
    """Read and parse every page below a folder (files and folders that begin with `_` or `.` are not pages).

    Raises:
        IndexingError: The folder does not exist, or holds no page.
    """
    if not folder.is_dir():
        raise IndexingError(
            f"{folder}: expected a folder of Markdown pages, found {'a file' if folder.exists() else 'nothing'}"
        )
    files = sorted(f for f in folder.rglob("*") if f.suffix.lower() in PAGE_SUFFIXES and not _is_partial(f, folder))
    if not files:
        raise IndexingError(f"{folder}: holds no {' or '.join(PAGE_SUFFIXES)} page; nothing was changed")
    pages, faults, digest = [], [], hashlib.sha256(f"{base_url}\0".encode())
    for file in files:
        relative = file.relative_to(folder).as_posix()
        try:
            data = file.read_bytes()
            digest.update(f"{relative}\0{len(data)}\0".encode() + data)
            pages.append(parse_page(data.decode("utf-8-sig"), relative, base_url))
        except PageError as error:
            faults.append(f"{file}: {error}")
        except UnicodeDecodeError as error:
            faults.append(f"{file}: not UTF-8 (byte {error.start}: {error.reason})")
        except OSError as error:
            faults.append(f"{file}: cannot be read: {error.strerror}")
    by_address: dict[str, Page] = {}
    for page in pages:
        first = by_address.setdefault(page.source_url, page)
        if first is not page:
            faults.append(f"{folder / page.file_path}: has the address {page.source_url!r} of {first.file_path}")
    return Corpus(pages=tuple(by_address.values()), faults=tuple(faults), fingerprint=digest.hexdigest())


def index_corpus(
    client: "QdrantClient",
    config: RetrieverConfig,
    embeddings: Embeddings,
    corpus: Corpus,
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    skip_broken: bool = False,
    replace: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> IndexReport:
    """Bring a collection up to date with a corpus.

    Unchanged chunks are left alone; chunks that only moved get their payload refreshed without being embedded again;
    chunks that are gone are removed.

    Args:
        client: An open client.
        config: Names the collection and the embedding model.
        embeddings: The model.
        corpus: The pages.
        max_tokens: Token budget of a chunk.
        skip_broken: Index the readable pages although others are broken (recorded in the manifest).
        replace: Allow more than half of the stored chunks to be removed (other pages, or another chunk size).
        progress: Told how far the work is.

    Raises:
        IndexingError: Pages are broken and `skip_broken` is off, or none is left; nothing was changed.
        CollectionStateError: The collection exists and was not made by this function.
        EmbeddingMismatchError: It was made with another model.
    """
    if corpus.faults and (not skip_broken or not corpus.pages):
        raise IndexingError(
            "pages cannot be indexed, nothing was changed (--skip-broken indexes the others):", corpus.faults
        )
    chunks = [c for page in corpus.pages for c in chunk_page(page, max_tokens, count_tokens)]
    info = _existing(client, config)
    stored = _stored(client, config) if info else {}
    changes = _compare(chunks, stored)
    if len(changes.removed) * 2 > len(stored) and not replace:
        raise CollectionStateError(
            f"collection {config.collection!r} holds {len(stored)} chunks, of which {len(changes.removed)} would be "
            "removed: are these the same pages? choose another name with --collection, or allow it with --replace"
        )
    vectors = _embed(changes.added, embeddings, progress)
    lengths = {len(vector) for vector in vectors.values()} | ({info.dimension} if info else set())
    if len(lengths) > 1:
        raise EmbeddingMismatchError(
            f"{config.embedding.provider}:{config.embedding.resolved_model} and collection {config.collection!r} give "
            f"vectors of {' and '.join(map(str, sorted(lengths)))} dimensions; one collection holds one length: "
            "choose another name with --collection"
        )
    manifest = {
        "embedding": {
            "provider": config.embedding.provider,
            "model": config.embedding.resolved_model,
            "dimension": max(lengths),
        },
        "pages_fingerprint": corpus.fingerprint,
        "max_tokens": max_tokens,
        "skipped": [fault.split(": ", 1)[0] for fault in corpus.faults],
    }
    if (
        not info
        or changes.added
        or changes.refreshed
        or changes.removed
        or info.manifest != {**manifest, "state": "complete"}
    ):
        _write(client, config, info, changes, vectors, manifest, progress)
    return IndexReport(
        pages=len(corpus.pages),
        chunks=len(chunks),
        added=len(changes.added),
        refreshed=len(changes.refreshed),
        removed=len(changes.removed),
        unchanged=len(chunks) - len(changes.added) - len(changes.refreshed),
        skipped=corpus.faults,
    )


def _is_partial(file: Path, folder: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)


def _existing(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo | None:
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
    wanted = {"provider": config.embedding.provider, "model": config.embedding.resolved_model}
    if any(recorded.get(key) != value for key, value in wanted.items()):
        raise EmbeddingMismatchError(
            f"collection {info.name!r} was embedded by {recorded.get('provider')}:{recorded.get('model')}, not by "
            f"{wanted['provider']}:{wanted['model']}; one collection holds one model: choose another name"
        )
    return info


def _stored(client: "QdrantClient", config: RetrieverConfig) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    offset: Any = None
    with store_errors(config.store, config.collection):
        while True:
            records, offset = client.scroll(config.collection, limit=1000, offset=offset, with_payload=["metadata"])
            found |= {str(r.id): (r.payload or {}).get("metadata", {}) for r in records}
            if offset is None:
                return found


def _compare(chunks: Sequence[Chunk], stored: Mapping[str, Mapping[str, Any]]) -> _Changes:
    wanted = {chunk.point_id for chunk in chunks}
    return _Changes(
        added=tuple(c for c in chunks if c.point_id not in stored),
        refreshed=tuple(c for c in chunks if c.point_id in stored and stored[c.point_id] != to_metadata(c)),
        removed=tuple(sorted(set(stored) - wanted)),
    )


def _embed(chunks: Sequence[Chunk], embeddings: Embeddings, progress: Progress) -> dict[str, list[float]]:
    texts = list(dict.fromkeys(chunk.text for chunk in chunks))
    vectors: dict[str, list[float]] = {}
    for batch in _batches(texts, EMBED_BATCH):
        vectors |= zip(batch, embeddings.embed_documents(list(batch)), strict=True)
        progress("embedding", len(vectors), len(texts))
    return vectors


def _write(
    client: "QdrantClient",
    config: RetrieverConfig,
    info: CollectionInfo | None,
    changes: _Changes,
    vectors: Mapping[str, list[float]],
    manifest: Mapping[str, Any],
    progress: Progress,
) -> None:
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import models

    name = config.collection
    unfinished = {MANIFEST_KEY: {**manifest, "state": "indexing"}}
    with store_errors(config.store, name):
        if info is None:
            size = models.VectorParams(size=manifest["embedding"]["dimension"], distance=models.Distance.COSINE)
            named = {config.vector_name: size} if config.vector_name else size
            client.create_collection(name, vectors_config=named, metadata=unfinished)
            _refuse_forgetful(client, config)
        else:
            client.update_collection(name, metadata=unfinished)
        store = QdrantVectorStore(
            client,
            name,
            embedding=_Prepared(vectors),
            vector_name=config.vector_name,
            validate_collection_config=False,
        )  # validating would embed a dummy text, which a paid provider bills
        written = 0
        for batch in _batches(changes.added, WRITE_BATCH):
            store.add_texts(
                [c.text for c in batch],
                [to_metadata(c) for c in batch],
                [c.point_id for c in batch],
                batch_size=WRITE_BATCH,
            )
            written += len(batch)
            progress("writing", written, len(changes.added))
        for chunk in changes.refreshed:
            client.overwrite_payload(
                name, {"page_content": chunk.text, "metadata": to_metadata(chunk)}, points=[chunk.point_id]
            )
        if changes.removed:
            client.delete(name, points_selector=list(changes.removed))
        client.update_collection(name, metadata={MANIFEST_KEY: {**manifest, "state": "complete"}})


def _refuse_forgetful(client: "QdrantClient", config: RetrieverConfig) -> None:
    """A server before 1.16 drops the metadata: nothing would say which model made the vectors."""
    if not describe(client, config).manifest:
        client.delete_collection(config.collection)
        raise CollectionStateError(
            f"the Qdrant at {location(config.store)} does not keep collection metadata; "
            "indexing needs version 1.16 or later"
        )


class _Prepared(Embeddings):
    """Vectors that are already there, handed to langchain-qdrant."""

    def __init__(self, vectors: Mapping[str, list[float]]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vectors[text]


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
