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

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.errors import CollectionStateError, IndexingError
from retrievers.indexing.chunking import CHUNKING_VERSION, DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.existing import existing, layout, payloads
from retrievers.indexing.manifest import embedded_by, keyword_side
from retrievers.indexing.markdown import Page, PageError, parse_page
from retrievers.indexing.payloads import check_writable, to_payload, written_part
from retrievers.indexing.writing import Changes, Progress, write
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
class IndexOptions:
    """How pages are cut, and what indexing is allowed.

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
        options: How they are cut, and what is allowed.
        progress: Told how far the work is.

    Raises:
        IndexingError: Pages are broken and `skip_broken` is off, or none is left; nothing was changed.
        ConfigError: `metadata` gives two fields one payload key.
        CollectionStateError: The collection exists and was not made by this function.
        EmbeddingMismatchError: It was made with another model.
    """
    options = options or IndexOptions()
    check_writable(config.metadata)
    chunks = _cut(corpus, options)
    info = existing(client, config, replace=options.replace)
    stored = payloads(client, config) if info else {}
    changes = _compare(
        config.metadata, chunks, stored, anew=info is not None and layout(info) != config.metadata.layout
    )
    _refuse_mass_removal(config, changes, stored, options)
    vectors = _embed(changes.added, embeddings, progress)
    manifest = {
        "embedding": embedded_by(config, vectors, info),
        "bm25": keyword_side(config, chunks, info),
        **_origin(config, corpus, options),
        "points": len(chunks),
    }
    if not info or changes != Changes() or info.manifest != {**manifest, "state": "complete"}:
        write(client, config, changes, vectors, manifest, exists=info is not None, progress=progress)
    return _report(corpus, chunks, changes)


def _origin(config: RetrieverConfig, corpus: Corpus, options: IndexOptions) -> dict[str, Any]:
    """What the payloads were made of, and how."""
    return {
        "payload": config.metadata.layout,
        "pages_fingerprint": corpus.fingerprint,
        "max_tokens": options.max_tokens,
        "chunking": CHUNKING_VERSION,
        "skipped": [fault.split(": ", 1)[0] for fault in corpus.faults],
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


def _is_partial(file: Path, folder: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)


def _compare(
    config: MetadataConfig, chunks: Sequence[Chunk], stored: Mapping[str, Mapping[str, Any]], *, anew: bool
) -> Changes:
    """What tells the stored payloads from the chunks; `anew` refreshes all of them."""
    wanted = {chunk.point_id for chunk in chunks}
    kept = (chunk for chunk in chunks if chunk.point_id in stored)
    return Changes(
        added=tuple(chunk for chunk in chunks if chunk.point_id not in stored),
        refreshed=tuple(
            chunk for chunk in kept if anew or written_part(stored[chunk.point_id], config) != to_payload(chunk, config)
        ),
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
