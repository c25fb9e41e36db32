"""The user's own retriever, any LangChain `BaseRetriever` or function, behind the calls of an evaluation.

What it cannot give (scores, stages, a list of all chunks) is absent, with the reason; it is never guessed. A
`QdrantVectorStore` is not foreign: `QdrantRetriever` searches it.
"""

import asyncio
import hashlib
import inspect
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import isfinite
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.errors import ForeignRetrieverError, RetrievalError, StoreError
from retrievers.net.faults import cause
from retrievers.records import Chunk, RetrievalSession, RetrievedChunk, StageTimings
from retrievers.search.candidates import CandidateTable, ChunkList, joined, table_of_hits
from retrievers.search.query import check_query
from retrievers.search.selection import answered, failed
from retrievers.store import CollectionInfo, client_errors, read_info
from retrievers.store.chunks import records, scroll, to_chunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
# Seconds that closing waits for a coroutine to let go.
PATIENCE_S = 2.0
# Where langchain-qdrant puts the id of the point.
POINT_KEY = "_id"


@dataclass(frozen=True)
class Listing:
    """The collection behind a retriever, whose chunks can be listed.

    Attributes:
        client: An open client.
        config: Names the collection and its payload.
    """

    client: "QdrantClient"
    config: RetrieverConfig

    @cached_property
    def info(self) -> CollectionInfo:
        """Information on the collection from its opening.

        Raises:
            StoreError: It does not exist, is unfinished or cannot be read.
        """
        with client_errors(self.config.collection):
            info = read_info(self.client, self.config)
        if info.manifest.get("state", "complete") != "complete":
            raise StoreError(f"collection {info.name!r} is unfinished; index it again (python -m retrievers index DIR)")
        return info

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Return chunks by field values (see `stored_chunks.scroll`)."""
        with client_errors(self.config.collection):
            return scroll(self.client, self.config, where, self.info)

    @cached_property
    def ids(self) -> Mapping[Any, str]:
        """The chunk id by point id, by chunk id, and by address and text; of equal texts the first chunk's."""
        chunks = self.chunks()
        texts = {_content(chunk): chunk.chunk_id for chunk in reversed(chunks)}
        return texts | {own: chunk.chunk_id for chunk in chunks for own in (chunk.point_id, chunk.chunk_id)}


class ForeignRetriever:
    """The user's own retriever behind the calls of `retrievers.retriever.protocol.Retriever`.

    The order of its documents is the rank; repeated ones keep their places.
    """

    batch_size = 1
    embedding_label = None

    def __init__(
        self,
        settings: RetrieverConfig,
        target: BaseRetriever | Callable[[str], Any],
        listing: Listing | None = None,
        *,
        label: str = "",
        scored: bool = False,
        owned: bool = True,
    ) -> None:
        """Put the parts together.

        Args:
            settings: Settings of the retriever.
            target: A retriever, or a function from a query to documents or texts, best first; either may be
                asynchronous alone.
            listing: The collection it reads from, where that is known. If the settings name it, everything that is
                returned must be found in it.
            label: Its name; its class when left out.
            scored: It returns pairs of a document and its similarity, at most 1.
            owned: Close it and the listing's client with this retriever.
        """
        self.settings, self._target, self._listing = settings, target, listing
        self._scored, self._owned = scored, owned
        self.label = label or type(target).__name__
        self._loop = _Loop()
        self._asynchronous = False
        self._no_cosine = "" if scored else "the retriever gives no scores"
        self.info: CollectionInfo | None = listing.info if listing else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the unknown properties of its results."""
        unscored = f"{self._no_cosine}: no threshold is applied, metrics of similarity have no value"
        return () if self._scored else (unscored,)

    def search(self, query: str, *, use_cache: bool = True) -> RetrievalSession:
        """Retrieve, and tell how it went. Faults are in the session's `status` and `error`, not raised."""
        settings = self.settings
        told = {name: getattr(settings, name) for name in ("python", "top_k", "threshold", "candidates")}
        told = {"parameters": told | {"collection": self.info.name if self.info else None}}
        try:
            [candidates] = self.candidates([query])
        except RetrievalError as error:
            if query.strip():
                log.error("search failed: %s", error, extra={"query": query, "stage": "search"})
            return failed(query, error, told)
        return answered(candidates, settings, told, spreads=False)

    def with_settings(self, settings: RetrieverConfig) -> Self:
        """Return the same retriever with other settings; closing this one closes both."""
        other = copy(self)
        other.settings = settings
        return other

    def chunk_table(self) -> ChunkList:
        """Return an empty table of chunks, which calls of `candidates` fill."""
        return ChunkList()

    def candidates(
        self,
        queries: Sequence[str],
        *,
        depth: int | None = None,
        use_cache: bool = True,
        chunks: ChunkList | None = None,
    ) -> CandidateTable:
        """Return what the retriever finds for each query, in its own order, at most `depth`.

        Raises:
            QueryError: A query is blank or too long.
            ForeignRetrieverError: The retriever failed, or returned no usable documents.
        """
        chunks = ChunkList() if chunks is None else chunks
        return joined([self._find(query, depth or self.settings.candidates, chunks) for query in queries], chunks)

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Return chunks of the collection, by field values.

        Raises:
            StoreError: The store failed, or there is no collection to list them from.
        """
        return self._listed().chunks(where)

    def sample(self, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Return point ids and payloads of the collection's first points.

        Raises:
            StoreError: As for `chunks`.
        """
        listing = self._listed()
        with client_errors(listing.config.collection):
            points = records(listing.client, listing.config, listing.info.limits, count=count)
            return [(str(record.id), record.payload or {}) for record in points]

    def describe(self) -> CollectionInfo | None:
        """Return the collection's current state; None where it is unknown.

        Raises:
            StoreError: The store failed.
        """
        if self._listing is None:
            return None
        with client_errors(self._listing.config.collection):
            return read_info(self._listing.client, self._listing.config)

    def close(self) -> None:
        """Close what the factory made, and the collection; nothing that belongs to the caller."""
        self._loop.close()
        if self._owned:
            getattr(self._target, "close", lambda: None)()
            if self._listing:
                self._listing.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listed(self) -> Listing:
        if self._listing is None:
            raise StoreError(f"python {self.settings.python!r} lists no chunks; name the store and collection it reads")
        return self._listing

    def _find(self, query: str, depth: int, chunks: ChunkList) -> CandidateTable:
        check_query(query)
        name, start = f"python {self.settings.python!r} ({self.label})", time.perf_counter()
        try:
            found = [*self._hits(self._answer(query))]
        except ForeignRetrieverError as error:
            raise ForeignRetrieverError(f"{name} {error}") from error
        except RetrievalError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code may raise anything
            raise ForeignRetrieverError(f"{name} failed: {cause(error, 'python')}") from error
        kind = "retriever" if isinstance(self._target, BaseRetriever) else "function"
        return replace(
            table_of_hits(found[:depth], chunks=chunks),
            texts=(query,),
            timings=(StageTimings(total_ms=(time.perf_counter() - start) * 1000),),
            no_cosine=(self._no_cosine,),
            incomplete=(f"the {kind} gives its result alone, not the candidates it came from",),
            retrieved_at=(datetime.now(UTC),),
        )

    def _answer(self, query: str) -> Any:
        """Ask the user's object, which may be asynchronous alone."""
        target = self._target
        if not isinstance(target, BaseRetriever):
            answer = target(query)
            return self._loop.run(answer) if inspect.iscoroutine(answer) else answer
        if not self._asynchronous:
            with suppress(NotImplementedError):
                return target.invoke(query)
        answer = self._loop.run(target.ainvoke(query))
        self._asynchronous = True
        return answer

    def _hits(self, answer: Any) -> Iterator[RetrievedChunk]:
        """Yield an answer's documents, or pairs of one and its similarity, as ranked chunks.

        Raises:
            ForeignRetrieverError: It holds something else, or a chunk that the named collection does not hold.
        """
        kind = "(document, score)" if self._scored else "LangChain Documents"
        if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
            raise ForeignRetrieverError(f"returned {_shown(answer)}; expected a list of {kind}")
        for rank, item in enumerate(answer, 1):
            if self._scored and not (isinstance(item, tuple) and len(item) == 2):
                raise ForeignRetrieverError(f"returned {_shown(item)} at place {rank}; expected {kind}")
            document, score = item if self._scored else (item, None)
            if not isinstance(document, Document) or not str(document.page_content or "").strip():
                raise ForeignRetrieverError(f"returned {_shown(document)} at place {rank}; expected a text Document")
            chunk = chunk_of(document, self.settings.metadata)
            if self._listing and self.settings.names_collection:
                chunk = _identified(chunk, self._listing)
            if self._scored:
                score = _similarity(score)
            yield RetrievedChunk(
                rank=rank,
                score=score,
                score_scale="cosine" if self._scored else "none",
                scores={} if score is None else {"semantic": score},
                chunk=chunk,
            )


class _Loop:
    """Runs coroutines of any number of threads on one event loop, to which the user's clients may be bound."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = Thread()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a coroutine; its errors are raised here."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="foreign-retriever", daemon=True)
                self._thread.start()
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def close(self) -> None:
        """End the thread, if there is one; what still runs there ends with the process."""
        if self._loop:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)
            if not self._thread.is_alive():
                self._loop.close()


def chunk_of(document: Document, config: MetadataConfig) -> Chunk:
    """Convert a document to a chunk; its metadata is read as a payload (see `payload.to_chunk`).

    The metadata's own `nested_under` key is looked into where there is one. A chunk is known by its `chunk_id` (or what
    that is mapped to), else by the document's id or the point's, else by a hash of its address and text.
    """
    nested = document.metadata.get(config.nested_under) if config.nested_under else None
    metadata: Mapping[str, Any] = nested if isinstance(nested, Mapping) else document.metadata
    own = next((i for i in (document.id, document.metadata.get(POINT_KEY)) if isinstance(i, str | int) and i != ""), "")
    rest = {config.nested_under: metadata} if config.nested_under else metadata
    chunk = to_chunk(own, {**rest, config.text_key: document.page_content}, config)
    content = f"{chunk.source_url or ''}\0{chunk.text}".encode(errors="surrogatepass")
    chunk_id = chunk.chunk_id or hashlib.sha256(content).hexdigest()
    return replace(chunk, chunk_id=chunk_id, point_id=chunk.point_id or chunk_id)


def _identified(chunk: Chunk, listing: Listing) -> Chunk:
    """Return a chunk of the retriever under its id in the collection: found by id, else by address and text.

    Raises:
        ForeignRetrieverError: The collection does not hold it.
    """
    known = (listing.ids[own] for own in (chunk.chunk_id, chunk.point_id, _content(chunk)) if own in listing.ids)
    if stored := next(known, None):
        return replace(chunk, chunk_id=stored)
    raise ForeignRetrieverError(
        f"returned a chunk that collection {listing.info.name!r} does not hold ({chunk.source}: "
        f"{chunk.chunk_text_preview[:60]!r}); name the collection that it reads from, or none"
    )


def _content(chunk: Chunk) -> tuple[str | None, str]:
    return chunk.source_url, " ".join(chunk.text.split())


def _similarity(score: Any) -> float:
    """Return a similarity, clipped to [0, 1] as float32, like those of a store."""
    with suppress(TypeError, ValueError):
        if isfinite(value := float(score)) and abs(value) <= 1:
            return float(np.clip(np.float32(value), 0, 1))
    raise ForeignRetrieverError(f"gave the score {score!r}; expected a finite number of at most 1 for a threshold")


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {repr(value)[:60]}"
