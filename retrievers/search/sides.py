"""Candidates from Qdrant by meaning, by keywords, or both, as ids and scores: every side at one depth, then fused.

Whatever the mode, every candidate has its cosine similarity, which the threshold reads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrievers.config import RetrieverConfig
from retrievers.embedding.sparse import sparse
from retrievers.search import fusion
from retrievers.search.query import EncodedQuery
from retrievers.search.ranking import Ranking, Scores, in_order, undecided
from retrievers.search.requests import Floats, Probe, Wanted, ask, bm25, cosine, scores_of
from retrievers.store import NO_LIMITS, Limits, store_errors
from retrievers.store.stored_chunks import Chunks, without_vector

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Sides = Mapping[str, Scores]
"""What each side found for one query: `semantic`, `keyword`, `expanded`; one without a term to search for is not there.
"""
Ids = Mapping[str, Any]
"""Point ids to the ids as the store gave them."""
NONE: Scores = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """Searches in the configured mode, for the length of one call.

    Attributes:
        client: An open client.
        config: Names the collection, its vectors, the mode and the fusion.
        depth: How many candidates each side searches for and a ranking has at most.
        chunks: Those read so far.
        among: What every candidate must meet.
        whole: Whether the chunks of all candidates will be wanted.
        limits: What the collection allows in one request.
    """

    client: "QdrantClient"
    config: RetrieverConfig
    depth: int
    chunks: Chunks
    among: "models.Filter | None" = None
    whole: bool = True
    limits: Limits = NO_LIMITS

    def rankings(self, queries: Sequence[EncodedQuery]) -> list[Ranking]:
        """What is found for each query: one request for all sides, and one for the scores that only some have.

        Raises:
            CollectionChangedError: The collection was written to meanwhile.
            CollectionStateError: A candidate has no vector, and so no cosine.
            StoreError: The store failed.
        """
        with store_errors(self.config.store, self.config.collection):
            found, ids = self._sides(queries)
            if self.config.mode == "semantic":
                return [
                    Ranking(scale="cosine", scores=one["semantic"], components=one, depth=self.depth) for one in found
                ]
            sides = self._cut(found)
            cosines, terms = self._missing(queries, sides, ids)
        join = _fused if self.config.mode == "hybrid" else _by_terms
        return [join(self.config, *each, self.depth) for each in zip(sides, cosines, terms, strict=True)]

    def _sides(self, queries: Sequence[EncodedQuery]) -> tuple[list[Sides], Ids]:
        """What every side of every query finds, with all that ties at its edge."""
        probes = [(place, name, probe) for place, query in enumerate(queries) for name, probe in self._probes(query)]
        found: list[dict[str, Scores]] = [{} for _ in queries]
        ids: dict[str, Any] = {}
        answers = ask(self.client, self.config, [probe for _, _, probe in probes], self.limits)
        for (place, name, _), hits in zip(probes, answers, strict=True):
            found[place][name] = dict(zip(hits.points, hits.scores, strict=True))
            self.chunks.keep(hits.payloads)
            ids |= hits.points
        return list(found), ids

    def _probes(self, query: EncodedQuery) -> Iterator[tuple[str, Probe]]:
        config = self.config
        if config.mode != "keyword":
            yield "semantic", self._probe(list(query.vector), config.vector_name or None, cosine)
        for name, terms in (("keyword", query.terms), ("expanded", query.expanded)):
            if terms and terms.indices:
                yield name, self._probe(sparse(terms), config.keyword.vector_name, bm25)

    def _probe(self, query: Any, using: str | None, read: Callable[[Floats], Floats]) -> Probe:
        """Payloads come along where all of them are wanted and no two sides would bring the same."""
        along = self.whole and self.config.mode != "hybrid"
        return Probe(query=query, using=using, depth=self.depth, among=self.among, read=read, with_payload=along)

    def _cut(self, found: Sequence[Sides]) -> list[Sides]:
        """Every side at the candidate depth; in the total order where places count, which is under rrf."""
        places = self.config.mode == "hybrid" and self.config.used_fusion == "rrf"
        tied = [
            {name: undecided(side, self.depth, every_place=places) for name, side in sides.items()} for sides in found
        ]
        self.chunks.read(point for names in tied for points in names.values() for point in points)
        return [
            {
                name: {point: side[point] for point in in_order(side, self.depth, self.chunks.ids(names[name]))}
                for name, side in sides.items()
            }
            for sides, names in zip(found, tied, strict=True)
        ]

    def _missing(
        self, queries: Sequence[EncodedQuery], found: Sequence[Sides], ids: Ids
    ) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
        """The cosines, and for weighted fusion the BM25, of candidates that only another side found."""
        pairs = list(zip(queries, found, strict=True))
        cosines = [self._cosines(query, sides, ids) for query, sides in pairs]
        terms = [self._terms(query, sides, ids) for query, sides in pairs]
        scores = scores_of(self.client, self.config, [*cosines, *terms], self.limits)
        for asked, answer in zip(cosines, scores[: len(pairs)], strict=True):
            if len(answer) < len(asked.points):
                without_vector(self.client, self.config, [point for point in asked.points if point not in answer])
        return scores[: len(pairs)], scores[len(pairs) :]

    def _cosines(self, query: EncodedQuery, sides: Sides, ids: Ids) -> Wanted:
        points = _beyond(sides, "semantic", ids)
        return Wanted(query=list(query.vector), using=self.config.vector_name or None, points=points, read=cosine)

    def _terms(self, query: EncodedQuery, sides: Sides, ids: Ids) -> Wanted:
        weighted = self.config.mode == "hybrid" and self.config.used_fusion == "weighted"
        points = _beyond(sides, "keyword", ids) if weighted and "keyword" in sides else {}
        terms = sparse(query.terms) if query.terms else None
        return Wanted(query=terms, using=self.config.keyword.vector_name, points=points, read=bm25)


def _beyond(sides: Sides, name: str, ids: Ids) -> Ids:
    """The points that the other sides found and this one did not."""
    known = sides.get(name, NONE)
    return {point: ids[point] for side in sides.values() for point in side if point not in known}


def _by_terms(config: RetrieverConfig, sides: Sides, cosines: Scores, _: Scores, depth: int) -> Ranking:
    terms = sides.get("keyword", NONE)
    return Ranking(scale="bm25", scores=terms, components={"keyword": terms, "semantic": cosines}, depth=depth)


def _fused(config: RetrieverConfig, sides: Sides, cosines: Scores, terms: Scores, depth: int) -> Ranking:
    """One query's sides as one list. `cosines` and `terms` hold what the sides of meaning and keywords did not find."""
    semantic = {**sides["semantic"], **cosines}
    keyword = {**sides.get("keyword", NONE), **terms}
    share = config.semantic_weight
    if config.used_fusion == "weighted":
        scores = fusion.weighted(semantic, keyword, share, 1 - share)
    elif config.used_fusion == "rrf":
        weights = {"semantic": share, "keyword": 1 - share, "expanded": (1 - share) * config.keyword.synonym_weight}
        scores = fusion.reciprocal_rank(
            [list(side) for side in sides.values()], [weights[name] for name in sides], config.rrf_constant
        )
    else:
        scores = fusion.distribution_based(list(sides.values()))
    components: dict[str, Scores] = {
        "semantic": semantic,
        "keyword": {point: score for point, score in keyword.items() if score},
        **({"expanded": sides["expanded"]} if "expanded" in sides else {}),
        "fused": scores,
    }
    return Ranking(scale=config.used_fusion, scores=scores, components=components, depth=depth)
