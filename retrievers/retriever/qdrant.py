"""QdrantRetriever, a LangChain retriever: embed, search, rerank, apply the threshold, cut, and report on it."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

from cachetools import LRUCache
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_qdrant import QdrantVectorStore
from pydantic import ConfigDict, PrivateAttr, SkipValidation

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.layers import build, environment, environment_layer, file_layer, given_settings
from retrievers.config.models import KEYS
from retrievers.config.settings import call_factory
from retrievers.embedding.bm25 import spell_out
from retrievers.embedding.models import CheckedEmbeddings, checked, make_embeddings
from retrievers.errors import CollectionChangedError, ConfigError, EmbeddingError, StoreError
from retrievers.net import working_time
from retrievers.records import RetrievalSession, RetrievedChunk, StageTimings
from retrievers.retriever.protocol import Listing, Retriever, closed_on_error, read_listing
from retrievers.retriever.vector_store import QueryTerms, make_store, settings_over
from retrievers.search.candidates import Candidates
from retrievers.search.find import Search
from retrievers.search.query import check_query, compile_filters, encode
from retrievers.search.rerank import Reranker, make_reranker
from retrievers.search.selection import BELOW_SHOWN, answered, parameters, select
from retrievers.store.checks import COSINES, check_collection, check_index
from retrievers.store.chunks import ChunkTable, all_metadata, unit
from retrievers.store.collection import CollectionInfo, describe
from retrievers.store.embedded import is_embedded
from retrievers.store.opening import Repeating, open_client

# Most query vectors of hosted models that are kept in memory.
VECTORS = 1_024
# Most attempts of a search. It begins again if the collection was written to between two of its requests.
TRIES = 3


class QdrantRetriever(Retriever, BaseRetriever):
    """Retrieves chunks from a Qdrant collection by the settings it was opened with.

    `invoke` and `ainvoke` return LangChain documents and raise typed errors. `search` returns a `RetrievalSession`, and
    raises no error if the search fails. `candidates` returns the candidates at full depth, for evaluation.
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
    _terms: QueryTerms | None = PrivateAttr()
    _among: Any = PrivateAttr()
    _rerank: Reranker | None = PrivateAttr()
    _vectors: LRUCache[str, list[float]] = PrivateAttr(default_factory=lambda: LRUCache(VECTORS))
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
            embeddings: The model; made by the settings when left out.
            index: Settings with which the collection must have been indexed.

        Raises:
            RetrievalError: The retriever cannot be opened. The message says what to do.
        """
        if settings.python is not None:
            raise ConfigError(f"python {settings.python!r} makes its own store; use QdrantRetriever.from_config")
        env = environment(os.environ) if env is None else env
        model = checked(embeddings, settings.embedding) if embeddings else make_embeddings(settings.embedding, env)
        client = open_client(settings.store, env, settings.collection)
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
        """Return a retriever for a collection of an open client, after a check that it fits the settings.

        Args:
            client: The client.
            model: The embedding model.
            settings: Settings of the retriever, completed by those of `store`.
            env: Environment that holds the API key of a reranker.
            store: A `QdrantVectorStore` of the caller's; one is made when left out.
            owned: Close the client with the retriever.

        Raises:
            RetrievalError: The settings do not fit the collection. The message says what to do.
        """
        terms = None if settings.mode == "semantic" else QueryTerms(settings, store)
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

    @classmethod
    def over_store(cls, store: Any, settings: RetrieverConfig, env: Mapping[str, str], *, owned: bool) -> Self | None:
        """Search a `QdrantVectorStore` of the caller's, in every mode that it has encoders for.

        Return None for any other object, and for a store that cannot be searched for cosines: its class has a search of
        its own, or it has no embedding model, or its collection has another distance.

        Args:
            store: The vector store.
            settings: Settings with `python`; the store completes them.
            env: Environment that holds the API key of a reranker.
            owned: Close the store's client with the retriever, and on errors.

        Raises:
            RetrievalError: A setting does not fit the store, or the collection cannot be read.
        """
        if not isinstance(store, QdrantVectorStore):
            return None
        with closed_on_error(store.client if owned else None):
            own = settings_over(store, settings)
            client = Repeating(store.client, own)
            listing = read_listing(client, own)
            is_plain = type(store).similarity_search_with_score is QdrantVectorStore.similarity_search_with_score
            if not is_plain or store.embeddings is None or listing.info.distance not in COSINES:
                return None
            warnings.filterwarnings("ignore", message="Local mode performs exact")  # as it should
            return cls.over(client, checked(store.embeddings), own, env, store=store, owned=owned)

    def with_settings(self, settings: RetrieverConfig) -> Self:
        """Return a retriever with other settings, over the same client and model. To close it leaves them open.

        Raises:
            RetrievalError: The settings have a fault, or do not fit the collection.
        """
        own = self.vector_store if settings.python else None
        # Pydantic checks no change that is made in a copy.
        completed = settings_over(own, settings) if own else given_settings(settings, {})
        shared = (
            () if own else [n for n in ("embedding", "store") if getattr(completed, n) != getattr(self.settings, n)]
        )
        if shared:
            what = f"{shared[0]}: expected that of this retriever, whose client and model are shared"
            raise ConfigError(f"{what}; open another retriever (from_config)")
        # The embeddings were checked when this retriever was opened.
        trusted = completed.model_copy(update={"trust_embedding": True})
        other = self.over(self._listing.client, self._embeddings, trusted, self._env, store=own)
        other._vectors, other._lock = self._vectors, self._lock
        return other

    @classmethod
    def from_config(cls, source: str | Path | RetrieverConfig, *, env: Mapping[str, str] | None = None) -> Self:
        """Open a retriever from a YAML file, such as `python -m evals.run --export retriever.yaml` writes.

        The environment sets what the file leaves out.
        If the settings name a factory (`python`), it makes the `QdrantVectorStore`.

        Raises:
            RetrievalError: The file is wrong, or the collection cannot be opened.
        """
        env = environment(os.environ) if env is None else env
        if not isinstance(source, RetrieverConfig):
            of_file = file_layer(Path(source), RetrieverConfig, served=True)
            source = build(RetrieverConfig, [environment_layer(env), of_file])
        if source.python is None:
            return cls.open(source, env=env)
        made = call_factory(source.python, "python")
        retriever = cls.over_store(made, source, env, owned=True)
        if retriever is None:
            store = getattr(made, "vectorstore", made)
            getattr(getattr(store, "client", store), "close", lambda: None)()
            raise ConfigError(f"python {source.python!r} makes no QdrantVectorStore; use what it makes as it is")
        return retriever

    @property
    def client(self) -> Any:
        """The client of the vector store."""
        return self.vector_store.client

    @property
    def label(self) -> str:
        """The name of this class, or that of the caller's vector store."""
        return type(self).__name__ if self.settings.python is None else type(self.vector_store).__name__

    @property
    def embedding_label(self) -> str:
        """Provider and name of the model, or its class if it belongs to the caller's vector store."""
        return self.settings.embedding.model if self.settings.python is None else str(self._embeddings.name)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note that the hybrid search of the caller's vector store is ours, not its own."""
        settings = self.settings
        if settings.mode != "hybrid" or settings.python is None:
            return ()
        ours = f"{settings.candidates} candidates a side, fused by {settings.fusion}"
        return (f"{self.label} is searched to {ours}; its as_retriever() measures langchain-qdrant's own hybrid",)

    def candidates(
        self,
        queries: Sequence[str],
        *,
        depth: int | None = None,
        use_cache: bool = True,
        chunks: Any = None,
        few: bool = False,
    ) -> Candidates:
        """Find candidates for each query before threshold and cut, to the candidate depth.

        Args:
            queries: Questions.
            depth: Another depth than the configured one.
            use_cache: Use query vectors that are kept in memory.
            chunks: The `chunks` of the candidates of an earlier call, so that no chunk is read again.
            few: Read only the chunks that a session of the first query shows.

        Raises:
            RetrievalError: A query is unusable, or embedding or search failed.
        """
        for query in queries:
            check_query(query)
        client, settings = self._listing.client, self.settings
        is_free = is_embedded(client)  # to look again costs no request
        if is_free and _made_by(describe(client, settings)) != _made_by(self.info):
            raise StoreError(f"collection {self.info.name!r} was made again by another model; open the retriever anew")
        start = working_time()
        vectors = self._embedded(queries, use_cache)
        if vectors and self.info.distance == "dot":  # the dot product of vectors of length 1 is the cosine
            vectors = unit(vectors).tolist()
        terms = [self._terms.of(query) if self._terms else None for query in queries]
        encoded = [*map(encode, vectors, terms)]
        chunks = ChunkTable(client, settings) if chunks is None else chunks
        search = Search(client, settings, depth or settings.candidates, chunks, self._among)
        ready = working_time()
        for attempt in range(1, TRIES + 1):
            try:
                found = search.find(encoded)
                searched = working_time()
                if self._rerank:
                    found = self._rerank.order(found, queries, vectors, chunks)
                codes = found.codes[found.codes >= 0]
                if few:
                    passing, below = select(found[0], settings)
                    codes = found[0].at([*passing, *below[:BELOW_SHOWN]]).codes
                chunks.read(codes.tolist())
                break
            except CollectionChangedError:
                if attempt == TRIES:
                    raise
        end, share = working_time(), 1000 / max(1, len(queries))
        timings = StageTimings(
            embed_ms=(ready - start) * share,
            search_ms=((searched if self._rerank else end) - ready) * share,
            rerank_ms=(end - searched) * share if self._rerank else None,
            total_ms=(end - start) * share,
        )
        facts = [replace(known, text=text, timings=timings) for known, text in zip(found.facts, queries, strict=True)]
        return replace(found, facts=facts)

    def close(self) -> None:
        """Close the client, if this retriever opened it."""
        if self._owned:
            self.client.close()

    # With an argument beside LangChain's own, which else drops what `invoke` does not know, such as filters.
    def _get_relevant_documents(self, query: str, *, run_manager: Any, use_cache: bool = True) -> list[Document]:
        return [_document(hit) for hit in self._session(query, use_cache).chunks]

    def _session(self, query: str, use_cache: bool) -> RetrievalSession:
        """Return the session of one query."""
        [hits] = self.candidates([query], use_cache=use_cache, few=self.settings.group_by is None)
        return answered(hits, self.settings, self._told)

    def _embedded(self, queries: Sequence[str], use_cache: bool) -> list[list[float]]:
        """Embed queries with their abbreviations spelt out. Vectors of a hosted model are kept.

        Raises:
            EmbeddingError: The model failed, or made a vector of another length than the collection's.
        """
        settings = self.settings
        texts = [spell_out(query, settings.abbreviations) for query in queries]
        keeps = use_cache and settings.python is None and settings.embedding.provider in KEYS
        with self._lock:
            known = {text: self._vectors[text] for text in texts if keeps and text in self._vectors}
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
        """Parameters and model as a session reports them. The model of a caller's vector store has no known name."""
        settings, config = self.settings, self.settings.embedding
        model = {"provider": config.provider, "model": config.resolved_model} if settings.python is None else {}
        return {"parameters": parameters(settings), "embedding": {**model, "dimension": self.info.dimension}}


def _made_by(info: CollectionInfo) -> tuple[Any, Any]:
    """Return the embedding model and the language of the words that a collection records."""
    return info.manifest.get("embedding"), info.manifest.get("bm25", {}).get("language")


def _document(hit: RetrievedChunk) -> Document:
    """Convert a chunk to a LangChain document, with its scores and ranks in the metadata."""
    metadata: dict[str, Any] = {"score": hit.score, "score_scale": hit.score_scale, "rank": hit.rank}
    if hit.original_rank is not None:
        metadata |= {"original_rank": hit.original_rank, "original_score": hit.original_score}
    metadata = {**all_metadata(hit.chunk), **metadata, "scores": dict(hit.scores)}
    return Document(id=hit.chunk.point_id, page_content=hit.chunk.text, metadata=metadata)
