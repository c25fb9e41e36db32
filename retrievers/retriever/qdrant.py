"""QdrantRetriever: embed, search, rerank, threshold, cut; a LangChain retriever that also says how it went."""

import os
import time
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

from cachetools import LRUCache
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_qdrant import QdrantVectorStore
from pydantic import ConfigDict, PrivateAttr, SkipValidation

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.layers import build, environment, file_layer
from retrievers.embedding.bm25 import spell_out
from retrievers.embedding.models import CheckedEmbeddings, checked, make_embeddings
from retrievers.errors import CollectionChangedError, ConfigError, EmbeddingError
from retrievers.net import working_time
from retrievers.records import RetrievalSession, RetrievedChunk, StageTimings
from retrievers.retriever.protocol import Listing, Retriever, closed_on_error
from retrievers.retriever.vector_store import QueryTerms, make_store, settings_over
from retrievers.search.candidates import Candidates
from retrievers.search.find import Search
from retrievers.search.query import check_query, compile_filters, encode
from retrievers.search.rerank import Reranker, make_reranker
from retrievers.search.selection import BELOW_SHOWN, answered, parameters, select
from retrievers.store.checks import check_collection, check_index
from retrievers.store.chunks import ChunkTable, all_metadata, unit
from retrievers.store.collection import describe
from retrievers.store.embedded import is_embedded
from retrievers.store.opening import open_client

# Results, and vectors of queries by hosted models, that are kept in memory.
RESULTS, VECTORS = 256, 1_024
# How often a search begins again, as the collection was written to between two of its requests.
TRIES = 3


class QdrantRetriever(Retriever, BaseRetriever):
    """Retrieves chunks from a Qdrant collection by the settings it was opened with.

    `invoke` and `ainvoke` give LangChain documents and raise typed errors; `search` gives a `RetrievalSession` and
    never raises for an operational fault; `candidates` gives what the search found, at full depth, for evaluation.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    # Queries that are embedded and searched for in one round trip.
    batch_size: ClassVar[int] = 32
    settings: SkipValidation[RetrieverConfig]
    vector_store: Any
    _embeddings: Any = PrivateAttr()
    _owned: bool = PrivateAttr(default=False)
    _env: Mapping[str, str] = PrivateAttr()
    _listing: Listing = PrivateAttr()
    _terms: QueryTerms = PrivateAttr()
    _among: Any = PrivateAttr()
    _rerank: Reranker | None = PrivateAttr()
    _vectors: LRUCache[str, list[float]] = PrivateAttr(default_factory=lambda: LRUCache(VECTORS))
    _results: LRUCache[Hashable, RetrievalSession] = PrivateAttr(default_factory=lambda: LRUCache(RESULTS))
    _lock: Any = PrivateAttr(default_factory=Lock)

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
            raise ConfigError(f"python {settings.python!r} makes its own store; use QdrantRetriever.from_config")
        env = environment(os.environ) if env is None else env
        model = checked(embeddings, settings.embedding) if embeddings else make_embeddings(settings.embedding, env)
        client = open_client(settings.store, env)
        with closed_on_error(client):
            retriever = cls.over(client, model, settings, env, owned=True)
            if index is not None:
                check_index(index, retriever.info.name, retriever.info.index)
        return retriever

    @classmethod
    def over(
        cls,
        client: Any,
        model: CheckedEmbeddings,
        settings: RetrieverConfig,
        env: Mapping[str, str],
        *,
        store: QdrantVectorStore | None = None,
        owned: bool = False,
    ) -> Self:
        """Search a collection of an open client, after checking that it goes with the settings.

        Args:
            client: The client.
            model: The model of meaning.
            settings: Those of the search, and of the collection.
            env: Environment that holds the API key of a reranker.
            store: A `QdrantVectorStore` of the caller's, by whose settings these are completed; else one is made.
            owned: Close the client with the retriever.

        Raises:
            RetrievalError: Typed, with what to do.
        """
        terms = QueryTerms(settings, store)
        rerank = make_reranker(settings, client, env)
        info = describe(client, settings)
        if store is None:
            settings = settings.model_copy(update={"vector_name": info.vector_name})
        check_collection(client, settings, model, info)
        among = compile_filters(client, settings)
        retriever = cls(settings=settings, vector_store=store or make_store(settings, client, model, terms))
        retriever._listing = Listing(client=client, config=settings, info=info)
        retriever._embeddings, retriever._terms, retriever._among = model, terms, among
        retriever._rerank, retriever._env, retriever._owned = rerank, env, owned
        return retriever

    def with_settings(self, settings: RetrieverConfig) -> Self:
        """Return a retriever over the same client and model with other settings; closing it closes neither.

        Raises:
            RetrievalError: They do not fit the collection.
        """
        own = self.vector_store if settings.python else None
        completed = settings_over(own, settings) if own else settings
        trusted = completed.model_copy(update={"trust_embedding": True})  # it was checked when this one was opened
        other = self.over(self.client, self._embeddings, trusted, self._env, store=own)
        other._vectors, other._lock = self._vectors, self._lock
        return other

    @classmethod
    def from_config(cls, source: str | Path | RetrieverConfig, *, env: Mapping[str, str] | None = None) -> Self:
        """Open a retriever from a YAML file, such as `python -m evals.run --export retriever.yaml` writes.

        With `python` its factory makes the `QdrantVectorStore`.

        Raises:
            RetrievalError: The file is wrong, or the collection cannot be opened.
        """
        from retrievers.retriever.opened import open_retriever

        if not isinstance(source, RetrieverConfig):
            source = build(RetrieverConfig, [file_layer(Path(source), RetrieverConfig)])
        opened = open_retriever(source, env=env)
        if not isinstance(opened, cls):
            opened.close()
            raise ConfigError(f"python {source.python!r} makes no QdrantVectorStore; use what it makes as it is")
        return opened

    @property
    def client(self) -> Any:
        """The client of the vector store."""
        return self.vector_store.client

    @property
    def label(self) -> str:
        """The name of this class; that of the caller's vector store where one was given."""
        return type(self).__name__ if self.settings.python is None else type(self.vector_store).__name__

    @property
    def embedding_label(self) -> str:
        """Provider and name of the model; its class where it came with a store."""
        return self.settings.embedding.model if self.settings.python is None else str(self._embeddings.name)

    @property
    def notes(self) -> tuple[str, ...]:
        """That a hybrid store of the caller's is searched in our way."""
        settings = self.settings
        if settings.mode != "hybrid" or settings.python is None:
            return ()
        ours = f"{settings.candidates} candidates a side, fused by {settings.fusion}"
        return (f"{self.label} is searched to {ours}; its as_retriever() measures langchain-qdrant's own hybrid",)

    def candidates(
        self, queries: Sequence[str], *, depth: int | None = None, use_cache: bool = True, chunks: Any = None
    ) -> Candidates:
        """Find candidates for each query before threshold and cut, to the candidate depth.

        Args:
            queries: Questions.
            depth: Another depth than the configured one.
            use_cache: Use kept query vectors; results are always searched for.
            chunks: The chunks that earlier calls found, so that none is read again.

        Raises:
            RetrievalError: A query is unusable, or embedding or search failed.
        """
        return self._found(queries, depth or self.settings.candidates, use_cache, chunks)

    def close(self) -> None:
        """Let go of the store; an embedded one can then be opened by another process."""
        if self._owned:
            self.client.close()

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [_document(hit) for hit in self._session(query, True).chunks]

    def _session(self, query: str, use_cache: bool) -> RetrievalSession:
        """Return the candidates of one query and a selection as a session, or one that is kept.

        A result is kept under the version of the collection before the search, and only an embedded store tells one.
        """
        start, settings = time.perf_counter(), self.settings
        keeps = use_cache and is_embedded(self.client)
        key = (query, self.client.generation(settings.collection)) if keeps else None
        with self._lock:
            kept = self._results.get(key)
        if kept is not None:
            timings = StageTimings(total_ms=(time.perf_counter() - start) * 1000)
            return replace(kept, session_id=uuid.uuid4().hex, timings=timings, kept=True)
        [hits] = self._found([query], settings.candidates, use_cache, few=settings.group_by is None)
        session = answered(hits, settings, self._told)
        if keeps:
            with self._lock:
                self._results[key] = session
        return session

    def _found(
        self, queries: Sequence[str], depth: int, use_cache: bool, chunks: Any = None, *, few: bool = False
    ) -> Candidates:
        """Embed queries, find candidates, rerank, and read the chunks of all, or of the few that an answer shows."""
        for query in queries:
            check_query(query)
        start, settings = working_time(), self.settings
        vectors = self._embedded(queries, use_cache)
        if vectors and self.info.distance == "dot":  # of vectors of length 1 it is the cosine
            vectors = unit(vectors).tolist()
        encoded = [encode(vector, self._terms.of(query)) for query, vector in zip(queries, vectors, strict=True)]
        chunks = ChunkTable(self.client, settings) if chunks is None else chunks
        search = Search(self.client, settings, depth, chunks, self._among)
        ready = working_time()
        for left in reversed(range(TRIES)):
            try:
                found = search.find(encoded)
                searched = working_time()
                if self._rerank:
                    found = self._rerank.order(found, queries, vectors, chunks)
                codes = found.codes[found.codes >= 0]
                if few:
                    kept, below = select(found[0], settings)
                    codes = found[0].at([*kept, *below[:BELOW_SHOWN]]).codes
                chunks.read(codes.tolist())
                break
            except CollectionChangedError:
                if not left:
                    raise
        end, share = working_time(), 1000 / max(1, len(queries))
        timings = StageTimings(
            embed_ms=(ready - start) * share,
            search_ms=((searched if self._rerank else end) - ready) * share,
            rerank_ms=(end - searched) * share if self._rerank else None,
            total_ms=(end - start) * share,
        )
        facts = [replace(of, text=text, timings=timings) for of, text in zip(found.facts, queries, strict=True)]
        return replace(found, facts=facts)

    def _embedded(self, queries: Sequence[str], use_cache: bool) -> list[list[float]]:
        """Embed queries, abbreviations spelt out; a hosted model is asked once for each that is kept.

        Raises:
            EmbeddingError: The model failed, or made a vector of another length than the collection's.
        """
        settings, known = self.settings, dict[str, list[float]]()
        texts = [spell_out(query, settings.abbreviations) for query in queries]
        keeps = use_cache and settings.python is None and settings.embedding.declared.hosted
        with self._lock:
            known |= {text: self._vectors[text] for text in texts if keeps and text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        fresh = dict(zip(missing, self._embeddings.embed_queries(missing), strict=True))
        for vector in fresh.values():
            if len(vector) != self.info.dimension:
                holds = f"collection {self.info.name!r} holds vectors of {self.info.dimension} dimensions"
                raise EmbeddingError(f"{holds}, but {self.embedding_label} made one of {len(vector)}")
        if keeps:
            with self._lock:
                self._vectors.update(fresh)
        return [(known | fresh)[text] for text in texts]

    @property
    def _told(self) -> dict[str, Any]:
        """Parameters and model as a session records them; the model may be in the caller's vector store."""
        settings, config = self.settings, self.settings.embedding
        model = {"provider": config.provider, "model": config.resolved_model} if settings.python is None else {}
        return {"parameters": parameters(settings), "embedding": {**model, "dimension": self.info.dimension}}


def _document(hit: RetrievedChunk) -> Document:
    """A chunk as a LangChain document, its scores and places in the metadata."""
    metadata: dict[str, Any] = {"score": hit.score, "score_scale": hit.score_scale, "rank": hit.rank}
    if hit.original_rank is not None:
        metadata |= {"original_rank": hit.original_rank, "original_score": hit.original_score}
    metadata = {**all_metadata(hit.chunk), **metadata, "scores": dict(hit.scores)}
    return Document(id=hit.chunk.point_id, page_content=hit.chunk.text, metadata=metadata)
