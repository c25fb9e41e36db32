"""What is done with queries: embed, search, rerank, select; timed, and begun anew when the collection changed."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.cache import EmbeddingCache
from retrievers.errors import CollectionChangedError
from retrievers.net.deadline import stage
from retrievers.net.patience import working_time
from retrievers.records import Candidates, RetrievedChunk, StageTimings
from retrievers.rerank.cross_encoder import Reranker, check_scale, rerank
from retrievers.rerank.mmr import Pick, diversify, mmr_order
from retrievers.search import retrieved as results
from retrievers.search.query import EncodedQuery, check_query, embedded, encode
from retrievers.search.ranking import Ranking
from retrievers.search.selection import Cut, Selection, cut, select
from retrievers.search.sides import Search
from retrievers.store import CollectionInfo
from retrievers.store.stored_chunks import Chunks, vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

TRIES = 3
Result = TypeVar("Result")
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a query is answered with: a selection, of how many candidates, and how it came about."""

    query: str
    selection: Selection
    candidates_found: int
    timings: StageTimings
    vector: tuple[float, ...] | None = None
    cache: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Done(Generic[Result]):
    """What was found for each query, and when the search for all of them had ended and reranking began."""

    found: list[Result]
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
    reranker: Reranker | None
    vectors: EmbeddingCache | None

    def candidates(self, queries: Sequence[str], depth: int, use_cache: bool) -> list[Candidates]:
        """All candidates of each query to a depth, reranked.

        Raises:
            RetrievalError: A query is unusable, or a step failed.
        """
        done = self._run(queries, use_cache, lambda encoded: self._reranked(queries, encoded, depth))
        return [Candidates(chunks=found, **told) for found, told in done]

    def answers(self, queries: Sequence[str], use_cache: bool) -> list[Answer]:
        """What threshold, grouping and cut leave of each query's candidates: the same as of all of them, in less time.

        Raises:
            RetrievalError: A query is unusable, or a step failed.
        """
        needs_all = self.reranker or self.settings.group_by is not None
        by_scores = self._selected_by_mmr if self.settings.rerank == "mmr" else self._selected
        find = self._selected_of_all if needs_all else by_scores
        done = self._run(queries, use_cache, lambda encoded: find(queries, encoded))
        return [Answer(selection=chosen, candidates_found=count, **told) for (chosen, count), told in done]

    def replay(self, query: str, vector: Sequence[float], depth: int) -> tuple[RetrievedChunk, ...]:
        """The candidates of a query whose vector is there.

        Raises:
            RetrievalError: Search or reranking failed.
        """
        encoded = encode(query, vector, self.settings, self.encoder)
        return _settled(lambda: self._reranked([query], [encoded], depth)).found[0]

    def select(self, candidates: Sequence[RetrievedChunk]) -> Selection:
        """What threshold, grouping and cut leave of candidates."""
        config = self.settings
        return select(candidates, config.top_k, config.threshold, on=config.threshold_on, group_by=config.group_by)

    def _run(
        self, queries: Sequence[str], use_cache: bool, find: Callable[[Sequence[EncodedQuery]], _Done[Result]]
    ) -> list[tuple[Result, dict[str, Any]]]:
        """What is found for each query, and what is to be told of it: query, timings, vector, cache."""
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
        searched = done.searched if self._reranks else end
        share = 1000 / max(1, len(queries))
        timings = StageTimings(
            embed_ms=(ready - start) * share,
            search_ms=(searched - ready) * share,
            rerank_ms=(end - searched) * share if self._reranks else None,
            total_ms=(end - start) * share,
        )
        return [
            (found, {"query": query, "timings": timings, "vector": tuple(vector), "cache": {"embedding": state}})
            for found, query, vector, state in zip(done.found, queries, vectors, cached, strict=True)
        ]

    @property
    def _reranks(self) -> bool:
        return self.settings.rerank in ("cross-encoder", "mmr")

    def _reranked(
        self, queries: Sequence[str], encoded: Sequence[EncodedQuery], depth: int
    ) -> _Done[tuple[RetrievedChunk, ...]]:
        with stage("search"):
            search = self._search(depth, whole=True)
            found = results.candidates(search.rankings(encoded), search.chunks)
        searched = working_time()
        reranked = [self._rerank(query, chunks) for query, chunks in zip(queries, found, strict=True)]
        return _Done(found=reranked, searched=searched)

    def _selected_of_all(self, queries: Sequence[str], encoded: Sequence[EncodedQuery]) -> _Done[tuple[Selection, int]]:
        done = self._reranked(queries, encoded, self.settings.candidates)
        chosen = [(self.select(chunks), len(chunks)) for chunks in done.found]
        return _Done(found=chosen, searched=done.searched)

    def _selected(self, _: Sequence[str], encoded: Sequence[EncodedQuery]) -> _Done[tuple[Selection, int]]:
        """To the depth of `top_k` where threshold and cut read the order itself."""
        config = self.settings
        shallow = config.mode == "semantic"
        with stage("search"):
            search = self._search(config.top_k if shallow else config.candidates, whole=shallow)
            chosen = results.selections(search.rankings(encoded), search.chunks, self._cut, config.threshold_on)
        return _Done(found=chosen, searched=working_time())

    def _selected_by_mmr(self, _: Sequence[str], encoded: Sequence[EncodedQuery]) -> _Done[tuple[Selection, int]]:
        """By scores and stored vectors; reranking then reads the chunks that are shown and no others."""
        with stage("search"):
            remote = self.settings.store.url is not None  # payloads that come along spare it further round trips
            search = self._search(self.settings.candidates, whole=remote)
            rankings = search.rankings(encoded)
            orders = results.total_orders(rankings, search.chunks)
        searched = working_time()
        with stage("rerank"):
            picks = [self._picks(*each) for each in zip(rankings, orders, strict=True)]
            on = self.settings.threshold_on
            chosen = results.diversified(rankings, orders, picks, search.chunks, self._cut, on)
        return _Done(found=chosen, searched=searched)

    def _picks(self, ranking: Ranking, order: Sequence[str]) -> list[Pick]:
        cosines = [ranking.components["semantic"][point] for point in order]
        return mmr_order(cosines, vectors_of(self.client, self.settings, order), self.settings.mmr_lambda)

    def _cut(self, scores: Sequence[float]) -> Cut:
        return cut(scores, self.settings.top_k, self.settings.threshold)

    def _search(self, depth: int, *, whole: bool) -> Search:
        chunks = Chunks(self.client, self.settings)
        return Search(
            client=self.client,
            config=self.settings,
            depth=depth,
            chunks=chunks,
            among=self.among,
            whole=whole,
            limits=self.info.limits,
        )

    def _rerank(self, query: str, candidates: tuple[RetrievedChunk, ...]) -> tuple[RetrievedChunk, ...]:
        if not candidates:
            return candidates
        if self.reranker:
            with stage("rerank"):
                moved = rerank(self.reranker, query, candidates)
            if self.settings.threshold_on == "final":
                check_scale(moved)
            return moved
        if self.settings.rerank == "mmr":
            with stage("rerank"):
                vectors = vectors_of(self.client, self.settings, [found.chunk.point_id for found in candidates])
            return diversify(candidates, vectors, self.settings.mmr_lambda)
        return candidates


def _settled(find: Callable[[], Result]) -> Result:
    """Search anew when the collection was written to between two requests of one search, a few times at most."""
    for _ in range(TRIES - 1):
        try:
            return find()
        except CollectionChangedError as error:
            log.info("%s", error)
    return find()
