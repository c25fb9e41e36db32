"""Candidates from Qdrant by meaning, by keywords, or both, as columns: every side at one depth, then fused.

Whatever the mode, every candidate has the score of its vector, such as a cosine, which the threshold reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.search.candidate_table import Candidates, CandidateTable
from retrievers.search.query import Encoded, Vector
from retrievers.search.ranking import Floats, Places, in_order, tied
from retrievers.search.requests import ask, scores_of, search_params
from retrievers.search.table_builder import joined, one_query
from retrievers.store import NO_LIMITS, Limits, store_errors
from retrievers.store.chunk_table import ChunkTable, Codes
from retrievers.store.stored_chunks import without_vector

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Requests: TypeAlias = "Mapping[str, models.QueryRequest]"
"""What is asked for one query, by side."""
Sides = Mapping[str, Candidates]
"""The sides of one query: `semantic`, `keyword`, `expanded`; one without a term to search for is not there."""
NO_CODES: Codes = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, kw_only=True, slots=True)
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

    def find(self, queries: Sequence[Encoded]) -> CandidateTable:
        """Find candidates for each query: one request for all sides, and one for the scores that only some have.

        They are in any order, include those that tie with the last, and all have the component `semantic`.

        Raises:
            CollectionChangedError: The collection was written to meanwhile.
            CollectionStateError: A candidate has no vector, and so no cosine.
            StoreError: The store failed.
        """
        requests = [{name: self._request(name, vector) for name, vector in query.items()} for query in queries]
        with store_errors(self.config.store, self.config.collection):
            table, found = self._sides(requests)
            if self.config.mode == "semantic":
                return replace(table, columns={"semantic": table.scores})
            sides = self._at_depth(found)
            cosines, terms = self._missing(requests, sides)
        join = _fused if self.config.mode == "hybrid" else _by_terms
        rows = [join(self.config, self.chunks, *each) for each in zip(sides, cosines, terms, strict=True)]
        return joined(rows, self.chunks)

    def _request(self, side: str, vector: Vector) -> "models.QueryRequest":
        from qdrant_client import models

        return models.QueryRequest(
            query=vector,
            using=(self.config.vector_name or None) if side == "semantic" else self.config.keyword.vector_name,
            filter=self.among,
            params=search_params(self.config, side),
            with_payload=False,
        )

    def _sides(self, queries: Sequence[Requests]) -> tuple[CandidateTable, list[Sides]]:
        """Search every side of every query, with all that ties at its edge; return the table, and its rows by query."""
        mode = self.config.mode
        asked = [
            [name for name in each if mode == "hybrid" or (name == "semantic") == (mode == "semantic")]
            for each in queries
        ]
        requests = [of_sides[name] for of_sides, names in zip(queries, asked, strict=True) for name in names]
        depths = [self.depth for names in asked for name in names]
        table = ask(self.client, self.config, requests, depths, self.chunks, self.limits)
        rows = iter(table)
        return table, [{name: next(rows) for name in names} for names in asked]

    def _at_depth(self, found: Sequence[Sides]) -> list[Sides]:
        """Cut every side at the candidate depth; in the total order where places count, which is under rrf."""
        places = self.config.mode == "hybrid" and self.config.used_fusion == "rrf"
        undecided = [
            {name: tied(side.scores, self.depth, every_place=places) for name, side in sides.items()} for sides in found
        ]
        self.chunks.read(
            code
            for sides, of_sides in zip(found, undecided, strict=True)
            for name, at in of_sides.items()
            for code in sides[name].codes[at].tolist()
        )
        return [
            {name: side.at(self._order(name, side, of_sides[name])) for name, side in sides.items()}
            for sides, of_sides in zip(found, undecided, strict=True)
        ]

    def _order(self, name: str, side: Candidates, undecided: Places) -> Places:
        return in_order(side.codes, side.scores, self.depth, undecided, self.chunks.name)

    def _missing(
        self, queries: Sequence[Requests], found: Sequence[Sides]
    ) -> tuple[list[dict[int, float]], list[dict[int, float]]]:
        """Ask for the cosines, and for weighted fusion the BM25, of candidates that only another side found."""
        cosines = [_beyond(sides, "semantic") for sides in found]
        weighted = self.config.mode == "hybrid" and self.config.used_fusion == "weighted"
        lacking = [number for number, sides in enumerate(found) if weighted and "keyword" in sides]
        requests = [query["semantic"] for query in queries] + [queries[number]["keyword"] for number in lacking]
        candidates = cosines + [_beyond(found[number], "keyword") for number in lacking]
        known = scores_of(self.client, self.config, requests, candidates, self.chunks, self.limits)
        for codes, values in zip(cosines, known, strict=False):
            if len(values) < len(codes):
                bare = [self.chunks.point(code) for code in codes.tolist() if code not in values]
                without_vector(self.client, self.config, bare)
        terms = dict(zip(lacking, known[len(queries) :], strict=True))
        return known[: len(queries)], [terms.get(number, {}) for number in range(len(queries))]


def _beyond(sides: Sides, name: str) -> Codes:
    """Return the candidates that other sides found and this one did not."""
    others = [side.codes for other, side in sides.items() if other != name]
    if not others:
        return NO_CODES
    codes = np.unique(np.concatenate(others))
    return np.setdiff1d(codes, sides[name].codes, assume_unique=True) if name in sides else codes


def _column(codes: Codes, side: Candidates | None, further: Mapping[int, float]) -> Floats:
    """Align a side's scores, with those that were asked for besides, to codes in ascending order; NaN where none is."""
    column = np.full(len(codes), np.nan)
    if side is not None:
        column[np.searchsorted(codes, side.codes)] = side.scores
    if further:
        column[np.searchsorted(codes, np.fromiter(further, dtype=np.int32))] = list(further.values())
    return column


def _ranks(codes: Codes, side: Candidates) -> Floats:
    """Align the ranks that a side gives to codes in ascending order; NaN where none is."""
    column = np.full(len(codes), np.nan)
    column[np.searchsorted(codes, side.codes)] = np.arange(1.0, len(side) + 1)
    return column


def _by_terms(
    config: RetrieverConfig, chunks: ChunkTable, sides: Sides, cosines: Mapping[int, float], _: Mapping[int, float]
) -> CandidateTable:
    """Return one query's candidates by keywords. `cosines` are theirs."""
    side = sides.get("keyword")
    order = np.argsort(side.codes) if side else np.empty(0, dtype=np.intp)
    codes, scores = (side.codes[order], side.scores[order]) if side else (NO_CODES, np.empty(0))
    columns = {"keyword": scores, "semantic": _column(codes, None, cosines)}
    return one_query(codes, scores, columns, chunks, scale=config.keyword.scale, distance=config.used_distance)


def _fused(
    config: RetrieverConfig,
    chunks: ChunkTable,
    sides: Sides,
    cosines: Mapping[int, float],
    terms: Mapping[int, float],
) -> CandidateTable:
    """Fuse one query's sides. `cosines` and `terms` hold the scores of candidates that only another side found."""
    codes = np.unique(np.concatenate([side.codes for side in sides.values()]))
    semantic, keyword = _column(codes, sides["semantic"], cosines), _column(codes, sides.get("keyword"), terms)
    share = config.semantic_weight
    if config.used_fusion == "weighted":
        scores = weighted(semantic, keyword, share, 1 - share)
    elif config.used_fusion == "rrf":
        weights = {"semantic": share, "keyword": 1 - share, "expanded": (1 - share) / 2}
        ranks = [_ranks(codes, side) for side in sides.values()]
        scores = reciprocal_rank(ranks, [weights[name] for name in sides], config.rrf_constant)
    else:
        scores = distribution_based([_column(codes, side, {}) for side in sides.values()])
    columns = {"semantic": semantic, "keyword": np.where(keyword == 0, np.nan, keyword)}
    if "expanded" in sides:
        columns["expanded"] = _column(codes, sides["expanded"], {})
    columns["fused"] = scores
    return one_query(codes, scores, columns, chunks, scale=config.used_fusion, distance=config.used_distance)


def weighted(semantic: Floats, keyword: Floats, semantic_weight: float, keyword_weight: float) -> Floats:
    """Return w_s · cosine + w_k · BM25 / best BM25, 0 to 1 when the weights sum to 1.

    Args:
        semantic: Cosine of every candidate, 0 to 1; NaN counts as 0.
        keyword: BM25 of every candidate that holds a query term, NaN for the others; the best of them is the unit.
        semantic_weight: w_s.
        keyword_weight: w_k.
    """
    terms = np.nan_to_num(keyword, nan=0.0)
    best = float(terms.max(initial=0.0)) or 1.0
    return semantic_weight * np.nan_to_num(semantic, nan=0.0) + keyword_weight * terms / best


def reciprocal_rank(ranks: Sequence[Floats], weights: Sequence[float], constant: float) -> Floats:
    """Return Σ w / (c + rank) (Cormack, Clarke and Büttcher, 2009; c = 60 there).

    Args:
        ranks: The rank of every candidate on each side, from 1, NaN where the side did not find it.
        weights: One for each side.
        constant: c.
    """
    fused = np.zeros(len(ranks[0]))
    for column, weight in zip(ranks, weights, strict=True):
        fused += np.nan_to_num(weight / (constant + column), nan=0.0)
    return fused


def distribution_based(sides: Sequence[Floats]) -> Floats:
    """Sum over the sides each score's place between mean − 3σ (0) and mean + 3σ (1), as Qdrant computes it.

    σ is the sample standard deviation of the side's candidates. A side of one candidate, or of equal scores, gives 0.5.

    Args:
        sides: The score of every candidate on each side, NaN where the side did not find it.
    """
    fused = np.zeros(len(sides[0]))
    for scores in sides:
        fused += np.nan_to_num(_placed(scores), nan=0.0)
    return fused


def _placed(scores: Floats) -> Floats:
    values = scores[~np.isnan(scores)].tolist()
    if not values:
        return scores
    mean = fsum(values) / len(values)
    equal = min(values) == max(values)  # when they are, their mean may still be off by a rounding
    deviation = 0.0 if equal else sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    if deviation == 0:
        return np.where(np.isnan(scores), np.nan, 0.5)
    return (scores - (mean - 3 * deviation)) / (6 * deviation)
