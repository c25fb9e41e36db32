"""Candidates from Qdrant by meaning, by keywords, or both: every side at one depth, then fused, in the total order.

What the sides find of all queries is laid out as flat columns, an element for each pair of query and chunk. Points come
as ids and scores; whatever else is stored with them is read later, for those that an answer needs. Whatever the mode,
every candidate has the score of its vector, such as a cosine, which the threshold reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.search.candidates import Candidates, Facts, Floats, Integers
from retrievers.search.query import Encoded, Vector
from retrievers.store import NO_LIMITS, Limits, parts, store_errors
from retrievers.store.chunks import ChunkTable, Codes, without_vector

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Requests: TypeAlias = "Mapping[str, models.QueryRequest]"
"""What is asked for one query, by side."""
BATCH = 32
"""Most searches in one request, which servers in strict mode take."""


class Side(NamedTuple):
    """Results of one side, as parallel arrays: query and chunk as one number (`pairs`), score, rank from 1."""

    pairs: Integers
    scores: Floats
    ranks: Floats


@dataclass(frozen=True, slots=True)
class Search:
    """Searches in the configured mode.

    Attributes:
        client: An open client.
        config: Names the collection, its vectors, the mode and the fusion.
        depth: Candidates that a query has at most, and that each side searches for.
        chunks: The chunks found so far.
        among: A condition that every candidate must meet.
        limits: Limits of the collection on one request.
    """

    client: "QdrantClient"
    config: RetrieverConfig
    depth: int
    chunks: ChunkTable
    among: "models.Filter | None" = None
    limits: Limits = NO_LIMITS

    def find(self, queries: Sequence[Encoded]) -> Candidates:
        """Find candidates for each query: one request for all sides, and one for the scores that only some have.

        Raises:
            CollectionChangedError: The collection was written to meanwhile.
            StoreError: A candidate has no vector, and so no cosine; or the store failed.
        """
        config = self.config
        requests = [{side: self._request(side, vector) for side, vector in query.items()} for query in queries]
        with store_errors(config.store, config.collection):
            sides = self._sides(requests)
            pairs = np.unique(np.concatenate([side.pairs for side in sides.values()]))
            query, codes = pairs >> 32, _codes(pairs)
            columns = {"semantic": np.full(len(pairs), np.nan)}
            columns |= {name: _laid(pairs, side.pairs, side.scores, np.nan) for name, side in sides.items()}
            self._fill(columns, pairs, requests)
            columns["score"] = self._final(columns, pairs, sides)
            known_words = self._known_words(queries)
            if config.mode == "hybrid":
                columns["keyword"][columns["keyword"] == 0] = np.nan
                columns["fused"] = columns["score"]
            order = in_order(query, codes, columns["score"], self.chunks)
        order = order[_places(query) < self.depth]
        at, width = (query[order], _places(query[order])), np.bincount(query[order], minlength=1).max()

        def matrix(values: NDArray[Any], beyond: float) -> NDArray[Any]:
            laid = np.full((len(queries), width), beyond)
            laid[at] = values[order]
            return laid

        scale = {"semantic": config.distance, "keyword": config.keyword.scale}.get(config.mode, config.fusion)
        weights = [None if config.mode == "semantic" else sum(_weights(query).values()) for query in queries]
        return Candidates(
            codes=matrix(codes, -1).astype(np.int64),
            columns={name: matrix(column, np.nan) for name, column in columns.items()},
            chunks=self.chunks,
            facts=[
                Facts(scale=scale, distance=config.distance, query_weight=weight, known_words=share)
                for weight, share in zip(weights, known_words, strict=True)
            ],
        )

    def _known_words(self, queries: Sequence[Encoded]) -> list[float | None]:
        """Return of each query the share of its words that some chunk has, by a search for each word; 0 without any."""
        from qdrant_client import models

        if self.config.threshold_signal != "known_words":
            return [None] * len(queries)
        every = sorted({term for query in queries for term in _weights(query)})
        requests = [self._request("keyword", models.SparseVector(indices=[term], values=[1.0])) for term in every]
        answers = self._ask([request.model_copy(update={"limit": 1}) for request in requests])
        known = {term for term, (codes, _) in zip(every, answers, strict=True) if len(codes)}
        return [len(known & _weights(query).keys()) / max(1, len(_weights(query))) for query in queries]

    def _final(self, columns: Mapping[str, Floats], pairs: Integers, sides: Mapping[str, Side]) -> Floats:
        """Return the final scores: those of the only side, or both sides' fused."""
        config = self.config
        if config.mode != "hybrid":
            return columns[config.mode]
        if config.fusion == "weighted":
            return weighted(pairs >> 32, columns["semantic"], columns["keyword"], config.semantic_weight)
        fused, shares = np.zeros(len(pairs)), (config.semantic_weight, 1 - config.semantic_weight)
        for side, share in zip(sides.values(), shares, strict=True):
            if config.fusion == "rrf":  # Cormack, Clarke and Büttcher (2009): w / (c + rank)
                terms = share / (config.rrf_constant + side.ranks)
            else:
                terms = standing(side.pairs >> 32, side.scores)
            fused += _laid(pairs, side.pairs, terms, 0)  # a side that did not find a candidate adds nothing
        return fused

    def _request(self, side: str, vector: Vector) -> "models.QueryRequest":
        from qdrant_client import models

        named = self.config.search_params or {}
        if side != "semantic":  # the other parameters concern dense vectors
            named = {name: value for name, value in named.items() if name == "indexed_only"}
        return models.QueryRequest(
            query=vector,
            using=(self.config.vector_name or None) if side == "semantic" else self.config.keyword.vector_name,
            filter=self.among,
            params=models.SearchParams.model_validate(named) if named else None,
            with_payload=False,
        )

    def _sides(self, queries: Sequence[Requests]) -> dict[str, Side]:
        """Search the sides of every query; a tied edge is asked for again, deeper, and decided by the total order."""
        sides = ("semantic", "keyword") if self.config.mode == "hybrid" else (self.config.mode,)
        asked = [(side, number) for side in sides for number, query in enumerate(queries) if side in query]
        most = self.limits.results or self.depth * 2**20
        reach = dict.fromkeys(asked, min(self.depth + 1, most))
        answers: dict[tuple[str, int], tuple[Codes, Floats]] = {}
        while reach:
            deeper = [queries[n][side].model_copy(update={"limit": limit}) for (side, n), limit in reach.items()]
            answers |= dict(zip(reach, self._ask(deeper), strict=True))
            reach = {
                key: min(2 * limit, most)
                for key, limit in reach.items()
                if self.depth < len(scores := answers[key][1]) == limit < most and scores[self.depth - 1] == scores[-1]
            }
        return {side: self._cut([(n, *answers[name, n]) for name, n in asked if name == side]) for side in sides}

    def _cut(self, answers: Sequence[tuple[int, Codes, Floats]]) -> Side:
        """Return what a side found for all queries, to the candidate depth; only under rrf do places count, too."""
        query = np.repeat([n for n, _, _ in answers], [len(codes) for _, codes, _ in answers]).astype(np.int64)
        codes = np.concatenate([np.empty(0, np.int32), *(codes for _, codes, _ in answers)])
        scores = np.concatenate([np.empty(0), *(scores for _, _, scores in answers)])
        edge = None if self.config.fusion == "rrf" else self.depth
        order, places = in_order(query, codes, scores, self.chunks, edge=edge), _places(query)
        order, places = order[places < self.depth], places[places < self.depth]
        return Side(query[order] << 32 | codes[order], scores[order], (places + 1).astype(np.float64))

    def _fill(self, columns: Mapping[str, Floats], pairs: Integers, queries: Sequence[Requests]) -> None:
        """Ask for the scores that candidates lack, as only another side found them, and write them into the columns."""
        weighs = self.config.mode == "hybrid" and self.config.fusion == "weighted"
        starts = np.searchsorted(pairs, np.arange(len(queries) + 1) << 32)
        lacking = [
            (side, number, part)
            for side in (("semantic", "keyword") if weighs else ("semantic",))
            for number, (start, end) in enumerate(pairwise(starts.tolist()))
            if side in queries[number] and len(part := pairs[start:end][np.isnan(columns[side][start:end])])
        ]
        requests = [self._of_points(queries[number][side], _codes(part)) for side, number, part in lacking]
        for (side, number, _), (codes, scores) in zip(lacking, self._ask(requests), strict=True):
            columns[side][np.searchsorted(pairs, number << 32 | codes.astype(np.int64))] = scores
        bare = _codes(pairs[np.isnan(columns["semantic"])])
        if len(bare):
            without_vector(self.client, self.config, [self.chunks.point(code) for code in bare.tolist()])

    def _of_points(self, request: "models.QueryRequest", codes: Codes) -> "models.QueryRequest":
        """Return the request for the scores of given points; exact, as an index may not find all that are asked for.

        Where the collection allows no exact search, the condition on the ids leaves so few points that the server looks
        at each of them anyway; it must not take their quantised vectors for that.
        """
        from qdrant_client import models

        plain = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
        return request.model_copy(
            update={
                "filter": models.Filter(must=[models.HasIdCondition(has_id=self.chunks.given(codes))]),
                "params": models.SearchParams(exact=True) if self.limits.exact else plain,
                "limit": len(codes),
            }
        )

    def _ask(self, requests: "Sequence[models.QueryRequest]") -> Iterator[tuple[Codes, Floats]]:
        """Yield the points of each request, best first, and their scores.

        Cosines are clipped to [0, 1] and taken as float32, which is what a Qdrant server computes: its local mode works
        in float64 and normalises its vectors again, in place, at every search, so that further bits change.

        Raises:
            StoreError: A score is not a number.
        """
        name = self.config.collection
        for part in parts(requests, min(BATCH, self.limits.queries or BATCH)):
            for request, answer in zip(part, self.client.query_batch_points(name, list(part)), strict=True):
                scores = np.asarray([point.score for point in answer.points], dtype=np.float32)
                if np.isnan(scores).any():
                    raise StoreError(f"collection {name!r} returned a score that is no number; its vectors are broken")
                if isinstance(request.query, list) and self.config.distance == "cosine":
                    scores = np.clip(scores, 0, 1) + np.float32(0)  # makes -0 a plain 0
                yield self.chunks.codes(point.id for point in answer.points), scores.astype(np.float64)


def in_order(
    query: Integers, codes: NDArray[np.integer], scores: Floats, chunks: ChunkTable, *, edge: int | None = None
) -> NDArray[np.intp]:
    """Return the places of candidates by query in the total order: score descending, then chunk id, then point id.

    A collection made elsewhere may give several points one chunk id. Ids are part of the payload, which is read here of
    those candidates alone whose place they decide.

    Args:
        query: The query of each candidate, ascending.
        codes: The candidates.
        scores: Their scores.
        chunks: Knows their ids.
        edge: Number of places, where all that counts is who has one of them.
    """
    order = np.lexsort((-scores, query))
    equal = (np.diff(query[order]) == 0) & (np.diff(scores[order]) == 0)
    if not equal.any():
        return order
    group = np.concatenate([[0], np.cumsum(~equal)])
    tied = np.isin(group, group[1:][equal])
    if edge is not None:
        place = _places(query)
        tied &= np.isin(group, np.intersect1d(group[place == edge - 1], group[place == edge]))
    undecided = codes[order][tied].tolist()
    chunks.read(undecided)
    rank = {code: number for number, code in enumerate(sorted({*undecided}, key=chunks.name))}
    names = np.zeros(len(order), dtype=np.int64)
    names[order[tied]] = [rank[code] for code in undecided]
    return np.lexsort((names, -scores, query))


def weighted(query: Integers, semantic: Floats, keyword: Floats, share: float) -> Floats:
    """Return w · cosine + (1 − w) · BM25 / the query's best BM25, 0 to 1; NaN, of no term or vector, counts as 0.

    Args:
        query: The query of each candidate.
        semantic: Its cosine, 0 to 1.
        keyword: Its BM25.
        share: w.
    """
    terms = np.nan_to_num(keyword)
    best = np.zeros(int(query.max(initial=-1)) + 1)
    np.maximum.at(best, query, terms)
    return share * np.nan_to_num(semantic) + (1 - share) * terms / np.where(best == 0, 1, best)[query]


def standing(query: Integers, scores: Floats) -> Floats:
    """Return each score's place between its query's mean − 3σ (0) and mean + 3σ (1) on a side, as Qdrant computes it.

    σ is the sample standard deviation of the side's candidates. A side of one candidate, or of equal scores, gives 0.5.

    Args:
        query: The query of each candidate.
        scores: Its score on the side.
    """
    placed = np.full(len(scores), 0.5)
    for number in np.unique(query):
        own = query == number
        values = np.sort(scores[own])  # in whichever order they came, their sum is the same
        if values[0] < values[-1]:
            deviation = values.std(ddof=1)
            placed[own] = (scores[own] - values.mean() + 3 * deviation) / (6 * deviation)
    return placed


def _weights(query: Encoded) -> dict[int, float]:
    """Return the weights of a query's words, by word."""
    words: Any = query.get("keyword")
    return dict(zip(words.indices, words.values, strict=True)) if words else {}


def _codes(pairs: Integers) -> Codes:
    """Return the chunks of pairs of query and chunk."""
    return (pairs & 0xFFFFFFFF).astype(np.int32)


def _places(query: Integers) -> Integers:
    """Return the places, from 0, of candidates among those of their query; `query` is ascending."""
    return np.arange(len(query)) - np.searchsorted(query, query)


def _laid(pairs: Integers, own: Integers, values: Floats, beyond: float) -> Floats:
    """Lay a side's values out over all pairs, which are ascending."""
    column = np.full(len(pairs), beyond, dtype=np.float64)
    column[np.searchsorted(pairs, own)] = values
    return column
