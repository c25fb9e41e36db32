"""What is done with queries: embed, search, rerank, select; timed, and begun again when the collection changed."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.cache import EmbeddingCache
from retrievers.errors import CollectionChangedError
from retrievers.net.deadline import stage
from retrievers.net.patience import working_time
from retrievers.records import RetrievedChunk, StageTimings
from retrievers.rerank.reranking import Pool, Rerank
from retrievers.search.candidate_table import CandidateTable, SearchedQuery, TableBuilder
from retrievers.search.query import EncodedQuery, check_query, embedded, encode
from retrievers.search.ranking import FusedScores
from retrievers.search.retrieved import check_scale, chosen, hits, ordered, reordered, selections
from retrievers.search.selection import Cut, Selection, cut, select
from retrievers.search.sides import Search
from retrievers.store import CollectionInfo
from retrievers.store.chunk_table import ChunkTable
from retrievers.store.stored_chunks import vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

TRIES = 3
Result = TypeVar("Result")
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Answer to a query: a selection, the number of candidates it is from, and the circumstances of the search."""

    query: str
    selection: Selection
    candidates_found: int
    timings: StageTimings
    vector: tuple[float, ...] | None = None
    cache: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Done(Generic[Result]):
    """A result for each query, and the time at which the search for all of them had ended and reranking began."""

    results: list[Result]
    searched: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """An opened collection, the settings and the models; holds nothing of one query."""

    settings: RetrieverConfig
    embeddings: Embeddings
    client: "QdrantClient"
    info: CollectionInfo
    encoder: Bm25Encoder
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
        results = self._run(queries, use_cache, lambda encoded: self._reranked(queries, encoded, depth, chunks))
        builder = TableBuilder(chunks)
        for found, query in results:
            builder.add(query, found.scale, found.codes, found.scores, found.components)
        return builder.table()

    def answers(self, queries: Sequence[str], use_cache: bool) -> list[Answer]:
        """Return what threshold, grouping and cut leave of each query's candidates: of all of them, in less time.

        Raises:
            RetrievalError: A query is unusable, or a step failed.
        """
        reranker = self.settings.reranker
        needs_all = reranker.needs_texts or reranker.scale or self.settings.group_by is not None
        by_scores = self._selected_by_order if self.rerank else self._selected
        find = self._selected_of_all if needs_all else by_scores
        return [
            Answer(
                query=query.query,
                selection=chosen,
                candidates_found=count,
                timings=query.timings,
                vector=None if query.vector is None else tuple(query.vector.tolist()),
                cache=query.cache,
            )
            for (chosen, count), query in self._run(queries, use_cache, lambda encoded: find(queries, encoded))
        ]

    def replay(self, query: str, vector: Sequence[float], depth: int) -> tuple[RetrievedChunk, ...]:
        """Return the candidates of a query whose vector is known.

        Raises:
            RetrievalError: Search or reranking failed.
        """
        encoded = encode(query, vector, self.settings, self.encoder)
        chunks = ChunkTable(self.client, self.settings)
        [found] = _settled(lambda: self._reranked([query], [encoded], depth, chunks)).results
        return hits(found, chunks)

    def select(self, candidates: Sequence[RetrievedChunk]) -> Selection:
        """Return what threshold, grouping and cut leave of candidates."""
        config = self.settings
        return select(candidates, config.top_k, config.threshold, on=config.threshold_on, group_by=config.group_by)

    def _run(
        self, queries: Sequence[str], use_cache: bool, find: Callable[[Sequence[EncodedQuery]], _Done[Result]]
    ) -> list[tuple[Result, SearchedQuery]]:
        """Embed queries, find a result for each, and time the stages."""
        for query in queries:
            check_query(query)
        start = working_time()
        with stage("embed"):
            cache = self.vectors if use_cache else None
            vectors, cached = embedded(queries, self.settings, self.info, self.embeddings, cache)
        encoded = [encode(*each, self.settings, self.encoder) for each in zip(queries, vectors, strict=True)]
        ready = working_time()
        done = _settled(lambda: find(encoded))
        end = working_time()
        searched = done.searched if self.rerank else end
        share, now = 1000 / max(1, len(queries)), datetime.now(UTC)
        timings = StageTimings(
            embed_ms=(ready - start) * share,
            search_ms=(searched - ready) * share,
            rerank_ms=(end - searched) * share if self.rerank else None,
            total_ms=(end - start) * share,
        )
        return [
            (
                result,
                SearchedQuery(
                    query=query,
                    timings=timings,
                    vector=np.asarray(vector, dtype=np.float32),
                    cache={"embedding": state},
                    retrieved_at=now,
                ),
            )
            for result, query, vector, state in zip(done.results, queries, vectors, cached, strict=True)
        ]

    def _reranked(
        self, queries: Sequence[str], encoded: Sequence[EncodedQuery], depth: int, chunks: ChunkTable
    ) -> _Done[FusedScores]:
        with stage("search"):
            found = ordered(self._search(depth, chunks).find(encoded), chunks, whole=True)
        searched = working_time()
        moved = [self._in_new_order(query, scores, chunks) for query, scores in zip(queries, found, strict=True)]
        return _Done(results=moved, searched=searched)

    def _selected_of_all(self, queries: Sequence[str], encoded: Sequence[EncodedQuery]) -> _Done[tuple[Selection, int]]:
        chunks = ChunkTable(self.client, self.settings)
        done = self._reranked(queries, encoded, self.settings.candidates, chunks)
        candidates = [hits(found, chunks) for found in done.results]
        return _Done(results=[(self.select(each), len(each)) for each in candidates], searched=done.searched)

    def _selected(self, _: Sequence[str], encoded: Sequence[EncodedQuery]) -> _Done[tuple[Selection, int]]:
        """Search to the depth of `top_k` where threshold and cut read the order itself."""
        config, chunks = self.settings, ChunkTable(self.client, self.settings)
        shallow = config.mode == "semantic"
        with stage("search"):
            search = self._search(config.top_k if shallow else config.candidates, chunks, payloads=shallow)
            results = selections(search.find(encoded), chunks, self._cut, config.threshold_on)
        return _Done(results=results, searched=working_time())

    def _selected_by_order(
        self, queries: Sequence[str], encoded: Sequence[EncodedQuery]
    ) -> _Done[tuple[Selection, int]]:
        """Rerank by scores and stored vectors; then only the chunks that are shown are read."""
        chunks = ChunkTable(self.client, self.settings)
        with stage("search"):
            remote = self.settings.store.url is not None  # payloads that come along spare it further round trips
            found = ordered(self._search(self.settings.candidates, chunks, payloads=remote).find(encoded), chunks)
        searched = working_time()
        with stage("rerank"):
            moved = [self._in_new_order(query, scores, chunks) for query, scores in zip(queries, found, strict=True)]
            results = chosen(moved, chunks, self._cut, self.settings.threshold_on)
        return _Done(results=results, searched=searched)

    def _cut(self, scores: Sequence[float]) -> Cut:
        return cut(scores, self.settings.top_k, self.settings.threshold)

    def _search(self, depth: int, chunks: ChunkTable, *, payloads: bool = False) -> Search:
        return Search(
            client=self.client,
            config=self.settings,
            depth=depth,
            chunks=chunks,
            among=self.among,
            payloads=payloads,
            limits=self.info.limits,
        )

    def _in_new_order(self, query: str, found: FusedScores, chunks: ChunkTable) -> FusedScores:
        """Rerank candidates; the reranker is given what it declares that it reads."""
        if not (self.rerank and len(found.codes)):
            return found
        reranker, codes = self.settings.reranker, found.codes
        with stage("rerank"):
            pool = Pool(
                query=query,
                cosines=found.components["semantic"].tolist(),
                texts=[chunks[code].text for code in codes.tolist()] if reranker.needs_texts else (),
                vectors=vectors_of(self.client, self.settings, chunks.given(codes)) if reranker.needs_vectors else None,
            )
            moved = reordered(found, self.rerank(pool), reranker.scale, chunks)
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
