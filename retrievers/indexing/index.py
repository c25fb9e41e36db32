"""Pages to a collection: read all, cut, compare with what is stored, embed only what is new, then write.

Every text is embedded before the first write, so a failing provider leaves the collection as it was. While writing,
the collection's manifest says `indexing`, and readers refuse it; it says `complete` when the last change is in.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.connection import CollectionInfo, describe, location, store_errors
from retrievers.errors import CollectionNotFoundError, CollectionStateError, EmbeddingMismatchError, IndexingError
from retrievers.indexing.chunking import CHUNKING_VERSION, DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.markdown import Page, PageError, parse_page
from retrievers.indexing.writing import Changes, Progress, write
from retrievers.keyword import Bm25Encoder
from retrievers.payload import to_metadata
from retrievers.records import Chunk
from retrievers.tokens import count_tokens

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
PAGE_SUFFIXES = (".md", ".mdx")
EMBED_BATCH = 96


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
    info = _existing(client, config, replace=replace)
    stored = _stored(client, config) if info else {}
    changes = _compare(chunks, stored)
    if len(changes.removed) * 2 > len(stored) and not replace:
        raise CollectionStateError(
            f"collection {config.collection!r} holds {len(stored)} chunks, of which {len(changes.removed)} would be "
            "removed: are these the same pages? choose another name with --collection, or allow it with --replace"
        )
    vectors = _embed(changes.added, embeddings, progress)
    manifest = {
        "embedding": {
            "provider": config.embedding.provider,
            "model": config.embedding.resolved_model,
            "dimension": _dimension(config, vectors, info),
        },
        "bm25": _keyword_side(config, chunks, info),
        "pages_fingerprint": corpus.fingerprint,
        "max_tokens": max_tokens,
        "chunking": CHUNKING_VERSION,
        "skipped": [fault.split(": ", 1)[0] for fault in corpus.faults],
    }
    if not info or changes != Changes() or info.manifest != {**manifest, "state": "complete"}:
        write(client, config, changes, vectors, manifest, exists=info is not None, progress=progress)
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


def _dimension(config: RetrieverConfig, vectors: Mapping[str, Sequence[float]], info: CollectionInfo | None) -> int:
    lengths = {len(vector) for vector in vectors.values()} | ({info.dimension} if info else set())
    if len(lengths) > 1:
        raise EmbeddingMismatchError(
            f"{config.embedding.provider}:{config.embedding.resolved_model} and collection {config.collection!r} give "
            f"vectors of {' and '.join(map(str, sorted(lengths)))} dimensions; one collection holds one length: "
            "choose another name with --collection"
        )
    return max(lengths)


def _keyword_side(config: RetrieverConfig, chunks: Sequence[Chunk], info: CollectionInfo | None) -> Mapping[str, Any]:
    """Language and average length: of the chunks when the collection is made, from then on as recorded."""
    recorded: Mapping[str, Any] | None = info.manifest.get("bm25") if info else None
    if recorded:
        return recorded
    counter = Bm25Encoder(config.keyword.language)
    average = config.keyword.average_length or sum(counter.length(chunk.text) for chunk in chunks) / len(chunks)
    return {"language": config.keyword.language, "average_length": round(max(1.0, average), 3)}


def _existing(client: "QdrantClient", config: RetrieverConfig, *, replace: bool) -> CollectionInfo | None:
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
    other = _other_keyword_side(config, info)
    if other and not replace:
        raise CollectionStateError(f"collection {info.name!r} {other}; index it anew with --replace")
    return None if other else info


def _other_keyword_side(config: RetrieverConfig, info: CollectionInfo) -> str | None:
    """What keeps the collection's term weights from being brought up to date."""
    if config.keyword.vector_name not in info.sparse_vectors:
        return (
            f"has no sparse vector {config.keyword.vector_name!r}: it was made by an earlier version, or under another "
            "keyword.vector_name"
        )
    language = info.manifest.get("bm25", {}).get("language", config.keyword.language)
    return (
        None if language == config.keyword.language else f"was tokenised as {language}, not {config.keyword.language}"
    )


def _stored(client: "QdrantClient", config: RetrieverConfig) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    offset: Any = None
    with store_errors(config.store, config.collection):
        while True:
            records, offset = client.scroll(config.collection, limit=1000, offset=offset, with_payload=["metadata"])
            found |= {str(r.id): (r.payload or {}).get("metadata", {}) for r in records}
            if offset is None:
                return found


def _compare(chunks: Sequence[Chunk], stored: Mapping[str, Mapping[str, Any]]) -> Changes:
    wanted = {chunk.point_id for chunk in chunks}
    return Changes(
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


def _batches(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
