"""Candidates from Qdrant by meaning, by keywords, or both: every side at one depth, then fused, in the total order.

What is found is laid out as matrices, a row for each query. Points come as ids and scores; whatever else is stored with
them is read later, for those that an answer needs. Whatever the mode, every candidate has the score of its vector, such
as a cosine, which the threshold reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.search.candidates import Candidates, Floats, Integers, SearchFacts, laid_out
from retrievers.search.query import Encoded, Vector
from retrievers.store.chunks import ChunkTable, Codes, without_vector
from retrievers.store.collection import parts
from retrievers.store.opening import store_errors

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Requests: TypeAlias = "Mapping[str, models.QueryRequest]"
"""What is asked for one query, by side."""
RRF = 60.0
"""The constant of reciprocal rank fusion, as its authors propose."""
BATCH = 32
"""Most searches in one request, which servers in strict mode take."""
NOTHING = (np.empty(0, np.int32), np.empty(0))


@dataclass(frozen=True, slots=True)
class Search:
    """Searches in the configured mode.

    Attributes:
        client: An open client.
        config: Names the collection, its vectors, the mode and the fusion.
        depth: Candidates that a query has at most, and that each side searches for.
        chunks: The chunks found so far.
        among: A condition that every candidate must meet.
    """

    client: "QdrantClient"
    config: RetrieverConfig
    depth: int
    chunks: ChunkTable
    among: "models.Filter | None"

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
            found = np.concatenate([side.codes for side in sides.values()], axis=1)
            codes = laid_out([np.unique(row)[::-1] for row in found], -1)
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
        """Return of each query the share of its words that some chunk has, by a search for each word; 0 without any."""
        from qdrant_client import models

        if self.config.threshold_signal != "known_words":
            return [None] * len(queries)
        every = sorted({term for query in queries for term in _weights(query)})
        requests = [self._request("keyword", models.SparseVector(indices=[term], values=[1.0])) for term in every]
        answers = self._ask([request.model_copy(update={"limit": 1}) for request in requests])
        known = {term for term, (codes, _) in zip(every, answers, strict=True) if len(codes)}
        return [len(known & _weights(query).keys()) / max(1, len(_weights(query))) for query in queries]

    def _final(self, codes: Integers, columns: Mapping[str, Floats], sides: Mapping[str, Candidates]) -> Floats:
        """Return the final scores: those of the only side, or both sides' fused."""
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

        named = self.config.search_params if side == "semantic" else None  # they concern dense vectors
        return models.QueryRequest.model_construct(  # the check of a long vector takes as long as the search
            query=vector,
            using=(self.config.vector_name or None) if side == "semantic" else self.config.keyword.vector_name,
            filter=self.among,
            params=models.SearchParams.model_validate(named) if named else None,
            with_payload=False,
        )

    def _sides(self, queries: Sequence[Requests]) -> dict[str, Candidates]:
        """Search the sides of every query; a tied edge is asked for again, deeper, and decided by the total order.

        Return what each side found, in its order, to the candidate depth. Only under rrf do the places count, too.
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
        """Ask for the scores that candidates lack, as only another side found them, and write them into the columns."""
        weighs = self.config.mode == "hybrid" and self.config.fusion == "weighted"
        lacking = [
            (side, row, codes[row, missing].astype(np.int32))
            for side in ("semantic", "keyword")[: 1 + weighs]
            for row, missing in enumerate(np.isnan(columns[side]) & (codes >= 0))
            if side in queries[row] and missing.any()
        ]
        requests = [self._of_points(queries[row][side], own) for side, row, own in lacking]
        for (side, row, _), (known, scores) in zip(lacking, self._ask(requests), strict=True):
            columns[side][row, np.searchsorted(-codes[row], -known)] = scores
        bare = codes[np.isnan(columns["semantic"]) & (codes >= 0)]
        if len(bare):
            without_vector(self.client, self.config, [self.chunks.point(code) for code in bare.tolist()])

    def _of_points(self, request: "models.QueryRequest", codes: Codes) -> "models.QueryRequest":
        """Return the request for the scores of given points; exact, as an index may not find all that are asked for."""
        from qdrant_client import models

        own = models.Filter(must=[models.HasIdCondition(has_id=self.chunks.given(codes))])
        exact = models.SearchParams(exact=True)
        return request.model_copy(update={"filter": own, "params": exact, "limit": len(codes)})

    def _ask(self, requests: "Sequence[models.QueryRequest]") -> Iterator[tuple[Codes, Floats]]:
        """Yield the points of each request, best first, and their scores.

        Cosines are clipped to [0, 1] and taken as float32, which is what a Qdrant server computes: its local mode works
        in float64 and normalises its vectors again, in place, at every search, so that further bits change.

        Raises:
            StoreError: A score is not a number.
        """
        name = self.config.collection
        for part in parts(requests, BATCH):
            for request, answer in zip(part, self.client.query_batch_points(name, list(part)), strict=True):
                scores = np.asarray([point.score for point in answer.points], dtype=np.float32)
                if np.isnan(scores).any():
                    raise StoreError(f"collection {name!r} returned a score that is no number; its vectors are broken")
                if isinstance(request.query, list):
                    scores = np.clip(scores, 0, 1) + np.float32(0)  # makes -0 a plain 0
                yield self.chunks.codes(point.id for point in answer.points), scores.astype(np.float64)


def in_order(codes: Integers, scores: Floats, chunks: ChunkTable, *, edge: int | None = None) -> Integers:
    """Return the places of each query's candidates in the total order: score descending, then chunk id, then point id.

    A collection made elsewhere may give several points one chunk id. Ids are part of the payload, which is read here of
    those candidates alone whose place they decide.

    Args:
        codes: The candidates; shape (queries, depth).
        scores: Their scores, NaN where there is no candidate, which comes last; shape as `codes`.
        chunks: Knows their ids.
        edge: Number of places, where all that counts is who has one of them.
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
    rank = {code: number for number, code in enumerate(sorted({*undecided}, key=chunks.name))}
    names = np.zeros(scores.shape, dtype=np.int64)
    names[tied] = [rank[code] for code in undecided]
    return np.take_along_axis(order, np.lexsort((names, -descending), axis=1), axis=1)


def weighted(semantic: Floats, keyword: Floats, share: float) -> Floats:
    """Return w · cosine + (1 − w) · BM25 / the query's best BM25, 0 to 1; NaN, of no term or vector, counts as 0.

    Args:
        semantic: The cosines of each query's candidates, 0 to 1; shape (queries, depth).
        keyword: Their BM25, likewise.
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
    for row, given in zip(placed, scores, strict=True):
        values = np.sort(given[~np.isnan(given)])  # in whichever order they came, their sum is the same
        if len(values) and values[0] < values[-1]:
            deviation = values.std(ddof=1)
            row[:] = (given - values.mean() + 3 * deviation) / (6 * deviation)
    return placed


def _weights(query: Encoded) -> dict[int, float]:
    """Return the weights of a query's words, by word."""
    words: Any = query.get("keyword")
    return dict(zip(words.indices, words.values, strict=True)) if words else {}


def _laid(codes: Integers, own: Integers, values: Floats) -> Floats:
    """Lay a side's values out under all candidates of each query, whose codes descend; NaN where it has none."""
    column = np.full(codes.shape, np.nan)
    for row, known in enumerate(codes):
        column[row, np.searchsorted(-known, -own[row])] = values[row]
    return column
