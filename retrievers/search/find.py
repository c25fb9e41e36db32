"""Search Qdrant by meaning, by keywords, or by both, and fuse the two sides into one total order of candidates.

Both sides are searched to the same depth. The results are matrices, with a row for each query. A search returns the ids
and scores of points; payloads are read later, only for the chunks that an answer needs. In every mode each candidate
gets the score of its vector, such as a cosine, because the threshold reads it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from langchain_core.utils import batch_iterate

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.search.candidates import Candidates, Floats, Integers, SearchFacts, laid_out
from retrievers.search.query import Encoded, Vector
from retrievers.store.chunks import ChunkTable, Codes, changed, vectors_of
from retrievers.store.opening import store_errors

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Requests: TypeAlias = "Mapping[str, models.QueryRequest]"
"""The requests of one query, by side."""
RRF = 60.0
"""The constant of reciprocal rank fusion, as its authors propose."""
BATCH = 32
"""Most searches in one request. Servers in strict mode take as many."""
NOTHING = (np.empty(0, np.int32), np.empty(0))


@dataclass(frozen=True, slots=True)
class Search:
    """Searches in the configured mode.

    Attributes:
        client: An open client.
        config: Names the collection, its vectors, the mode and the fusion.
        depth: Most candidates of a query, and of each side.
        chunks: The chunks that were found so far.
        among: A condition that every candidate must meet.
    """

    client: "QdrantClient"
    config: RetrieverConfig
    depth: int
    chunks: ChunkTable
    among: "models.Filter | None"

    def find(self, queries: Sequence[Encoded]) -> Candidates:
        """Find candidates for each query.

        One request searches all sides. Another one asks for the scores that a candidate lacks since only the other side
        found it.

        Raises:
            CollectionChangedError: The collection was written to meanwhile.
            StoreError: A candidate has no vector, and so no cosine; or the store failed.
        """
        config = self.config
        requests = [{side: self._request(side, vector) for side, vector in query.items()} for query in queries]
        with store_errors(config.store, config.collection):
            sides = self._sides(requests)
            of_sides = np.concatenate([side.codes for side in sides.values()], axis=1)
            codes = laid_out([np.unique(row)[::-1] for row in of_sides], -1)
            columns = {"semantic": np.full(codes.shape, np.nan)}
            columns |= {name: _laid(codes, side.codes, side.columns["score"]) for name, side in sides.items()}
            self._fill(columns, codes, requests)
            columns["score"] = np.where(codes < 0, np.nan, self._final(codes, columns, sides))
            if config.mode == "hybrid":
                columns["keyword"][columns["keyword"] == 0] = np.nan
                columns["fused"] = columns["score"]
            weights = [None if config.mode == "semantic" else sum(_weights(query).values()) for query in queries]
            facts = [
                SearchFacts(scale=config.search_scale, query_weight=weight, known_words=share)
                for weight, share in zip(weights, self._known_words(queries), strict=True)
            ]
            table = Candidates(codes=codes, columns=columns, chunks=self.chunks, facts=facts)
            order = in_order(codes, columns["score"], self.chunks)
            return table.at(order[:, : min(self.depth, table.lengths.max(initial=0))])

    def _known_words(self, queries: Sequence[Encoded]) -> list[float | None]:
        """Search for each word. Return the share of each query's words that some chunk has, 0 if it has no words."""
        from qdrant_client import models

        if self.config.threshold_signal != "known_words":
            return [None] * len(queries)
        terms = sorted({term for query in queries for term in _weights(query)})
        requests = [self._request("keyword", models.SparseVector(indices=[term], values=[1.0])) for term in terms]
        answers = self._ask([request.model_copy(update={"limit": 1}) for request in requests])
        known = {term for term, (codes, _) in zip(terms, answers, strict=True) if len(codes)}
        return [len(known & _weights(query).keys()) / max(1, len(_weights(query))) for query in queries]

    def _final(self, codes: Integers, columns: Mapping[str, Floats], sides: Mapping[str, Candidates]) -> Floats:
        """Return the final scores: those of the only side, or the fused scores of both sides."""
        config = self.config
        if config.mode != "hybrid":
            return columns[config.mode]
        if config.fusion == "weighted":
            return weighted(columns["semantic"], columns["keyword"], config.semantic_weight)
        fused, shares = np.zeros(codes.shape), (config.semantic_weight, 1 - config.semantic_weight)
        for side, share in zip(sides.values(), shares, strict=True):
            if config.fusion == "rrf":  # Cormack, Clarke and Büttcher (2009): w / (c + rank)
                ranks = np.arange(1, side.codes.shape[1] + 1)
                terms = np.where(side.codes < 0, np.nan, share / (RRF + ranks))
            else:
                terms = standing(side.columns["score"])
            # A side that did not find a candidate adds nothing.
            fused += np.nan_to_num(_laid(codes, side.codes, terms))
        return fused

    def _request(self, side: str, vector: Vector) -> "models.QueryRequest":
        from qdrant_client import models

        search_params = self.config.search_params if side == "semantic" else None  # they are for dense vectors
        return models.QueryRequest.model_construct(  # to validate a long vector takes as long as the search
            query=vector,
            using=(self.config.vector_name or None) if side == "semantic" else self.config.keyword.vector_name,
            filter=self.among,
            params=models.SearchParams.model_validate(search_params) if search_params else None,
            with_payload=False,
        )

    def _sides(self, queries: Sequence[Requests]) -> dict[str, Candidates]:
        """Search the sides of every query, and return the candidates of each side to the candidate depth.

        If the scores on both sides of that edge are equal, the search is repeated to twice the depth, and the total
        order decides which candidates are inside. The order within a side matters under rrf alone.
        """
        sides = ("semantic", "keyword") if self.config.mode == "hybrid" else (self.config.mode,)
        asked = [(side, row) for side in sides for row, query in enumerate(queries) if side in query]
        reach = dict.fromkeys(asked, self.depth + 1)
        answers: dict[tuple[str, int], tuple[Codes, Floats]] = {}
        while reach:
            deeper = [queries[row][side].model_copy(update={"limit": limit}) for (side, row), limit in reach.items()]
            answers |= dict(zip(reach, self._ask(deeper), strict=True))
            reach = {
                key: 2 * limit
                for key, limit in reach.items()
                if len(scores := answers[key][1]) == limit and scores[self.depth - 1] == scores[-1]
            }
        found = {}
        for side in sides:
            rows = [answers.get((side, row), NOTHING) for row in range(len(queries))]
            codes, scores = laid_out([row[0] for row in rows], -1), laid_out([row[1] for row in rows], np.nan)
            order = in_order(codes, scores, self.chunks, edge=None if self.config.fusion == "rrf" else self.depth)
            table = Candidates(codes=codes, columns={"score": scores}, chunks=self.chunks, facts=())
            found[side] = table.at(order[:, : self.depth])
        return found

    def _fill(self, columns: Mapping[str, Floats], codes: Integers, queries: Sequence[Requests]) -> None:
        """Ask for the scores of candidates that only another side found, and write them into the columns."""
        weighs = self.config.mode == "hybrid" and self.config.fusion == "weighted"
        lacking = [
            (side, row, codes[row, missing])
            for side in ("semantic", "keyword")[: 1 + weighs]
            for row, missing in enumerate(np.isnan(columns[side]) & (codes >= 0))
            if side in queries[row] and missing.any()
        ]
        requests = [self._of_points(queries[row][side], own) for side, row, own in lacking]
        for (side, row, _), (answered, scores) in zip(lacking, self._ask(requests), strict=True):
            columns[side][row, np.searchsorted(-codes[row], -answered)] = scores
        bare = codes[np.isnan(columns["semantic"]) & (codes >= 0)]
        if len(bare):
            points = self.chunks.given(bare)
            vectors_of(self.client, self.config, points)  # raises the error if a point is gone, or has no vector
            raise changed(self.config, points[0])

    def _of_points(self, request: "models.QueryRequest", codes: Integers) -> "models.QueryRequest":
        """Return the request for the scores of given points. It is exact, since an index may not find all of them."""
        from qdrant_client import models

        own = models.Filter(must=[models.HasIdCondition(has_id=self.chunks.given(codes))])
        exact = models.SearchParams(exact=True)
        return request.model_copy(update={"filter": own, "params": exact, "limit": len(codes)})

    def _ask(self, requests: "Sequence[models.QueryRequest]") -> Iterator[tuple[Codes, Floats]]:
        """Yield the points of each request, best first, and their scores.

        Cosines are clipped to [0, 1] and rounded to float32, in which a Qdrant server computes them. qdrant-client's
        local mode computes in float64, and normalises its vectors again at every search, so that further bits change.

        Raises:
            StoreError: A score is not a number.
        """
        name = self.config.collection
        for batch in batch_iterate(BATCH, requests):
            for request, answer in zip(batch, self.client.query_batch_points(name, batch), strict=True):
                scores = np.asarray([point.score for point in answer.points], dtype=np.float32)
                if np.isnan(scores).any():
                    raise StoreError(f"collection {name!r} returned a score that is no number; its vectors are broken")
                if isinstance(request.query, list):
                    scores = np.clip(scores, 0, 1) + np.float32(0)  # makes -0 a plain 0
                yield self.chunks.codes(point.id for point in answer.points), scores.astype(np.float64)


def in_order(codes: Integers, scores: Floats, chunks: ChunkTable, *, edge: int | None = None) -> Integers:
    """Return the places of each query's candidates in the total order: score descending, then chunk id, then point id.

    In a collection that another program made, several points may have the same chunk id. Chunk ids are part of the
    payload. It is read only for candidates whose places the ids decide.

    Args:
        codes: The candidates; shape (queries, depth).
        scores: Their scores, NaN for no candidate, which comes last; shape as `codes`.
        chunks: The chunks of the candidates.
        edge: Number of places from the first. If given, only the candidates that get these places are decided, not
            their order.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    descending = np.take_along_axis(scores, order, axis=1)
    equal, tied = np.diff(descending, axis=1) == 0, np.zeros(scores.shape, dtype=bool)
    tied[:, 1:] = equal
    tied[:, :-1] |= equal
    if edge is not None:
        is_open = equal[:, edge - 1 : edge].any(axis=1, keepdims=True)
        tied &= is_open & (descending == descending[:, :edge][:, -1:])
    if not tied.any():
        return order
    undecided = np.take_along_axis(codes, order, axis=1)[tied].tolist()
    chunks.read(undecided)
    by_name = sorted({*undecided}, key=lambda code: (chunks[code].chunk_id, chunks.point(code)))
    rank = {code: number for number, code in enumerate(by_name)}
    ranks = np.zeros(scores.shape, dtype=np.int64)
    ranks[tied] = [rank[code] for code in undecided]
    return np.take_along_axis(order, np.lexsort((ranks, -descending), axis=1), axis=1)


def weighted(semantic: Floats, keyword: Floats, share: float) -> Floats:
    """Return w · cosine + (1 − w) · BM25 / the query's best BM25, 0 to 1.

    A candidate without a term or without a vector has NaN as its score on that side, which counts as 0.

    Args:
        semantic: The cosines of each query's candidates, 0 to 1; shape (queries, depth).
        keyword: Their BM25; shape as `semantic`.
        share: w.
    """
    terms = np.nan_to_num(keyword)
    best = terms.max(axis=1, initial=0, keepdims=True)
    return share * np.nan_to_num(semantic) + (1 - share) * terms / np.where(best == 0, 1, best)


def standing(scores: Floats) -> Floats:
    """Return each score's place between its query's mean − 3σ (0) and mean + 3σ (1) on a side, as Qdrant computes it.

    σ is the sample standard deviation of the side's candidates. A side of one candidate, or of equal scores, gives 0.5.

    Args:
        scores: The scores of each query on the side, NaN beyond the last; shape (queries, depth).
    """
    placed = np.where(np.isnan(scores), np.nan, 0.5)
    for row, side in zip(placed, scores, strict=True):
        values = np.sort(side[~np.isnan(side)])  # so that their sum does not depend on the order of the answer
        if len(values) and values[0] < values[-1]:
            deviation = values.std(ddof=1)
            row[:] = (side - values.mean() + 3 * deviation) / (6 * deviation)
    return placed


def _weights(query: Encoded) -> dict[int, float]:
    """Return the weights of a query's words, by word."""
    words: Any = query.get("keyword")
    return dict(zip(words.indices, words.values, strict=True)) if words else {}


def _laid(codes: Integers, own: Integers, values: Floats) -> Floats:
    """Return a side's values for all candidates of each query, whose codes descend; NaN for those it did not find."""
    column = np.full(codes.shape, np.nan)
    for row, of_query in enumerate(codes):
        column[row, np.searchsorted(-of_query, -own[row])] = values[row]
    return column
