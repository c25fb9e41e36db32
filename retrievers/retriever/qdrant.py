"""QdrantRetriever: embed, search, threshold, cut; a LangChain retriever that also says how it went."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_qdrant import QdrantVectorStore
from pydantic import ConfigDict, PrivateAttr, SkipValidation

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.layers import build, environment, file_layer
from retrievers.embedding.bm25 import Bm25Encoder, OwnEncoder, QueryEncoder, query_encoder
from retrievers.embedding.cache import CacheStats, EmbeddingCache, ResultCache, open_embedding_cache
from retrievers.embedding.models import CheckedEmbeddings, checked, make_embeddings
from retrievers.errors import ConfigError, QueryError, RetrievalError
from retrievers.records import Chunk, RetrievalSession, StageTimings
from retrievers.rerank.reranking import Rerank, make_reranker
from retrievers.retriever.session import document, failed, without_vector
from retrievers.retriever.stages import Pipeline
from retrievers.retriever.vector_store import make_store, own_terms, settings_over
from retrievers.search import requests
from retrievers.search.candidate_table import Candidates, CandidateTable
from retrievers.search.pushdown import compile_filters
from retrievers.search.selection import returned
from retrievers.store import (
    CollectionInfo,
    Deployment,
    check_collection,
    check_index,
    client_errors,
    describe,
    open_client,
    survey,
    with_distance,
)
from retrievers.store.chunk_table import ChunkTable
from retrievers.store.embedded import is_embedded
from retrievers.store.local_mode import expect_exact_search
from retrievers.store.stored_chunks import records, scroll

ON_A_SERVER = "a server, which does not report its changes"
"""The version of a collection on a server: results go by age alone."""
log = logging.getLogger(__name__)
BATCH = 32


class QdrantRetriever(BaseRetriever):
    """Retrieves chunks from a Qdrant collection by the settings it was opened with.

    `invoke` and `ainvoke` give LangChain documents and raise typed errors; `search` gives a `RetrievalSession` and
    never raises for an operational fault; `candidates` gives what the search found, at full depth, for evaluation.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    settings: SkipValidation[RetrieverConfig]
    vector_store: Any
    _embeddings: Embeddings = PrivateAttr()
    _owned: bool = PrivateAttr(default=True)
    _env: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _info: CollectionInfo = PrivateAttr()
    _encoder: QueryEncoder = PrivateAttr(default_factory=Bm25Encoder)
    _among: Any = PrivateAttr(default=None)
    _rerank: Rerank | None = PrivateAttr(default=None)
    _vectors: EmbeddingCache | None = PrivateAttr(default=None)
    _results: ResultCache[RetrievalSession] = PrivateAttr(default_factory=lambda: ResultCache(0))

    @classmethod
    def open(
        cls,
        settings: RetrieverConfig,
        *,
        env: Mapping[str, str] | None = None,
        embeddings: Embeddings | None = None,
        index: IndexSettings | None = None,
    ) -> Self:
        """Connect, and check that the collection is whole and was embedded by the configured model.

        Args:
            settings: Collection, model and mode of the retriever.
            env: Environment that holds API keys; the process environment and `.env` when left out.
            embeddings: A ready model to use in place of the configured one's construction.
            index: Settings that the collection must have been indexed with.

        Raises:
            RetrievalError: Typed, with what to do.
        """
        if settings.python is not None:
            raise ConfigError(
                f"python {settings.python!r} is a retriever of its own: call its factory, "
                "or open it for evaluation with retrievers.open_retriever"
            )
        env = environment(os.environ) if env is None else env
        model = checked(embeddings, settings.embedding) if embeddings else make_embeddings(settings.embedding, env)
        rerank = make_reranker(settings, env)
        encoder = Bm25Encoder() if settings.mode == "semantic" else query_encoder(settings.keyword)
        client = open_client(settings.store, env)
        try:
            info = describe(client, settings)
            settings = with_distance(settings, info)
            check_collection(client, settings, model, info)
            if index is not None:
                check_index(index, info.name, info.index)
            among = compile_filters(client, settings, info)
            vectors = open_embedding_cache(env, hosted=settings.embedding.declared.hosted is True)
        except BaseException:
            client.close()
            raise
        retriever = cls(settings=settings, vector_store=make_store(settings, client, model, encoder))
        retriever._info, retriever._among, retriever._rerank = info, among, rerank
        retriever._encoder, retriever._embeddings, retriever._env = encoder, model, env
        retriever._vectors, retriever._results = vectors, open_result_cache(client)
        return retriever

    @classmethod
    def over(
        cls,
        store: QdrantVectorStore,
        settings: RetrieverConfig,
        *,
        env: Mapping[str, str] | None = None,
        owned: bool = False,
    ) -> Self:
        """Search a `QdrantVectorStore` that exists: its client, collection, payload keys, vectors and embeddings.

        Args:
            store: The store. Its mode is searched unless the settings name another.
            settings: All that the store does not settle.
            env: Environment that holds the API key of a reranker.
            owned: Close the store's client with the retriever.

        Raises:
            RetrievalError: Typed, with what to do.
        """
        env = environment(os.environ) if env is None else env
        completed, terms, inner = settings_over(store, settings), own_terms(store), store.embeddings
        if inner is None:
            raise ConfigError(
                f"{type(store).__name__} has no dense embeddings, whose similarity the threshold reads in every mode; "
                "give it `embedding`, or evaluate its as_retriever()"
            )
        model = inner if isinstance(inner, CheckedEmbeddings) else CheckedEmbeddings(inner, type(inner).__name__)
        if completed.mode == "semantic":
            encoder: QueryEncoder = Bm25Encoder()
        elif terms is None:
            encoder = query_encoder(completed.keyword)
        else:
            encoder = OwnEncoder(type(terms).__name__, terms.embed_query)
        expect_exact_search()
        with client_errors(completed.collection):
            info = describe(store.client, completed)
            completed = with_distance(completed, info)
            check_collection(store.client, completed, model, info)
            among = compile_filters(store.client, completed, info)
        retriever = cls(settings=completed, vector_store=store)
        retriever._info, retriever._among, retriever._rerank = info, among, make_reranker(completed, env)
        retriever._encoder, retriever._embeddings, retriever._env = encoder, model, env
        retriever._owned = owned
        return retriever

    def with_settings(self, settings: RetrieverConfig) -> Self:
        """Return a retriever over the same client and model with other settings; closing it closes neither.

        Raises:
            RetrievalError: They do not fit the collection.
        """
        store = self.vector_store
        if self.settings.python is None:
            encoder = Bm25Encoder() if settings.mode == "semantic" else query_encoder(settings.keyword)
            store = make_store(settings, self.client, self._embeddings, encoder)
        # The model was checked when this one was opened.
        return type(self).over(store, settings.model_copy(update={"trust_embedding": True}), env=self._env)

    @classmethod
    def from_config(cls, source: str | Path | RetrieverConfig, *, env: Mapping[str, str] | None = None) -> Self:
        """Open a retriever from a YAML file, such as `python -m evals.run --export retriever.yaml` writes.

        Raises:
            RetrievalError: The file is wrong, or the collection cannot be opened.
        """
        if not isinstance(source, RetrieverConfig):
            source = build(RetrieverConfig, [file_layer(Path(source), RetrieverConfig)])
        return cls.open(source, env=env)

    @property
    def client(self) -> Any:
        """The client of the vector store."""
        return self.vector_store.client

    @property
    def embeddings(self) -> Any:
        """The model of the vector store, with typed errors."""
        return self._embeddings

    @property
    def label(self) -> str:
        """The name of this class; that of the caller's vector store where one was given."""
        return type(self).__name__ if self.settings.python is None else type(self.vector_store).__name__

    @property
    def embedding_label(self) -> str:
        """Provider and name of the model; its class where it came with a store."""
        return self.settings.embedding.label if self.settings.python is None else str(self.embeddings.name)

    @property
    def notes(self) -> tuple[str, ...]:
        """That BM25 scores depend on how the collection is cut into shards, and which settings change nothing."""
        info, mode = self._info, self.settings.mode
        idle = requests.notes(self.settings, info)
        if mode == "hybrid" and self.settings.python is not None:
            idle = (
                f"{self.label} is searched to {self.settings.candidates} candidates a side, fused by "
                f"{self.settings.used_fusion}: langchain-qdrant's own hybrid, of k a side and its own fusion, "
                "is measured by naming the store's as_retriever()",
                *idle,
            )
        if mode == "semantic" or info.shards == 1 or self.settings.keyword.vector_name in info.without_idf:
            return idle
        return (
            f"collection {info.name!r} has {info.shards} shards, and Qdrant counts how rare a term is (IDF) within each"
            f": its BM25 scores, and so what mode {mode} finds, depend on how the chunks are spread; compare "
            "only with runs over as many shards",
            *idle,
        )

    @property
    def batch_size(self) -> int:
        """Queries that are embedded and searched for in one round trip."""
        return BATCH

    @property
    def info(self) -> CollectionInfo:
        """What the collection said of itself when it was opened."""
        return self._info

    def search(self, query: str, *, with_vector: bool = False, use_cache: bool = True) -> RetrievalSession:
        """Retrieve, and tell how it went. Faults are in the session's `status` and `error`, not raised.

        Args:
            query: A question; blank gives an empty session with a message.
            with_vector: Put the query's vector into the session.
            use_cache: True to use a cached vector or result.
        """
        try:
            [session] = self._sessions([query], use_cache)
        except RetrievalError as error:
            return self._failed(query, error)
        return session if with_vector else without_vector(session)

    def search_batch(self, queries: Sequence[str], *, use_cache: bool = True) -> list[RetrievalSession]:
        """`search` for each query, order kept, embedded in batches and searched in one round trip.

        Results are those of one-by-one searches. If the batch fails, each query is searched alone, so that one bad
        query does not spoil the others.
        """
        try:
            sessions = self._sessions(queries, use_cache)
        except RetrievalError as error:
            if error.transient or error.timed_out:  # asking for each alone would only multiply the requests
                return [self._failed(query, error) for query in queries]
            return [self.search(query, use_cache=use_cache) for query in queries]
        return [without_vector(session) for session in sessions]

    def candidates(
        self,
        queries: Sequence[str],
        *,
        depth: int | None = None,
        use_cache: bool = True,
        chunks: ChunkTable | None = None,
    ) -> CandidateTable:
        """Find candidates for each query before threshold and cut, to the candidate depth.

        Args:
            queries: Questions.
            depth: Another depth than the configured one.
            use_cache: Use kept query vectors; results are always searched for.
            chunks: The chunks that earlier calls found, so that none is read again.

        Raises:
            RetrievalError: A query is unusable, or embedding or search failed.
        """
        return self._pipeline.candidates(queries, depth or self.settings.candidates, use_cache, chunks)

    def neighbours(
        self, vectors: Sequence[Sequence[float]], search: Mapping[str, Any] | None, depth: int, chunks: ChunkTable
    ) -> CandidateTable:
        """Find the points nearest to vectors, whatever the mode: those that the filters let pass, and all ties.

        Args:
            vectors: Vectors of queries.
            search: Parameters in place of the configured ones.
            depth: Number of points for each.
            chunks: The table that numbers them.

        Raises:
            RetrievalError: The search failed.
        """
        return self._pipeline.neighbours(vectors, search, depth, chunks)

    def chunk_table(self) -> ChunkTable:
        """Return an empty table of chunks, which calls of `candidates` fill."""
        return ChunkTable(self.client, self.settings)

    def select(self, candidates: Candidates) -> Candidates:
        """Return the candidates that threshold, grouping and cut leave."""
        return returned(candidates, self.settings)

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Chunks of the collection without a search, by field values (see `reading.scroll`)."""
        return scroll(self.client, self.settings, where, self._info)

    def sample(self, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Point ids and raw payloads of the collection's first points, at most `count`.

        Raises:
            StoreError: The store failed.
        """
        sampled = records(self.client, self.settings, self._info.limits, count=count)
        return [(str(record.id), record.payload or {}) for record in sampled]

    def survey(self) -> tuple[CollectionInfo, Deployment | None]:
        """Return the collection's own description now, and how its server runs it (None for an embedded store).

        Raises:
            StoreError: The store failed.
        """
        return survey(self.client, self.settings)

    def close(self) -> None:
        """Let go of the store; an embedded one can then be opened by another process."""
        if self._owned:
            self.client.close()
        if self._vectors:
            self._vectors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cache_stats(self) -> Mapping[str, CacheStats]:
        """How often the caches were asked and knew: `embedding` (where there is one) and `result`."""
        of_vectors = {"embedding": self._vectors.stats} if self._vectors else {}
        return {**of_vectors, "result": self._results.stats}

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        [session] = self._sessions([query], True)
        return [document(hit, include_metadata=self.settings.include_metadata) for hit in session.chunks]

    def _sessions(self, queries: Sequence[str], use_cache: bool) -> list[RetrievalSession]:
        """Return a session for each query, with its vector; a cached one where it may be used."""
        settings, pipeline = self.settings, self._pipeline
        return remembered(
            queries,
            self._results if use_cache else ResultCache(0),
            lambda: version_of(self.client, settings.collection),
            settings.model_dump_json,  # a copy of the retriever with other settings shares the cache
            lambda missing: pipeline.sessions(missing, use_cache),
        )

    @property
    def _pipeline(self) -> Pipeline:
        return Pipeline(
            settings=self.settings,
            embeddings=self.embeddings,
            client=self.client,
            info=self._info,
            encoder=self._encoder,
            among=self._among,
            rerank=self._rerank,
            vectors=self._vectors,
        )

    def _failed(self, query: str, error: RetrievalError) -> RetrievalSession:
        if not isinstance(error, QueryError):
            context = {"query": query, "collection": self.settings.collection}
            log.error("search failed: %s", error, extra={**context, "stage": error.stage, "attempt": error.attempts})
        return failed(query, error, self.settings, self._info)


def open_result_cache(client: Any) -> ResultCache[RetrievalSession]:
    """Open the cache of results: valid until an embedded store changes; a server does not tell, so none is kept."""
    return ResultCache() if is_embedded(client) else ResultCache(0)


def version_of(client: Any, collection: str) -> Hashable:
    """Return a value that changes with the collection, as far as its store tells: an embedded store's generation."""
    return client.generation(collection) if is_embedded(client) else ON_A_SERVER


def remembered(
    queries: Sequence[str],
    results: ResultCache[RetrievalSession],
    version: Callable[[], Hashable],
    settings: Callable[[], Hashable],
    find: Callable[[list[str]], list[RetrievalSession]],
) -> list[RetrievalSession]:
    """Return a session for each query, in order: a cached one, or one that is searched for now, once, and then cached.

    Args:
        queries: Questions.
        results: The sessions that are kept; a cache of no size is passed by.
        version: The version that the collection has.
        settings: Returns everything else that a result depends on.
        find: Searches for those that are not known.
    """
    start = time.perf_counter()
    keeps = results.size > 0
    # The version before the search: what changes during it makes what was found old.
    now, setup = (version(), settings()) if keeps else (None, None)
    kept = {query: hit for query in queries if keeps and (hit := results.get((query, setup), now))}
    waited = StageTimings(total_ms=(time.perf_counter() - start) * 1000 / max(1, len(queries)))
    missing = [query for query in dict.fromkeys(queries) if query not in kept]
    sessions = find(missing) if missing else []
    for session in sessions if keeps else ():
        results.put((session.query, setup), session, now)
    state = "miss" if keeps else "off"
    ready = {session.query: replace(session, cache={**session.cache, "result": state}) for session in sessions}
    for query, session in kept.items():
        ready[query] = _again(replace(session, timings=waited, cache={"embedding": "off", "result": "hit"}))
    # What was searched for now has an id of its own; each repetition gets another.
    first = {query: index for index, query in reversed([*enumerate(queries)])}
    return [ready[query] if first[query] == index else _again(ready[query]) for index, query in enumerate(queries)]


def _again(session: RetrievalSession) -> RetrievalSession:
    return replace(session, session_id=uuid.uuid4().hex)
