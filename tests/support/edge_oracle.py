"""What a search must return, by brute force over plain points; and how ranked results are compared.

Which payloads a filter lets pass is what qdrant-client's own local mode says.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from qdrant_client import models
from qdrant_client.local.payload_filters import check_filter

TOLERANCE = 1e-6
Ranking = list[tuple[int | str, float]]


class Oracle:
    """The points that a collection should hold."""

    def __init__(self, distance: str, name: str = "") -> None:
        self.distance = distance
        self.name = name
        self.points: dict[int | str, models.PointStruct] = {}

    def upsert(self, points: Sequence[models.PointStruct]) -> None:
        """Store or replace."""
        self.points |= {point.id: point for point in points}  # type: ignore[misc]

    def chosen(self, given: models.Filter | None) -> list[int | str]:
        """Return the ids that fit a filter, numbers before UUIDs."""
        fit = [i for i, p in self.points.items() if given is None or check_filter(given, p.payload or {}, i, {})]
        return sorted(fit, key=lambda i: (isinstance(i, str), i))

    def dense(self, query: Sequence[float], given: models.Filter | None) -> Ranking:
        """Return all points that have a dense vector and fit, best first."""
        rows = {i: self._vector(i, self.name) for i in self.chosen(given)}
        found = [(i, SCORES[self.distance](np.asarray(query), np.asarray(row))) for i, row in rows.items() if row]
        return sorted(found, key=lambda pair: -pair[1])

    def sparse(self, query: models.SparseVector, given: models.Filter | None) -> Ranking:
        """Return all points that share a term with the query and fit, best first, by dot product with IDF."""
        rows = {i: dict(zip(v.indices, v.values, strict=True)) for i in self.points if (v := self._vector(i, "bm25"))}
        total = len(rows)
        idf = {}
        for term in query.indices:
            having = sum(term in row for row in rows.values())
            idf[term] = math.log((total - having + 0.5) / (having + 0.5) + 1)
        asked = dict(zip(query.indices, query.values, strict=True))
        found = [
            (i, sum(weight * idf[term] * rows[i][term] for term, weight in asked.items() if term in rows[i]))
            for i in self.chosen(given)
            if i in rows and asked.keys() & rows[i].keys()
        ]
        return sorted(found, key=lambda pair: -pair[1])

    def _vector(self, point_id: int | str, name: str) -> Any:
        vectors = self.points[point_id].vector
        return vectors.get(name) if isinstance(vectors, dict) else vectors if name == "" else None


def cosine(a: Any, b: Any) -> float:
    """Return 0 for a vector of zeros."""
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else 0.0


SCORES: Mapping[str, Callable[[Any, Any], float]] = {
    "Cosine": cosine,
    "Dot": lambda a, b: float(a @ b),
}


def top(search: Callable[[int], Ranking], count: int) -> Ranking:
    """Return the first `count` of a search (limit to results), equal scores by id; ties at the edge are included."""
    limit = count + 1
    while True:
        found = search(limit)
        if len(found) < limit or not _same(found[count - 1][1], found[-1][1]):
            return ordered(found)[:count]
        limit *= 2


def ordered(found: Ranking) -> Ranking:
    """Return groups of equal scores (to the tolerance) sorted by id, numbers before UUIDs."""
    groups: list[Ranking] = []
    for pair in found:
        if groups and _same(groups[-1][-1][1], pair[1]):
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return [pair for group in groups for pair in sorted(group, key=lambda p: (isinstance(p[0], str), p[0]))]


def assert_same(found: Ranking, expected: Ranking, what: str) -> None:
    """Check for the same ids in the same order, and the same scores."""
    assert [i for i, _ in found] == [i for i, _ in expected], f"{what}:\n{found}\n{expected}"
    for (i, a), (_, b) in zip(found, expected, strict=True):
        assert _same(a, b), f"{what}: {i} scores {a}, expected {b}"


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b))
