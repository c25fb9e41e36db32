"""The user's own retriever, any LangChain `BaseRetriever` or function, behind the calls of an evaluation.

What it cannot give (scores, stages, a list of all chunks) is absent, with the reason; it is never guessed. A
`QdrantVectorStore` is not foreign: `QdrantRetriever` searches it.
"""

import asyncio
import hashlib
import inspect
import logging
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from math import isfinite
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.errors import CollectionStateError, ForeignRetrieverError, RetrievalError, StoreUnsupportedError
from retrievers.net.faults import cause
from retrievers.records import Chunk, RetrievalSession, RetrievedChunk, ScoreScale, StageTimings
from retrievers.retriever.session import failed
from retrievers.search import confidence
from retrievers.search.candidate_table import Candidates, CandidateTable
from retrievers.search.chunk_list import ChunkList
from retrievers.search.query import check_query
from retrievers.search.requests import cosine
from retrievers.search.selection import BELOW_SHOWN, best_score, select
from retrievers.search.table_builder import TableBuilder, table_of_hits
from retrievers.store import CollectionInfo, Deployment, client_errors, read_info, survey
from retrievers.store.payload import to_chunk
from retrievers.store.stored_chunks import records, scroll

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
Result = TypeVar("Result")
SHOWN = 60
PATIENCE_S = 2.0
# Where langchain-qdrant puts the id of the point.
POINT_KEY = "_id"


class Listing:
    """The collection behind a retriever, whose chunks can be listed.

    Attributes:
        info: Information on the collection from its opening.
    """

    def __init__(self, client: "QdrantClient", config: RetrieverConfig) -> None:
        """Look at the collection that `config` names.

        Raises:
            StoreError: It does not exist, is unfinished or cannot be read.
        """
        self.client, self._config = client, config
        with client_errors(config.collection):
            self.info: CollectionInfo = read_info(client, config)
        if self.info.manifest.get("state", "complete") != "complete":
            raise CollectionStateError(
                f"collection {self.info.name!r} is unfinished: an indexing run was interrupted; "
                "run it again (python -m retrievers index DIR)"
            )

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Return chunks by field values (see `stored_chunks.scroll`)."""
        with client_errors(self._config.collection):
            return scroll(self.client, self._config, where, self.info)

    def sample(self, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Return point ids and payloads of the first points."""
        with client_errors(self._config.collection):
            points = list(records(self.client, self._config, self.info.limits, count=count))
        return [(str(record.id), record.payload or {}) for record in points]

    def survey(self) -> tuple[CollectionInfo, Deployment | None]:
        """Return the collection's current state (see `collection.survey`)."""
        with client_errors(self._config.collection):
            return survey(self.client, self._config)

    def identified(self, chunk: Chunk) -> Chunk:
        """Return a chunk of the retriever under its id in the collection: found by id, else by address and text.

        Raises:
            ForeignRetrieverError: The collection does not hold it.
        """
        ids, texts = self._ids
        stored = ids.get(chunk.chunk_id) or ids.get(chunk.point_id) or texts.get(_content(chunk))
        if stored is None:
            raise ForeignRetrieverError(
                f"returned a chunk that collection {self.info.name!r} does not hold ({chunk.source}: "
                f"{chunk.chunk_text_preview[:60]!r}); name the collection that it reads from, or leave store and "
                "collection out: relevance is then resolved in what it returns"
            )
        return replace(chunk, chunk_id=stored)

    @cached_property
    def _ids(self) -> tuple[Mapping[str, str], Mapping[tuple[str | None, str], str]]:
        """The chunk id by point or chunk id, and by address and text; of equal texts the first chunk's."""
        chunks = self.chunks()
        ids = {chunk.point_id: chunk.chunk_id for chunk in chunks} | {
            chunk.chunk_id: chunk.chunk_id for chunk in chunks
        }
        return ids, {_content(chunk): chunk.chunk_id for chunk in reversed(chunks)}


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
        self.settings = settings
        self._target, self._listing, self._scored, self._owned = target, listing, scored, owned
        self.label = label or type(target).__name__
        self._loop = BackgroundLoop()
        self._asynchronous = False
        kind = "retriever" if isinstance(target, BaseRetriever) else "function"
        self._no_cosine = "" if scored else "the retriever gives no scores"
        self._incomplete = f"the {kind} gives its result alone, not the candidates it came from"

    @property
    def info(self) -> CollectionInfo | None:
        """The collection it reads from, None when that is not known."""
        return self._listing.info if self._listing else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the unknown properties of its results."""
        unscored = f"{self._no_cosine}: no threshold is applied, metrics of similarity have no value"
        return () if self._scored else (unscored,)

    def search(self, query: str, *, with_vector: bool = False, use_cache: bool = True) -> RetrievalSession:
        """Retrieve, and tell how it went. Faults are in the session's `status` and `error`, not raised."""
        settings = self.settings
        try:
            candidates = self._find(query)
        except RetrievalError as error:
            if query.strip():
                log.error("search failed: %s", error, extra={"query": query, "stage": "search"})
            return replace(failed(query, error, settings, None), parameters=self._parameters())
        kept, below = select(candidates, settings)
        chunks, best_below = tuple(candidates.at(kept)), best_score(candidates, below, settings)
        threshold = settings.used_threshold
        warned = threshold is not None
        return RetrievalSession(
            session_id=uuid.uuid4().hex,
            query=query,
            parameters=self._parameters(),
            status="success",
            chunks=chunks,
            below_threshold=tuple(candidates[index] for index in below[:BELOW_SHOWN]),
            candidates_found=len(candidates),
            filtered_out=len(below),
            timings=candidates.timings,
            warnings=confidence.warnings(chunks, len(below), best_below, threshold, could_spread=False)
            if warned
            else (),
        )

    def with_settings(self, settings: RetrieverConfig) -> "ForeignRetriever":
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
        chunks = chunks if chunks is not None else ChunkList()
        builder, depth = TableBuilder(chunks), depth or self.settings.candidates
        for query in queries:
            candidates = self._find(query, chunks)
            builder.extend(candidates.at(range(min(depth, len(candidates)))).alone())
        return builder.table()

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
        return self._listed().sample(count)

    def survey(self) -> tuple[CollectionInfo, Deployment | None] | None:
        """Return the collection's current state; None where it is unknown.

        Raises:
            StoreError: The store failed.
        """
        return self._listing.survey() if self._listing else None

    def close(self) -> None:
        """Close what the factory made, and the collection; nothing that belongs to the caller."""
        self._loop.close()
        close = getattr(self._target, "close", None)
        if self._owned and callable(close):
            close()
        if self._listing and self._owned:
            self._listing.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listed(self) -> Listing:
        if self._listing is None:
            raise StoreUnsupportedError(
                f"the chunks of python {self.settings.python!r} cannot be listed; "
                "name the store and collection that it reads from"
            )
        return self._listing

    def _find(self, query: str, chunks: ChunkList | None = None) -> Candidates:
        check_query(query)
        name, start = f"python {self.settings.python!r} ({self.label})", time.perf_counter()
        try:
            documents, scores = self._checked(self._answer(query))
            spent = StageTimings(total_ms=(time.perf_counter() - start) * 1000)
            now = datetime.now(UTC)
            hits = self._ranked(documents, scores, now)
        except ForeignRetrieverError as error:
            raise ForeignRetrieverError(f"{name} {error}") from error
        except RetrievalError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code may raise anything
            raise ForeignRetrieverError(f"{name} failed: {cause(error, 'python')}") from error
        table = replace(
            table_of_hits(hits, chunks=chunks),
            texts=(query,),
            timings=(spent,),
            no_cosine=(self._no_cosine,),
            incomplete=(self._incomplete,),
            retrieved_at=(now,),
        )
        return table[0]

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

    def _checked(self, answer: Any) -> tuple[list[Document], list[float | None]]:
        """Return the documents of an answer, and their similarities where it has any, clipped to [0, 1].

        Raises:
            ForeignRetrieverError: It holds something else.
        """
        if not self._scored:
            documents = checked_documents(answer)
            return documents, [None] * len(documents)
        if not isinstance(answer, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in answer):
            raise ForeignRetrieverError(f"returned {type(answer).__name__}; expected a list of (document, score)")
        scores = [_checked_score(score) for _, score in answer]
        return checked_documents([document for document, _ in answer]), [
            *cosine(np.asarray(scores, np.float32)).tolist()
        ]

    def _ranked(
        self, documents: Sequence[Document], scores: Sequence[float | None], now: datetime
    ) -> tuple[RetrievedChunk, ...]:
        scale: ScoreScale = "cosine" if self._scored else "none"
        chunks = [chunk_of(document, self.settings.metadata) for document in documents]
        if self._listing and self.settings.names_collection:
            chunks = [self._listing.identified(chunk) for chunk in chunks]
        return tuple(
            RetrievedChunk(
                rank=rank,
                score=score,
                score_scale=scale,
                scores={} if score is None else {"semantic": score},
                chunk=chunk,
                retrieved_at=now,
            )
            for rank, (chunk, score) in enumerate(zip(chunks, scores, strict=True), 1)
        )

    def _parameters(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "python": settings.python,
            "collection": self.info.name if self.info else None,
            "top_k": settings.top_k,
            "threshold": settings.used_threshold,
            "candidates": settings.candidates,
        }


class BackgroundLoop:
    """Runs coroutines of any number of threads on one event loop, to which the user's clients may be bound."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for a coroutine; its errors are raised here."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def close(self) -> None:
        """Cancel running tasks and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(_cancel_others(), loop)
        # Code that ignores its cancellation ends with the process.
        with suppress(TimeoutError):
            ending.result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        if not thread.is_alive():
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="foreign-retriever", daemon=True)
                self._thread.start()
            return self._loop


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def checked_documents(answer: Any) -> list[Document]:
    """Return a retriever's answer as documents with text.

    Raises:
        ForeignRetrieverError: It is something else; the message names the actual type and its position.
    """
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise ForeignRetrieverError(f"returned {_shown(answer)}; expected a list of LangChain Documents")
    for number, document in enumerate(answer, 1):
        if not isinstance(document, Document):
            raise ForeignRetrieverError(f"returned {_shown(document)} at place {number}; expected a LangChain Document")
        if not isinstance(document.page_content, str) or not document.page_content.strip():
            raise ForeignRetrieverError(
                f"returned a document without text at place {number} (metadata {_shown(document.metadata)}); expected "
                "the chunk's text in page_content"
            )
    return list(answer)


def chunk_of(document: Document, config: MetadataConfig) -> Chunk:
    """Convert a document to a chunk; its metadata is read as a payload (see `payload.to_chunk`).

    The metadata's own `nested_under` key is looked into where there is one. A chunk is known by its `chunk_id` (or what
    that is mapped to), else by the document's id or the point's, else by a hash of its address and text.
    """
    nested = document.metadata.get(config.nested_under) if config.nested_under else None
    metadata: Mapping[str, Any] = nested if isinstance(nested, Mapping) else document.metadata
    own = next((i for i in (document.id, document.metadata.get(POINT_KEY)) if isinstance(i, str | int) and i != ""), "")
    payload = (
        {config.text_key: document.page_content, config.nested_under: metadata}
        if config.nested_under
        else {**metadata, config.text_key: document.page_content}
    )
    chunk = to_chunk(own, payload, config)
    content = f"{chunk.source_url or ''}\0{chunk.text}".encode(errors="surrogatepass")
    chunk_id = chunk.chunk_id or hashlib.sha256(content).hexdigest()
    return replace(chunk, chunk_id=chunk_id, point_id=chunk.point_id or chunk_id)


def _checked_score(score: Any) -> float:
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = float("nan")
    if not isfinite(value):
        raise ForeignRetrieverError(f"gave the score {score!r}; expected a finite number")
    if abs(value) > 1:
        raise ForeignRetrieverError(f"gave the score {value:g}; expected a similarity of at most 1 for a threshold")
    return value


def _content(chunk: Chunk) -> tuple[str | None, str]:
    return chunk.source_url, " ".join(chunk.text.split())


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:SHOWN]}{'…' if len(text) > SHOWN else ''}" if value is not None else "None"
