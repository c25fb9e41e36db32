"""The user's own retriever, which is any LangChain `BaseRetriever` or function, behind the interface of an evaluation.

What it cannot give (scores, stages, a list of all chunks) is left out with the reason, and never guessed. A
`QdrantVectorStore` is not foreign: `QdrantRetriever` searches it.
"""

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import isnan, nan
from threading import Thread
from typing import Any, ClassVar, Self

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable

from retrievers.config import FOREIGN_SETTINGS, MetadataConfig, RetrieverConfig
from retrievers.errors import ConfigError, ForeignRetrieverError, RetrievalError
from retrievers.net import cause
from retrievers.records import Chunk, RetrievalSession, StageTimings
from retrievers.retriever.protocol import Listing, Retriever
from retrievers.search.candidates import Candidates, ChunkList, SearchFacts, laid_out
from retrievers.search.query import check_query
from retrievers.search.selection import answered
from retrievers.store.chunks import to_chunk
from retrievers.text import digest

UNSCORED = "no similarities are read from the retriever"
PAIRED = " (of pairs of a document and its similarity they are read if retriever.threshold is set; 0 keeps all)"
# Key of the metadata under which langchain-qdrant puts the id of the point.
POINT_KEY = "_id"


@dataclass(eq=False)
class ForeignRetriever(Retriever):
    """The user's own retriever behind the interface of `retrievers.retriever.protocol.Retriever`.

    Documents are ranked by their order. Metrics of ranking count a repeated document once, at its first place.

    Args:
        settings: Settings of the retriever.
        target: A retriever, a runnable, or a function that takes a query and returns documents or texts, the best
            first. It may be asynchronous, such as the `ainvoke` of a retriever.
        listing: The collection that it reads from, if that is known. If the settings name the collection, all
            documents must be found in it.
        label: Its name.
        scored: It returns pairs of a document and its similarity, which is at most 1. If not, the second of a pair, of
            any scale, is left out.
        owned: Close it, and the client of the listing, with this retriever.
        by_text: Texts with the same id are chunks of their own, such as pieces of a document. The first has the id.
    """

    settings: RetrieverConfig
    target: BaseRetriever | Callable[[str], Any]
    _listing: Listing | None
    label: str
    scored: bool = False
    owned: bool = True
    by_text: bool = False
    _texts: dict[str, str] = field(default_factory=dict)
    batch_size: ClassVar[int] = 1
    embedding_label: ClassVar[None] = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on properties that its results lack."""
        paired = "" if isinstance(self.target, BaseRetriever) else PAIRED
        note = f"{UNSCORED}{paired}: no threshold is applied, metrics of similarity have no value"
        return () if self.scored else (note,)

    def _session(self, query: str, use_cache: bool) -> RetrievalSession:
        return answered(self.candidates([query])[0], self.settings, self._told)

    @property
    def _told(self) -> Mapping[str, Any]:
        told = {name: getattr(self.settings, name) for name in ("python", "top_k", "threshold", "candidates")}
        return {"parameters": told | {"collection": self.info.name if self.info else None}}

    def with_settings(self, settings: RetrieverConfig) -> Self:
        """Return the same retriever with other settings. To close one of them closes both.

        Raises:
            ConfigError: A setting is not for a retriever of the user's own.
        """
        check_settable(settings)
        other = copy(self)
        other.settings = settings
        return other

    def candidates(
        self, queries: Sequence[str], *, depth: int | None = None, use_cache: bool = True, chunks: Any = None
    ) -> Candidates:
        """Return the results of the retriever for each query, in their order, at most `depth`.

        Raises:
            QueryError: A query is blank or too long.
            ForeignRetrieverError: The retriever failed, or returned no usable documents.
        """
        chunks = ChunkList() if chunks is None else chunks
        facts, codes, scores = list[SearchFacts](), list[list[int]](), list[list[float]]()
        common = SearchFacts(
            scale="cosine" if self.scored else "none",
            no_cosine="" if self.scored else UNSCORED,
            incomplete="the retriever gives its result alone, not the candidates it came from",
        )
        for query in queries:
            check_query(query)
            start = time.perf_counter()
            returned = self._asked(query)[: depth or self.settings.candidates]
            codes.append([chunks.code(chunk) for chunk, _ in returned])
            scores.append([score for _, score in returned])
            timings = StageTimings(total_ms=(time.perf_counter() - start) * 1000)
            facts.append(replace(common, text=query, timings=timings))
        score = laid_out(scores, nan)
        return Candidates(
            codes=laid_out(codes, -1),
            columns={"score": score, "semantic": score} if self.scored else {"score": score},
            chunks=chunks,
            facts=facts,
        )

    def close(self) -> None:
        """Close the collection and the object that the factory made. An object of the caller's stays open."""
        if self.owned:
            getattr(self.target, "close", lambda: None)()
        # A collection that the settings name was opened for this retriever alone.
        if self._listing and (self.owned or self.settings.names_collection):
            self._listing.client.close()

    @cached_property
    def _held(self) -> Mapping[Any, Chunk]:
        """The collection's chunks by point id, by chunk id, and by address and text. Of equal ones the first counts."""
        chunks = self.chunks()
        texts = {_content(chunk): chunk for chunk in reversed(chunks)}
        return texts | {key: chunk for chunk in chunks for key in (chunk.point_id, chunk.chunk_id)}

    def _identified(self, chunk: Chunk) -> Chunk:
        """Return a chunk with the id that it has in the named collection. It is found by id, else by address and text.

        Raises:
            ForeignRetrieverError: The collection does not hold the chunk, or the chunk lacks some of the text that the
                collection has under its id, as after a compressor.
        """
        keys = (chunk.chunk_id, chunk.point_id, _content(chunk))
        held = next((self._held[key] for key in keys if key in self._held), None)
        if held and _content(held)[1] in _content(chunk)[1]:
            return replace(chunk, chunk_id=held.chunk_id)
        fault, remedy = "does not hold", "name the collection that it reads from, or none"
        if held:
            fault, remedy = "holds with more text", "name no collection, and the returned texts themselves are scored"
        shown = f"{chunk.source}: {chunk.chunk_text_preview[:60]!r}"
        raise ForeignRetrieverError(
            f"returned a chunk that collection {self.settings.collection!r} {fault} ({shown}); {remedy}"
        )

    def _asked(self, query: str) -> list[tuple[Chunk, float]]:
        """Ask the user's retriever, and return its answer as chunks with their similarities, NaN without scores."""
        name = f"python {self.settings.python!r} ({self.label})"
        try:
            answer = self._answer(query)
            return self._read(awaited(answer) if inspect.isawaitable(answer) else answer)
        except ForeignRetrieverError as error:
            raise ForeignRetrieverError(f"{name} {error}") from error
        except RetrievalError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code may raise anything
            raise ForeignRetrieverError(f"{name} failed: {cause(error, 'python')}") from error

    def _answer(self, query: str) -> Any:
        ask: Any = getattr(self.target, "invoke", self.target)
        try:
            return ask(query)
        except (NotImplementedError, TypeError) as error:  # a retriever or runnable may be asynchronous alone
            if not isinstance(self.target, Runnable) or (type(error) is TypeError and "coroutine" not in str(error)):
                raise
            return self.target.ainvoke(query)

    def _read(self, answer: Any) -> list[tuple[Chunk, float]]:
        """Convert an answer (documents, texts, or pairs of one and its similarity) to chunks with their similarities.

        Raises:
            ForeignRetrieverError: The answer holds something else, or a chunk that is not in the named collection.
        """
        items = "(document, similarity from -1 to 1)" if self.scored else "documents, texts, or pairs with a similarity"
        if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
            raise ForeignRetrieverError(f"returned {_shown(answer)}; expected a list of {items}")
        pairs = list[tuple[Chunk, float]]()
        for rank, item in enumerate(answer, 1):
            is_pair = isinstance(item, tuple) and len(item) == 2 and (self.scored or hasattr(item[1], "__float__"))
            document, similarity = item if is_pair else (item, nan)
            document = Document(page_content=document) if isinstance(document, str) else document
            score = _similarity(similarity) if self.scored else nan
            is_text = isinstance(document, Document) and str(document.page_content or "").strip()
            if not is_text or (self.scored and isnan(score)):
                got = f"similarity {similarity!r}" if is_text and is_pair else _shown(item)
                raise ForeignRetrieverError(f"returned {got} at place {rank}; expected a list of {items}")
            chunk = chunk_of(document, self.settings.metadata)
            if self.by_text and self._texts.setdefault(chunk.chunk_id, chunk.text) != chunk.text:
                chunk = replace(chunk, chunk_id=f"{chunk.chunk_id}#{digest(chunk.text)[:8]}")
            pairs.append((self._identified(chunk) if self.settings.names_collection else chunk, score))
        return pairs


def check_settable(settings: RetrieverConfig) -> None:
    """Refuse the settings that a retriever of the user's own decides itself.

    Raises:
        ConfigError: One of them is set.
    """
    idle = [field for field in type(settings).model_fields if field in settings.model_fields_set - {*FOREIGN_SETTINGS}]
    if idle:
        remedy = f"settled by python {settings.python!r} itself; leave out that, or python"
        raise ConfigError(f"{', '.join(idle)}: {remedy}")


def awaited(answer: Awaitable[Any]) -> Any:
    """Wait for an answer on one event loop for all threads, since the user's clients may be bound to a loop."""

    async def wait() -> Any:
        return await answer

    return asyncio.run_coroutine_threadsafe(wait(), _event_loop(os.getpid())).result()


@cache
def _event_loop(_process: int) -> asyncio.AbstractEventLoop:
    """Start the event loop of a process, in a thread that ends with it. A forked process has no such thread."""
    loop = asyncio.new_event_loop()

    def serve() -> None:
        while True:  # what ends the loop in a task, such as sys.exit, must not end it for all who wait
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()

    Thread(target=serve, name="foreign-retriever", daemon=True).start()
    return loop


def chunk_of(document: Document, config: MetadataConfig) -> Chunk:
    """Convert a document to a chunk. Its metadata are read as a payload (see `store.chunks.to_chunk`).

    If the metadata have the key `nested_under`, the fields are read below it. The chunk's id is `chunk_id` (or the key
    that it is mapped to), else the id of the document or of the point, else a hash of the address and the text.
    """
    nested = document.metadata.get(config.nested_under) if config.nested_under else None
    metadata: Mapping[str, Any] = nested if isinstance(nested, Mapping) else document.metadata
    ids = (document.id, document.metadata.get(POINT_KEY))
    point_id = next((value for value in ids if isinstance(value, str | int) and value != ""), "")
    fields = {config.nested_under: metadata} if config.nested_under else metadata
    chunk = to_chunk(point_id, {**fields, config.text_key: document.page_content}, config)
    chunk_id = chunk.chunk_id or digest(f"{chunk.source_url or ''}\0{chunk.text}")
    return replace(chunk, chunk_id=chunk_id, point_id=chunk.point_id or chunk_id)


def _content(chunk: Chunk) -> tuple[str | None, str]:
    return chunk.source_url, " ".join(chunk.text.split())


def _similarity(score: Any) -> float:
    """Return a similarity clipped to [0, 1]; NaN for anything else. By rounding, a float32 cosine may exceed 1."""
    try:
        value = float(score)
    except (TypeError, ValueError):
        return nan
    return min(max(0.0, value), 1.0) if abs(value) <= 1 + 1e-6 else nan


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {repr(value)[:60]}"
