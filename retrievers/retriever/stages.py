"""What is done with queries: embed, search, rerank, select; timed, and begun again when the collection changed."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.embedding.cache import EmbeddingCache
from retrievers.embedding.sparse import QueryEncoder
from retrievers.errors import CollectionChangedError
from retrievers.net.deadline import stage
from retrievers.net.patience import working_time
from retrievers.records import RetrievalSession, StageTimings
from retrievers.rerank.reranking import Pool, Rerank
from retrievers.retriever.session import answered
from retrievers.search.candidate_table import Candidates, CandidateTable
from retrievers.search.parameters import beam_of, rescores
from retrievers.search.query import Encoded, check_query, cosines_with, embedded, encode
from retrievers.search.retrieved import check_scale, chosen_codes, every_place, ordered, reordered, shown
from retrievers.search.sides import Search
from retrievers.search.table_builder import joined
from retrievers.store import CollectionInfo
from retrievers.store.chunk_table import ChunkTable
from retrievers.store.stored_chunks import vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

TRIES = 3
Result = TypeVar("Result")
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """An opened collection, the settings and the models; holds nothing of one query."""

    settings: RetrieverConfig
    embeddings: Embeddings
    client: "QdrantClient"
    info: CollectionInfo
    encoder: QueryEncoder
    among: "models.Filter | None"
    rerank: Rerank | None
    vectors: EmbeddingCache | None

    def candidates(
        self, queries: Sequence[str], depth: int, use_cache: bool, chunks: ChunkTable | None = None
    ) -> CandidateTable:
        """Return all candidates of each query to a depth, reranked.

        Args:
            queries: Questions.
            depth: Candidates of each.
            use_cache: Use kept query vectors.
            chunks: The chunks that earlier calls found; those that are not among them are read.

        Raises:
            RetrievalError: A query is unusable, or a step failed.
        """
        chunks = chunks if chunks is not None else ChunkTable(self.client, self.settings)
        return self._run(
            queries,
            use_cache,
            chunks,
            lambda encoded: ordered(self._search(depth, chunks).find(encoded), depth, chunks, every_place),
            lambda candidates, encoded: self._reranked(queries, encoded, candidates, chunks),
        )

    def sessions(self, queries: Sequence[str], use_cache: bool) -> list[RetrievalSession]:
        """Return what threshold, grouping and cut leave of each query's candidates, reading few chunks.

        Raises:
            RetrievalError: A query is unusable, or a step failed.
        """
        config, chunks = self.settings, ChunkTable(self.client, self.settings)
        reads_all = config.reranker.needs_texts or config.reranker.scale or config.group_by is not None
        # Threshold and cut read the order of a semantic search itself: what is beyond `top_k` is not needed.
        plain = config.mode == "semantic" and not self.rerank and not reads_all
        # A longer list of quantised scores is rescored further down, which changes its beginning.
        shallow = plain and not rescores(config, self.info)
        beam = beam_of(config, self.info) if shallow else None
        # Payloads that come along spare a search on a server further round trips.
        payloads = shallow or (self.rerank is not None and not reads_all and config.store.url is not None)

        def answer(candidates: Candidates) -> list[int]:
            return shown(candidates, config)

        def search(encoded: Sequence[Encoded]) -> list[Candidates]:
            depth = config.top_k if shallow else config.candidates
            table = self._search(depth, chunks, payloads=payloads, beam=beam).find(encoded)
            return ordered(table, depth, chunks, every_place if reads_all else None if self.rerank else answer)

        def finish(candidates: list[Candidates], encoded: Sequence[Encoded]) -> list[Candidates]:
            moved = self._reranked(queries, encoded, candidates, chunks)
            if self.rerank and not reads_all:
                chunks.read(chosen_codes(moved, answer))
            return moved

        return [answered(each, config, self.info) for each in self._run(queries, use_cache, chunks, search, finish)]

    def neighbours(
        self, vectors: Sequence[Sequence[float]], search: Mapping[str, Any] | None, depth: int, chunks: ChunkTable
    ) -> CandidateTable:
        """Return the points nearest to vectors, with all that tie with the last.

        Raises:
            RetrievalError: The search failed.
        """
        config = self.settings.model_copy(update={"mode": "semantic", "search_params": search})
        searcher = replace(self._search(depth, chunks), config=config)
        with stage("search"):
            return _settled(lambda: searcher.find([{"semantic": [*map(float, vector)]} for vector in vectors]))

    def _run(
        self,
        queries: Sequence[str],
        use_cache: bool,
        chunks: ChunkTable,
        search: Callable[[Sequence[Encoded]], list[Candidates]],
        finish: Callable[[list[Candidates], Sequence[Encoded]], list[Candidates]],
    ) -> CandidateTable:
        """Embed queries, search for them, finish, and time the stages.

        Args:
            queries: Questions.
            use_cache: Use kept query vectors.
            chunks: The chunks that are found.
            search: Searches for the encoded queries.
            finish: Reranks and reads what is shown; without a reranker a part of the search.
        """
        for query in queries:
            check_query(query)
        start = working_time()
        with stage("embed"):
            cache = self.vectors if use_cache else None
            vectors, cached = embedded(queries, self.settings, self.info, self.embeddings, cache)
        encoded = [encode(*each, self.settings, self.encoder) for each in zip(queries, vectors, strict=True)]
        ready = working_time()

        def search_and_finish() -> tuple[list[Candidates], float]:
            with stage("search"):
                candidates = search(encoded)
                if not self.rerank:
                    return finish(candidates, encoded), working_time()
            searched = working_time()
            with stage("rerank"):
                return finish(candidates, encoded), searched

        results, searched = _settled(search_and_finish)
        end = working_time() if self.rerank else searched
        share, now = 1000 / max(1, len(queries)), datetime.now(UTC)
        states = {state: {"embedding": state} for state in cached}
        timings = StageTimings(
            embed_ms=(ready - start) * share,
            search_ms=(searched - ready) * share,
            rerank_ms=(end - searched) * share if self.rerank else None,
            total_ms=(end - start) * share,
        )
        return replace(
            joined([each.alone() for each in results], chunks),
            texts=tuple(queries),
            timings=(timings,) * len(queries),
            vectors=tuple(np.asarray(vector, dtype=np.float32) for vector in vectors),
            caches=tuple(states[state] for state in cached),
            retrieved_at=(now,) * len(queries),
        )

    def _reranked(
        self, queries: Sequence[str], encoded: Sequence[Encoded], candidates: Sequence[Candidates], chunks: ChunkTable
    ) -> list[Candidates]:
        return [self._in_new_order(*each, chunks) for each in zip(queries, encoded, candidates, strict=True)]

    def _search(self, depth: int, chunks: ChunkTable, *, payloads: bool = False, beam: int | None = None) -> Search:
        return Search(
            client=self.client,
            config=self.settings,
            depth=depth,
            chunks=chunks,
            among=self.among,
            payloads=payloads,
            limits=self.info.limits,
            beam=beam,
        )

    def _in_new_order(self, query: str, encoded: Encoded, candidates: Candidates, chunks: ChunkTable) -> Candidates:
        """Rerank candidates; the reranker is given what it declares that it reads."""
        if not (self.rerank and len(candidates)):
            return candidates
        reranker, codes = self.settings.reranker, candidates.codes
        with stage("rerank"):
            vectors = vectors_of(self.client, self.settings, chunks.given(codes)) if reranker.needs_vectors else None
            cosines = candidates.column("semantic") if candidates.distance == "cosine" else np.empty(0)
            if vectors is not None and candidates.distance != "cosine":
                cosines = cosines_with(encoded["semantic"], vectors)
            pool = Pool(
                query=query,
                cosines=cosines.tolist(),
                texts=[chunks[code].indexed_text for code in codes.tolist()] if reranker.needs_texts else (),
                vectors=vectors,
            )
            moved = reordered(candidates, self.rerank(pool), reranker.scale, chunks)
        if reranker.scale and self.settings.threshold_on == "final":
            check_scale(moved, self.settings.rerank)
        return moved


def _settled(find: Callable[[], Result]) -> Result:
    """Search again when the collection was written to between two requests of one search, a few times at most."""
    for _ in range(TRIES - 1):
        try:
            return find()
        except CollectionChangedError as error:
            log.info("%s", error)
    return find()
