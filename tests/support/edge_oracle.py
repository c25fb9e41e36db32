"""What a search must return, by brute force over plain dictionaries; and how ranked results are compared."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from qdrant_client import models

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
        fit = [i for i, p in self.points.items() if given is None or matches(given, p.payload or {}, i)]
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


def matches(given: models.Filter, payload: Mapping[str, Any], point_id: Any) -> bool:
    """Return True if a payload fits a filter."""

    def hits(conditions: Any) -> list[bool]:
        listed = conditions if isinstance(conditions, list) else [conditions]
        return [_holds(one, payload, point_id) for one in listed]

    return (
        (given.must is None or all(hits(given.must)))
        and (not given.should or any(hits(given.should)))
        and (given.must_not is None or not any(hits(given.must_not)))
        and (given.min_should is None or sum(hits(given.min_should.conditions)) >= given.min_should.min_count)
    )


def _holds(condition: Any, payload: Mapping[str, Any], point_id: Any) -> bool:
    match condition:
        case models.Filter():
            held = matches(condition, payload, point_id)
        case models.HasIdCondition():
            held = point_id in condition.has_id
        case models.IsEmptyCondition():
            held = _empty(_at(payload, condition.is_empty.key))
        case models.IsNullCondition():
            held = _null(_at(payload, condition.is_null.key))
        case models.NestedCondition():
            parts = [part for value in _at(payload, condition.nested.key.removesuffix("[]")) for part in value or []]
            held = any(matches(condition.nested.filter, part, None) for part in parts)
        case _:
            held = _field(condition, _at(payload, condition.key))
    return held


def _field(condition: models.FieldCondition, found: list[Any]) -> bool:
    if condition.is_empty is not None:
        return _empty(found) == condition.is_empty
    if condition.is_null is not None:
        return _null(found) == condition.is_null
    if condition.values_count is not None:
        counts = [0 if v is None else len(v) if isinstance(v, list) else 1 for v in found] or [0]
        low, high = condition.values_count.gte or 0, condition.values_count.lt or 0
        return any(low <= count < high for count in counts)
    flat = [one for value in found for one in (value if isinstance(value, list) else [value]) if one is not None]
    return any(_fits(condition, value) for value in flat)


def _fits(condition: models.FieldCondition, value: Any) -> bool:
    wanted: Any = condition.match or condition.range
    if isinstance(wanted, models.MatchValue):
        return _equal(value, wanted.value)
    if isinstance(wanted, models.MatchAny):
        return any(_equal(value, one) for one in wanted.any)
    if isinstance(wanted, models.MatchExcept):
        return not any(_equal(value, one) for one in wanted.except_)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    low = (wanted.gte is None or value >= wanted.gte) and (wanted.gt is None or value > wanted.gt)
    return low and (wanted.lte is None or value <= wanted.lte) and (wanted.lt is None or value < wanted.lt)


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def _at(payload: Any, key: str) -> list[Any]:
    """Return the values at a path; `[]` goes into the elements of an array."""
    found = [payload]
    for step in key.split("."):
        name = step.removesuffix("[]")
        found = [value[name] for value in found if isinstance(value, Mapping) and name in value]
        if step.endswith("[]"):
            found = [one for value in found if isinstance(value, list) for one in value]
    return found


def _empty(found: list[Any]) -> bool:
    return all(value is None or value == [] for value in found)


def _null(found: list[Any]) -> bool:
    return any(value is None or (isinstance(value, list) and None in value) for value in found)
