"""QdrantRetriever: embed, search, threshold, cut; a LangChain retriever that also says how it went."""

import json
import logging
import os
import time
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, PrivateAttr

from retrievers import confidence, search
from retrievers.cache import CacheStats, EmbeddingCache, ResultCache, open_embedding_cache
from retrievers.config import MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS, RetrieverConfig
from retrievers.connection import CollectionInfo, check_collection, describe, open_client, store_errors
from retrievers.embeddings import checked, make_embeddings
from retrievers.errors import ConfigError, EmbeddingMismatchError, QueryError, RerankError, RetrievalError
from retrievers.keyword import Bm25Encoder, expand, spell_out
from retrievers.mmr import diversify
from retrievers.payload import to_metadata
from retrievers.pushdown import compile_filters
from retrievers.records import Candidates, Chunk, RetrievalSession, RetrievedChunk, StageTimings
from retrievers.rerank import Reranker, make_reranker, rerank
from retrievers.retry import bounded, stage
from retrievers.search import EncodedQuery
from retrievers.selection import Selection, select
from retrievers.settings import build, environment, file_layer

log = logging.getLogger(__name__)
BATCH = 32


class QdrantRetriever(BaseRetriever):
    """Retrieves chunks from a Qdrant collection by the settings it was opened with.

    `invoke` and `ainvoke` give LangChain documents and raise typed errors; `search` gives a `RetrievalSession` and
    never raises for an operational fault; `candidates` gives what the search found, at full depth, for evaluation.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    settings: RetrieverConfig
    embeddings: Any
    client: Any
    _info: CollectionInfo = PrivateAttr()
    _encoder: Bm25Encoder = PrivateAttr(default_factory=Bm25Encoder)
    _among: Any = PrivateAttr(default=None)
    _reranker: Reranker | None = PrivateAttr(default=None)
    _vectors: EmbeddingCache | None = PrivateAttr(default=None)
    _results: ResultCache[Candidates] = PrivateAttr(default_factory=lambda: ResultCache(0, None))

    @classmethod
    def open(
        cls, settings: RetrieverConfig, *, env: Mapping[str, str] | None = None, embeddings: Embeddings | None = None
    ) -> Self:
        """Connect, and check that the collection is whole and was embedded by the configured model.

        Args:
            settings: What to open.
            env: Where API keys are looked up; the process environment and `.env` when left out.
            embeddings: A ready model to use in place of the configured one's construction.

        Raises:
            RetrievalError: Typed, with what to do.
        """
        if settings.python is not None:
            raise ConfigError(
                f"python {settings.python!r} is a retriever of its own: call its factory, "
                "or open it for evaluation with retrievers.open_retriever"
            )
        env = environment(os.environ) if env is None else env
        embeddings = checked(embeddings, settings.embedding) if embeddings else make_embeddings(settings.embedding, env)
        reranker = make_reranker(settings.cross_encoder, env) if settings.rerank == "cross-encoder" else None
        client = open_client(settings.store, env)
        try:
            info = describe(client, settings)
            check_collection(client, settings, embeddings, info)
            among = compile_filters(client, settings)
            vectors = open_embedding_cache(settings.cache, settings.embedding.provider, env)
        except BaseException:
            client.close()
            raise
        retriever = cls(settings=settings, embeddings=embeddings, client=client)
        retriever._info, retriever._among, retriever._reranker = info, among, reranker
        retriever._encoder = Bm25Encoder(settings.keyword.language)
        retriever._vectors = vectors
        try:
            retriever._results = ResultCache(settings.cache.results, retriever._version())
        except BaseException:
            retriever.close()
            raise
        return retriever

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
    def label(self) -> str:
        """The name of this class."""
        return type(self).__name__

    @property
    def embedding_label(self) -> str:
        """Provider and name of the model."""
        return f"{self.settings.embedding.provider}:{self.settings.embedding.resolved_model}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing that a reader of its results would have to know."""
        return ()

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
            use_cache: Whether a kept vector or result may answer.
        """
        try:
            candidates = self._remembered([query], use_cache)[0]
        except RetrievalError as error:
            return self._failed(query, error)
        return self._session(candidates, with_vector)

    def search_batch(self, queries: Sequence[str], *, use_cache: bool = True) -> list[RetrievalSession]:
        """`search` for each query, order kept, embedded in batches and searched in one round trip.

        Results are those of one-by-one searches. If the batch fails, each query is searched alone, so that one bad
        query does not spoil the others.
        """
        try:
            found = self._remembered(queries, use_cache)
        except RetrievalError as error:
            if error.transient or error.timed_out:  # asking for each alone would only multiply the requests
                return [self._failed(query, error) for query in queries]
            return [self.search(query, use_cache=use_cache) for query in queries]
        return [self._session(candidates, False) for candidates in found]

    def candidates(
        self, queries: Sequence[str], *, depth: int | None = None, use_cache: bool = True
    ) -> list[Candidates]:
        """What the search finds for each query before threshold and cut, to the candidate depth.

        Args:
            queries: Questions.
            depth: Another depth than the configured one.
            use_cache: Whether kept query vectors may be used; results are always searched for.

        Raises:
            RetrievalError: A query is unusable, or embedding or search failed.
        """
        return self._candidates(queries, depth or self.settings.candidates, use_cache)

    @bounded
    def candidates_by_vector(
        self, query: str, vector: Sequence[float], *, depth: int | None = None
    ) -> tuple[RetrievedChunk, ...]:
        """`candidates` of a query whose vector is already there (a replayed query).

        Raises:
            RetrievalError: Search or reranking failed.
        """
        encoded = self._encode(query, vector)
        with stage("search"):
            found = search.candidates(
                self.client, self.settings, [encoded], depth or self.settings.candidates, self._among
            )
        return self._reranked(query, found[0])

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Chunks of the collection without a search, by field values (see `search.scroll`)."""
        return search.scroll(self.client, self.settings, where)

    def sample(self, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Point ids and raw payloads of the collection's first points, at most `count`.

        Raises:
            StoreError: The store failed.
        """
        with store_errors(self.settings.store, self.settings.collection):
            records, _ = self.client.scroll(self.settings.collection, limit=count, with_payload=True)
        return [(str(record.id), record.payload or {}) for record in records]

    def close(self) -> None:
        """Let go of the store; an embedded one can then be opened by another process."""
        self.client.close()
        if self._vectors:
            self._vectors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found = self._remembered([query], True)[0]
        kept = self.select(found.chunks).chunks
        return [_document(chunk, self.settings.include_metadata) for chunk in kept]

    @property
    def cache_stats(self) -> Mapping[str, CacheStats]:
        """How often the caches were asked and knew: `embedding` (where there is one) and `result`."""
        found = {"embedding": self._vectors.stats} if self._vectors else {}
        return {**found, "result": self._results.stats}

    @bounded
    def _remembered(self, queries: Sequence[str], use_cache: bool) -> list[Candidates]:
        """Candidates as deep as an answer needs, kept ones where they may be used."""
        keeps = use_cache and self.settings.cache.results > 0
        start = time.perf_counter()
        kept = {query: hit for query in queries if keeps and (hit := self._results.get(query, self._version))}
        version = self._results.version
        waited = StageTimings(total_ms=(time.perf_counter() - start) * 1000 / max(1, len(queries)))
        missing = [query for query in dict.fromkeys(queries) if query not in kept]
        found = self._candidates(missing, self._depth_in_use, use_cache) if missing else []
        if keeps:
            for candidates in found:
                self._results.put(candidates.query, candidates, version)
        state = "miss" if keeps else "off"
        ready = {c.query: replace(c, cache={**c.cache, "result": state}) for c in found}
        ready |= {q: replace(c, timings=waited, cache={"embedding": "off", "result": "hit"}) for q, c in kept.items()}
        return [ready[query] for query in queries]

    def _version(self) -> Hashable:
        """What changes when the collection does: an embedded store's generation, a server's size and manifest."""
        generation = getattr(self.client, "generation", None)
        if generation:
            return str(generation(self.settings.collection))
        info = describe(self.client, self.settings)
        return info.points, json.dumps(info.manifest, sort_keys=True)

    def _embedded(self, queries: Sequence[str], use_cache: bool) -> tuple[list[list[float]], list[str]]:
        """The vectors of queries, and for each whether the cache knew it."""
        texts = [spell_out(query, self.settings.abbreviations) for query in queries]
        model = (self.settings.embedding.provider, self.settings.embedding.resolved_model, "search_query")
        cache = self._vectors if use_cache else None
        kept = {text: cache.get(*model, text) for text in dict.fromkeys(texts)} if cache else {}
        known = {text: vector for text, vector in kept.items() if vector is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        fresh = dict(zip(missing, self.embeddings.embed_queries(missing), strict=True))
        self._check_dimension([*fresh.values(), *known.values()])
        for text, vector in fresh.items() if cache else ():
            cache.put(vector, *model, text)  # type: ignore[union-attr]
        state = ["off" if cache is None else "miss" if text in fresh else "hit" for text in texts]
        vectors = known | fresh
        return [vectors[text] for text in texts], state

    @bounded
    def _candidates(self, queries: Sequence[str], depth: int, use_cache: bool) -> list[Candidates]:
        for query in queries:
            check_query(query)
        start = time.perf_counter()
        with stage("embed"):
            vectors, cached = self._embedded(queries, use_cache)
        encoded = [self._encode(query, vector) for query, vector in zip(queries, vectors, strict=True)]
        embedded = time.perf_counter()
        with stage("search"):
            found = search.candidates(self.client, self.settings, encoded, depth, self._among)
        searched = time.perf_counter()
        chunks = [self._reranked(query, candidates) for query, candidates in zip(queries, found, strict=True)]
        end = time.perf_counter()
        reranks = self.settings.rerank in ("cross-encoder", "mmr")
        searched = searched if reranks else end
        share = 1000 / max(1, len(queries))
        timings = StageTimings(
            embed_ms=(embedded - start) * share,
            search_ms=(searched - embedded) * share,
            rerank_ms=(end - searched) * share if reranks else None,
            total_ms=(end - start) * share,
        )
        return [
            Candidates(query=query, chunks=ranked, timings=timings, vector=tuple(vector), cache={"embedding": state})
            for query, ranked, vector, state in zip(queries, chunks, vectors, cached, strict=True)
        ]

    @property
    def _depth_in_use(self) -> int:
        """How deep a search must go for its own answer: to `top_k` where threshold and cut read the order itself."""
        settings = self.settings
        plain = settings.mode == "semantic" and settings.rerank == "none" and settings.group_by is None
        return settings.top_k if plain else settings.candidates

    def select(self, candidates: Sequence[RetrievedChunk]) -> Selection:
        """What threshold, grouping and cut leave of candidates."""
        settings = self.settings
        return select(
            candidates, settings.top_k, settings.threshold, on=settings.threshold_on, group_by=settings.group_by
        )

    def _encode(self, query: str, vector: Sequence[float]) -> EncodedQuery:
        if self.settings.mode == "semantic":
            return EncodedQuery(vector=vector)
        keyword = self.settings.keyword
        terms = self._encoder.query(query, expand(query, keyword.synonyms), keyword.synonym_weight)
        return EncodedQuery(vector=vector, terms=terms)

    def _reranked(self, query: str, candidates: tuple[RetrievedChunk, ...]) -> tuple[RetrievedChunk, ...]:
        if not candidates:
            return candidates
        if self._reranker:
            with stage("rerank"):
                moved = rerank(self._reranker, query, candidates)
            if self.settings.threshold_on == "final" and any(found.score_scale != "rerank" for found in moved):
                raise RerankError("the cross-encoder gives no scores, which threshold_on: final would read")
            return moved
        if self.settings.rerank == "mmr":
            with stage("rerank"):
                vectors = search.vectors_of(self.client, self.settings, candidates)
            return diversify(candidates, vectors, self.settings.mmr_lambda)
        return candidates

    def _check_dimension(self, vectors: Sequence[Sequence[float]]) -> None:
        for vector in vectors:
            if len(vector) != self._info.dimension:
                name = f"{self.settings.embedding.provider}:{self.settings.embedding.resolved_model}"
                raise EmbeddingMismatchError(
                    f"collection {self._info.name!r} holds vectors of {self._info.dimension} dimensions, "
                    f"but {name} made one of {len(vector)}"
                )

    def _session(self, found: Candidates, with_vector: bool) -> RetrievalSession:
        top_k, threshold = self.settings.top_k, self.settings.threshold
        selection = self.select(found.chunks)
        return RetrievalSession(
            session_id=uuid.uuid4().hex,
            query=found.query,
            parameters=self._parameters(),
            status="success",
            chunks=selection.chunks,
            below_threshold=selection.below_threshold,
            candidates_found=len(found.chunks),
            filtered_out=selection.filtered_out,
            embedding=self._embedding(found.vector if with_vector else None),
            timings=found.timings,
            cache=found.cache,
            confidence=confidence.confidence(selection.chunks, top_k, threshold),
            warnings=confidence.warnings(selection, threshold),
            suggestions=confidence.suggestions(selection, keyword_side=self._could_be_hybrid),
        )

    def _failed(self, query: str, error: RetrievalError) -> RetrievalSession:
        blank = isinstance(error, QueryError) and not query.strip()
        if not isinstance(error, QueryError):
            known = {"query": query, "collection": self.settings.collection}
            log.error("search failed: %s", error, extra={**known, "stage": error.stage, "attempt": error.attempts})
        return RetrievalSession(
            session_id=uuid.uuid4().hex,
            query=query,
            parameters=self._parameters(),
            status="success" if blank else "timeout" if error.timed_out else "error",
            error=None if blank else str(error),
            warnings=(str(error),) if blank else (),
            embedding=self._embedding(None),
        )

    @property
    def _could_be_hybrid(self) -> bool:
        return self.settings.mode == "semantic" and self.settings.keyword.vector_name in self._info.sparse_vectors

    def _parameters(self) -> dict[str, Any]:
        settings = self.settings
        always = ("collection", "mode", "top_k", "threshold", "candidates")
        known = {key: getattr(settings, key) for key in always}
        if settings.mode == "hybrid":
            known["fusion"] = settings.used_fusion
        chosen = {"rerank": settings.rerank, "threshold_on": settings.threshold_on}
        known |= {key: value for key, value in chosen.items() if value not in ("none", "semantic")}
        return known | {k: getattr(settings, k) for k in ("filters", "group_by") if getattr(settings, k) is not None}

    def _embedding(self, vector: tuple[float, ...] | None) -> dict[str, Any]:
        config = self.settings.embedding
        known = {"provider": config.provider, "model": config.resolved_model, "dimension": self._info.dimension}
        return known if vector is None else {**known, "vector": vector}


def check_query(query: str) -> None:
    """Refuse a query that cannot be searched for.

    Raises:
        QueryError: It is blank, or longer than 512 words or 4,000 characters, or no text that can be written.
    """
    if not query.strip():
        raise QueryError("the query is empty; expected a question or some words")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise QueryError(f"the query holds half a character at place {error.start} (a lone surrogate)") from None
    words = len(query.split())
    if words > MAX_QUERY_WORDS or len(query) > MAX_QUERY_CHARACTERS:
        raise QueryError(
            f"the query is too long: {words} words and {len(query)} characters; "
            f"at most {MAX_QUERY_WORDS} words and {MAX_QUERY_CHARACTERS} characters"
        )


def _document(found: RetrievedChunk, include_metadata: bool) -> Document:
    metadata: dict[str, Any] = {"score": found.score, "score_scale": found.score_scale, "rank": found.rank}
    if include_metadata:
        metadata = {**to_metadata(found.chunk), **metadata, "scores": dict(found.scores)}
        if found.original_rank is not None:
            metadata |= {"original_rank": found.original_rank, "original_score": found.original_score}
    return Document(id=found.chunk.point_id, page_content=found.chunk.text, metadata=metadata)
