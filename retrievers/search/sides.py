"""Candidates from Qdrant by meaning, by keywords, or both, as columns: every side at one depth, then fused.

Whatever the mode, every candidate has its cosine similarity, which the threshold reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.embedding.sparse import sparse
from retrievers.search import fusion, requests
from retrievers.search.query import EncodedQuery
from retrievers.search.ranking import Floats, FusedScores, Side, in_order, tied
from retrievers.search.requests import PointProbe, Probe, ask, bm25, cosine, scores_of
from retrievers.store import NO_LIMITS, Limits, store_errors
from retrievers.store.chunk_table import ChunkTable, Codes
from retrievers.store.stored_chunks import without_vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdrant_client import QdrantClient, models

Sides = Mapping[str, Side]
"""The sides of one query: `semantic`, `keyword`, `expanded`; one without a term to search for is not there."""
NO_CODES: Codes = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """Searches in the configured mode.

    Attributes:
        client: An open client.
        config: Names the collection, its vectors, the mode and the fusion.
        depth: Candidates that each side searches for, and that a query has at most.
        chunks: The chunks found so far.
        among: A condition that every candidate must meet.
        payloads: Let payloads come along with the search: worth it for the few candidates of one query, all of which
            are read, and not in hybrid mode, whose sides would bring the same ones.
        limits: Limits of the collection on one request.
    """

    client: "QdrantClient"
    config: RetrieverConfig
    depth: int
    chunks: ChunkTable
    among: "models.Filter | None" = None
    payloads: bool = False
    limits: Limits = NO_LIMITS

    def find(self, queries: Sequence[EncodedQuery]) -> list[FusedScores]:
        """Find candidates for each query: one request for all sides, and one for the scores that only some have.

        Raises:
            CollectionChangedError: The collection was written to meanwhile.
            CollectionStateError: A candidate has no vector, and so no cosine.
            StoreError: The store failed.
        """
        with store_errors(self.config.store, self.config.collection):
            found = self._sides(queries)
            if self.config.mode == "semantic":
                return [self._by_meaning(sides["semantic"]) for sides in found]
            sides = self._at_depth(found)
            cosines, terms = self._missing(queries, sides)
        join = _fused if self.config.mode == "hybrid" else _by_terms
        return [join(self.config, *each, self.depth) for each in zip(sides, cosines, terms, strict=True)]

    def _by_meaning(self, side: Side) -> FusedScores:
        components = {"semantic": side.scores}
        return FusedScores(
            scale="cosine", codes=side.codes, scores=side.scores, components=components, depth=self.depth
        )

    def _sides(self, queries: Sequence[EncodedQuery]) -> list[Sides]:
        """Search every side of every query, with all that ties at its edge."""
        probes = [(place, name, probe) for place, query in enumerate(queries) for name, probe in self._probes(query)]
        sides: list[dict[str, Side]] = [{} for _ in queries]
        answers = ask(self.client, self.config, [probe for _, _, probe in probes], self.limits)
        for (place, name, probe), hits in zip(probes, answers, strict=True):
            codes = self.chunks.codes(hits.points)
            if probe.with_payload:
                self.chunks.keep(codes, hits.payloads)
            sides[place][name] = Side(codes=codes, scores=hits.scores)
        return list(sides)

    def _probes(self, query: EncodedQuery) -> Iterator[tuple[str, Probe]]:
        config = self.config
        if config.mode != "keyword":
            yield "semantic", self._probe(list(query.vector), config.vector_name or None, cosine)
        for name, terms in (("keyword", query.terms), ("expanded", query.expanded)):
            if terms and terms.indices:
                yield name, self._probe(sparse(terms), config.keyword.vector_name, bm25)

    def _probe(self, query: Any, using: str | None, read: "Callable[[requests.Floats], requests.Floats]") -> Probe:
        along = self.payloads and self.config.mode != "hybrid"
        return Probe(query=query, using=using, depth=self.depth, among=self.among, read=read, with_payload=along)

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
            {name: self._first(side, of_sides[name]) for name, side in sides.items()}
            for sides, of_sides in zip(found, undecided, strict=True)
        ]

    def _first(self, side: Side, undecided: "Any") -> Side:
        order = in_order(side.codes, side.scores, self.depth, undecided, self.chunks.name)
        return Side(codes=side.codes[order], scores=side.scores[order])

    def _missing(
        self, queries: Sequence[EncodedQuery], found: Sequence[Sides]
    ) -> tuple[list[dict[int, float]], list[dict[int, float]]]:
        """Ask for the cosines, and for weighted fusion the BM25, of candidates that only another side found."""
        cosines = [_beyond(sides, "semantic") for sides in found]
        weighted = self.config.mode == "hybrid" and self.config.used_fusion == "weighted"
        terms = [_beyond(sides, "keyword") if weighted and "keyword" in sides else NO_CODES for sides in found]
        by_vector = [self._by_vector(query, codes) for query, codes in zip(queries, cosines, strict=True)]
        by_terms = [self._by_terms(query, codes) for query, codes in zip(queries, terms, strict=True)]
        scores = scores_of(self.client, self.config, [*by_vector, *by_terms], self.limits)
        known = [
            {code: values[point] for code, point in zip(codes.tolist(), probe.points, strict=True) if point in values}
            for codes, probe, values in zip([*cosines, *terms], [*by_vector, *by_terms], scores, strict=True)
        ]
        for codes, values in zip(cosines, known, strict=False):
            if len(values) < len(codes):
                bare = [self.chunks.point(code) for code in codes.tolist() if code not in values]
                without_vector(self.client, self.config, bare)
        return known[: len(queries)], known[len(queries) :]

    def _by_vector(self, query: EncodedQuery, codes: Codes) -> PointProbe:
        using = self.config.vector_name or None
        return PointProbe(query=list(query.vector), using=using, points=self.chunks.given(codes), read=cosine)

    def _by_terms(self, query: EncodedQuery, codes: Codes) -> PointProbe:
        terms = sparse(query.terms) if query.terms else None
        using = self.config.keyword.vector_name
        return PointProbe(query=terms, using=using, points=self.chunks.given(codes), read=bm25)


def _beyond(sides: Sides, name: str) -> Codes:
    """Return the candidates that other sides found and this one did not."""
    others = [side.codes for other, side in sides.items() if other != name]
    if not others:
        return NO_CODES
    found = np.unique(np.concatenate(others))
    return np.setdiff1d(found, sides[name].codes, assume_unique=True) if name in sides else found


def _column(codes: Codes, side: Side | None, further: Mapping[int, float]) -> Floats:
    """Align a side's scores, with those that were asked for besides, to codes in ascending order; NaN where none is."""
    column = np.full(len(codes), np.nan)
    if side is not None:
        column[np.searchsorted(codes, side.codes)] = side.scores
    if further:
        column[np.searchsorted(codes, np.fromiter(further, dtype=np.int32))] = list(further.values())
    return column


def _by_terms(
    config: RetrieverConfig, sides: Sides, cosines: Mapping[int, float], _: Mapping[int, float], depth: int
) -> FusedScores:
    side = sides.get("keyword") or Side(codes=NO_CODES, scores=np.empty(0))
    order = np.argsort(side.codes)
    codes, scores = side.codes[order], side.scores[order]
    components = {"keyword": scores, "semantic": _column(codes, None, cosines)}
    return FusedScores(scale="bm25", codes=codes, scores=scores, components=components, depth=depth)


def _fused(
    config: RetrieverConfig,
    sides: Sides,
    cosines: Mapping[int, float],
    terms: Mapping[int, float],
    depth: int,
) -> FusedScores:
    """Fuse one query's sides. `cosines` and `terms` hold the scores of candidates that only another side found."""
    codes = np.unique(np.concatenate([side.codes for side in sides.values()]))
    semantic, keyword = _column(codes, sides["semantic"], cosines), _column(codes, sides.get("keyword"), terms)
    share = config.semantic_weight
    if config.used_fusion == "weighted":
        scores = fusion.weighted(semantic, keyword, share, 1 - share)
    elif config.used_fusion == "rrf":
        weights = {"semantic": share, "keyword": 1 - share, "expanded": (1 - share) * config.keyword.synonym_weight}
        ranks = [
            _column(codes, Side(codes=side.codes, scores=np.arange(1.0, len(side.codes) + 1)), {})
            for side in sides.values()
        ]
        scores = fusion.reciprocal_rank(ranks, [weights[name] for name in sides], config.rrf_constant)
    else:
        scores = fusion.distribution_based([_column(codes, side, {}) for side in sides.values()])
    components = {"semantic": semantic, "keyword": np.where(keyword == 0, np.nan, keyword)}
    if "expanded" in sides:
        components["expanded"] = _column(codes, sides["expanded"], {})
    components["fused"] = scores
    return FusedScores(scale=config.used_fusion, codes=codes, scores=scores, components=components, depth=depth)
