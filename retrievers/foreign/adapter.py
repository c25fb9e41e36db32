"""ForeignRetriever: a LangChain retriever of the user's, adapted to an evaluation."""

import inspect
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from retrievers.config import RetrieverConfig
from retrievers.config.factory import build
from retrievers.errors import ConfigError, ForeignRetrieverError, QueryError, RetrievalError, StoreUnsupportedError
from retrievers.foreign.listing import Listing, chunk_of, listing_of
from retrievers.foreign.sources import Found, FunctionSource, RetrieverSource, Source, StoreSource
from retrievers.net.faults import cause
from retrievers.records import Chunk, RetrievalSession, RetrievedChunk, StageTimings
from retrievers.search import confidence
from retrievers.search.candidate_table import Candidates, CandidateTable
from retrievers.search.chunk_list import ChunkList
from retrievers.search.query import check_query
from retrievers.search.selection import BELOW_SHOWN, best_score, select
from retrievers.search.table_builder import TableBuilder, table_of_hits
from retrievers.store import CollectionInfo, Deployment, open_client

if TYPE_CHECKING:
    from langchain_qdrant import QdrantVectorStore

EXPECTED = "expected a LangChain BaseRetriever or a QdrantVectorStore"
log = logging.getLogger(__name__)


class ForeignRetriever:
    """The user's own retriever behind the calls of `retrievers.retriever.protocol.Retriever`.

    The order of its documents is the rank, repeated ones keep their places. What it cannot give is absent, with the
    reason: scores (`CandidateTable.no_cosine`), stages of a search, and where there is no `info` a list of its chunks.
    """

    batch_size = 1

    def __init__(
        self, settings: RetrieverConfig, source: Source, listing: Listing | None, *, owned: bool = True
    ) -> None:
        """Put the parts together.

        Args:
            settings: Settings of the retriever.
            source: Source of the results.
            listing: The collection it reads from, where that is known. If the settings name it, everything that is
                returned must be found in it.
            owned: Close the listing's client with this retriever.
        """
        self.settings = settings
        self._owned = owned
        self._source = source
        self._listing = listing

    @property
    def label(self) -> str:
        """The class that the factory made."""
        return self._source.label

    @property
    def embedding_label(self) -> str | None:
        """The class that embeds, where it is known."""
        return self._source.embedding_label

    @property
    def info(self) -> CollectionInfo | None:
        """The collection it reads from, None when that is not known."""
        return self._listing.info if self._listing else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the unknown properties of its results."""
        source, notes = self._source, []
        if source.no_cosine:
            notes.append(f"{source.no_cosine}: no threshold is applied, metrics of similarity have no value")
        if source.deepens:
            notes.append(
                f"{source.label} was searched at depth {self.settings.candidates} and may find other chunks at another "
                "depth; set candidates to the k that your application asks for"
            )
        return tuple(notes)

    def search(self, query: str, *, with_vector: bool = False, use_cache: bool = True) -> RetrievalSession:
        """Retrieve, and tell how it went. Faults are in the session's `status` and `error`, not raised."""
        settings = self.settings
        try:
            candidates = self._find(query, settings.candidates if self._source.deepens else settings.top_k)
        except RetrievalError as error:
            return self._failed(query, error)
        kept, below = select(candidates, settings)
        chunks, best_below = tuple(candidates.at(kept)), best_score(candidates, below, settings)
        threshold = settings.used_threshold
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
            warnings=()
            if threshold is None
            else confidence.warnings(chunks, len(below), best_below, threshold, could_spread=False),
        )

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
            candidates = self._find(query, depth, chunks)
            builder.extend(candidates.at(range(min(depth, len(candidates)))).alone())
        return builder.table()

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Return chunks of the collection, by field values.

        Raises:
            StoreError: The store failed, or there is no collection to list them from.
        """
        return self._listed().chunks(where)

    def sample(self, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Point ids and payloads of the collection's first points.

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
        self._source.close()
        if self._listing and self._owned:
            self._listing.close()

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

    def _find(self, query: str, depth: int, chunks: ChunkList | None = None) -> Candidates:
        """Retrieve documents; only a store takes the `depth`."""
        check_query(query)
        start = time.perf_counter()
        try:
            documents = self._source.find(query, depth)
            spent = StageTimings(total_ms=(time.perf_counter() - start) * 1000)
            now = datetime.now(UTC)
            hits = self._ranked(documents, now)
        except ForeignRetrieverError as error:
            raise ForeignRetrieverError(f"{self._name} {error}") from error
        except RetrievalError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code may raise anything
            raise ForeignRetrieverError(f"{self._name} failed: {cause(error, 'python')}") from error
        table = replace(
            table_of_hits(hits, chunks=chunks),
            texts=(query,),
            timings=(spent,),
            no_cosine=(self._source.no_cosine,),
            incomplete=(self._source.no_candidates,),
            retrieved_at=(now,),
        )
        return table[0]

    def _ranked(self, scored: Found, now: datetime) -> tuple[RetrievedChunk, ...]:
        scale = self._source.scale
        chunks = [chunk_of(document, self.settings.metadata) for document, _ in scored]
        if self._listing and self.settings.names_collection:
            chunks = [self._listing.identified(chunk) for chunk in chunks]
        return tuple(
            RetrievedChunk(
                rank=rank,
                score=score,
                score_scale=scale,
                scores={"semantic": score} if scale == "cosine" and score is not None else {},
                chunk=chunk,
                retrieved_at=now,
            )
            for rank, (chunk, (_, score)) in enumerate(zip(chunks, scored, strict=True), 1)
        )

    def _failed(self, query: str, error: RetrievalError) -> RetrievalSession:
        blank = isinstance(error, QueryError) and not query.strip()
        if not isinstance(error, QueryError):
            log.error("search failed: %s", error, extra={"query": query, "stage": "search"})
        return RetrievalSession(
            session_id=uuid.uuid4().hex,
            query=query,
            parameters=self._parameters(),
            status="success" if blank else "timeout" if error.timed_out else "error",
            error=None if blank else str(error),
            warnings=(str(error),) if blank else (),
        )

    def _parameters(self) -> dict[str, Any]:
        settings = self.settings
        parameters = {"python": settings.python, "collection": self.info.name if self.info else None}
        return parameters | {
            "top_k": settings.top_k,
            "threshold": settings.used_threshold,
            "candidates": settings.candidates,
        }

    @property
    def _name(self) -> str:
        return f"python {self.settings.python!r} ({self.label})"


def open_foreign(settings: RetrieverConfig, env: Mapping[str, str]) -> ForeignRetriever:
    """Call the factory, and open the collection that the chunks are listed from.

    A `QdrantVectorStore` lists its own, and so does what its `as_retriever` makes; for any other retriever it is the
    one that the settings name, if they name one.

    Args:
        settings: Settings with `python`.
        env: The environment that holds the API key of a store that the settings name.

    Raises:
        ConfigError: The factory fails or returns something else, or a setting does not fit its product.
        StoreError: The collection does not exist, or cannot be read.
    """
    return adopt(build(settings.python or "", "python"), settings, env, owned=True)


def adopt(target: Any, settings: RetrieverConfig, env: Mapping[str, str], *, owned: bool = False) -> ForeignRetriever:
    """Put a LangChain retriever or vector store behind the calls of an evaluation.

    Args:
        target: The retriever.
        settings: Settings with `python`, by which messages name it.
        env: The environment that holds the API key of a store that the settings name.
        owned: Close it with the result, and on errors. A caller's own object stays open.

    Raises:
        ConfigError: It is something else, or a setting does not fit it.
        StoreError: The collection does not exist, or cannot be read.
    """
    if isinstance(target, FunctionSource):
        return ForeignRetriever(settings, target, _named_listing(settings, env))
    store = _vector_store(target)
    if store is None:
        if not isinstance(target, BaseRetriever):
            raise ConfigError(f"python {settings.python!r}: {EXPECTED}, got {_described(target)}")
        checked = _checked(settings, RetrieverSource(target, owned=owned))
        return ForeignRetriever(settings, checked, _named_listing(settings, env))
    try:
        if settings.names_collection:
            raise ConfigError(
                f"collection: python {settings.python!r} reads {store.collection_name!r} and its chunks are listed "
                "from there; leave store and collection out"
            )
        listing = listing_of(store, settings)
        source = (
            RetrieverSource(target, owned=owned)
            if isinstance(target, BaseRetriever)
            else StoreSource(store, listing.info)
        )
        return ForeignRetriever(settings, _checked(settings, source), listing, owned=owned)
    except BaseException:
        if owned:
            store.client.close()
        raise


def _named_listing(settings: RetrieverConfig, env: Mapping[str, str]) -> Listing | None:
    if not settings.names_collection:
        return None
    client = open_client(settings.store, env)
    try:
        return Listing(client, settings)
    except BaseException:
        client.close()
        raise


def _checked(settings: RetrieverConfig, source: Source) -> Source:
    if settings.used_threshold is not None and source.no_cosine:
        raise ConfigError(
            f"threshold: {settings.threshold:g} cannot be applied to python {settings.python!r}: {source.no_cosine}; "
            "leave threshold out"
        )
    return source


def _vector_store(retriever: Any) -> "QdrantVectorStore | None":
    """Return the store itself, or that of a plain store retriever; others may return more than their store holds."""
    from langchain_qdrant import QdrantVectorStore

    inner = retriever.vectorstore if type(retriever) is VectorStoreRetriever else retriever
    return inner if isinstance(inner, QdrantVectorStore) else None


def _described(value: Any) -> str:
    if inspect.iscoroutine(value):
        value.close()
        return "a coroutine; the factory must not be async"
    if inspect.isclass(value):
        return f"the class {value.__name__}; the factory must call it"
    hint = "; return its as_retriever()" if isinstance(value, VectorStore) else ""
    return f"{type(value).__name__}{hint}"
