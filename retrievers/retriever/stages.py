"""What is done with queries: embed, search, rerank, select; timed, and begun again when the collection changed."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import QueryEncoder
from retrievers.embedding.cache import EmbeddingCache
from retrievers.errors import CollectionChangedError, RerankError
from retrievers.net.retry import working_time
from retrievers.records import RetrievalSession, ScoreScale, StageTimings
from retrievers.rerank.reranking import Pool, Rerank, Reranking
from retrievers.retriever.session import answered
from retrievers.search.candidate_table import Candidates, CandidateTable
from retrievers.search.query import Encoded, check_query, cosines_with, embedded, encode
from retrievers.search.ranking import Floats, in_order, tied
from retrievers.search.selection import BELOW_SHOWN, cut, read_by_threshold
from retrievers.search.sides import Search
from retrievers.search.table_builder import joined, one_query
from retrievers.store import CollectionInfo
from retrievers.store.chunk_table import ChunkTable
from retrievers.store.stored_chunks import vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Shown = Callable[[Candidates], Iterable[int]]
"""Candidates in their order to the places of those whose chunks are shown."""
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

        def answer(candidates: Candidates) -> list[int]:
            return shown(candidates, config)

        def search(encoded: Sequence[Encoded]) -> list[Candidates]:
            table = self._search(config.candidates, chunks).find(encoded)
            return ordered(
                table, config.candidates, chunks, every_place if reads_all else None if self.rerank else answer
            )

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
        cache = self.vectors if use_cache else None
        vectors, cached = embedded(queries, self.settings, self.info, self.embeddings, cache)
        encoded = [encode(*each, self.settings, self.encoder) for each in zip(queries, vectors, strict=True)]
        ready = working_time()

        def search_and_finish() -> tuple[list[Candidates], float]:
            candidates = search(encoded)
            searched = working_time()
            results = finish(candidates, encoded)
            return results, searched if self.rerank else working_time()

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

    def _search(self, depth: int, chunks: ChunkTable) -> Search:
        return Search(
            client=self.client,
            config=self.settings,
            depth=depth,
            chunks=chunks,
            among=self.among,
            limits=self.info.limits,
        )

    def _in_new_order(self, query: str, encoded: Encoded, candidates: Candidates, chunks: ChunkTable) -> Candidates:
        """Rerank candidates; the reranker is given what it declares that it reads."""
        if not (self.rerank and len(candidates)):
            return candidates
        reranker, codes = self.settings.reranker, candidates.codes
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


def every_place(candidates: Candidates) -> range:
    """Return the places of all candidates."""
    return range(len(candidates))


def shown(candidates: Candidates, config: RetrieverConfig) -> list[int]:
    """Return the places that an answer shows: of what it returns, and of the best below the threshold."""
    scores = candidates.column("score" if config.threshold_on == "final" else "semantic")
    kept, below = cut(read_by_threshold(scores, config.threshold_on).tolist(), config.top_k, config.least)
    return [*kept, *below[:BELOW_SHOWN]]


def ordered(table: CandidateTable, depth: int, chunks: ChunkTable, shown: Shown | None = None) -> list[Candidates]:
    """Return the best candidates of each query in the total order (score descending, then chunk id ascending).

    Chunks are read in one request: those of candidates that tie, and those that are shown. The total order only moves
    candidates of equal score among themselves, so what is shown by it has then been read.

    Args:
        table: The candidates of each query, in any order.
        depth: Largest number of candidates of a query.
        chunks: Their chunks.
        shown: Says which candidates are shown; None for no candidate.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    rows = [(row, row.codes, row.scores) for row in table]
    # Equal scores in any order: those all tie, and are read.
    by_score = [row.at(in_order(codes, scores, depth, None, chunks.name)) for row, codes, scores in rows]
    further = chosen_codes(by_score, shown) if shown else []
    places = [tied(scores, depth, every_place=True) for _, _, scores in rows]
    undecided = [code for (_, codes, _), at in zip(rows, places, strict=True) for code in codes[at].tolist()]
    chunks.read([*undecided, *further])
    return [
        row.at(in_order(codes, scores, depth, at, chunks.name))
        for (row, codes, scores), at in zip(rows, places, strict=True)
    ]


def chosen_codes(candidates: Sequence[Candidates], shown: Shown) -> list[int]:
    """Return the chunks of each query's candidates that are shown, by number."""
    return [code for each in candidates for code in each.at([*shown(each)]).codes.tolist()]


def reordered(candidates: Candidates, reranking: Reranking, scale: ScoreScale | None, chunks: ChunkTable) -> Candidates:
    """Put candidates into a reranker's order; each keeps its rank and score from before.

    Args:
        candidates: The candidates, in the order that was reranked.
        reranking: Their new order.
        scale: The scale of its scores; None where candidates keep the scores of the search.
        chunks: Their chunks, which have been read where the reranker gives scores.
    """
    order = np.asarray(reranking.order, dtype=np.intp)
    moved = candidates.at(order)
    codes, scores = moved.codes, moved.scores
    columns: dict[str, Floats] = {
        **moved.columns,
        "original_rank": order.astype(np.float64) + 1,
        "original_score": scores,
        **{name: np.asarray(values, dtype=np.float64) for name, values in reranking.components.items()},
    }
    if scale is None or not reranking.scores or None in reranking.scores:
        return one_query(codes, scores, columns, chunks, scale=moved.scale, distance=moved.distance)[0]
    scores = np.asarray(reranking.scores, dtype=np.float64)
    table = one_query(codes, scores, {**columns, "rerank": scores}, chunks, scale=scale, distance=moved.distance)
    every = np.arange(len(order))
    return table[0].at(in_order(codes, scores, len(order), every, chunks.name))


def check_scale(candidates: Candidates, name: str) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the scores of the reranker `name`.

    Raises:
        RerankError: It gives none, or some outside of 0 to 1, as a model does that returns logits.
    """
    if "rerank" not in candidates.table.columns:
        raise RerankError(f"the {name} gives no scores, which threshold_on: final would read")
    outside = [score for score in candidates.scores.tolist() if not 0 <= score <= 1]
    if outside:
        raise RerankError(
            f"the {name}'s scores are not within 0 and 1 (one is {outside[0]:g}), so threshold_on: final has no "
            "meaning; use threshold_on: each, or a model that returns probabilities"
        )
