"""Random collections, filters and queries, with ties on purpose; and how rankings of two engines are compared."""

import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from qdrant_client import models

SIZE = 4
TERMS = 12
KINDS = ("guide", "reference", "tutorial", "né→é")
TAGS = ("ros", "lidar", "imu", "slam")
WORDS = (*KINDS, *TAGS, "absent")
NUMBERS = (0, 1, 2, 3, 2**53, -7, 99)
INDEXES = {
    "kind": "keyword",
    "n": "integer",
    "x": "float",
    "flag": "bool",
    "metadata.tags": "keyword",
    "metadata.depth": "integer",
}
Filter = models.Filter
Field = models.FieldCondition


def point_id(rng: random.Random, upto: int = 60) -> int | str:
    number = rng.randrange(upto)
    return number if rng.random() < 0.6 else str(uuid.UUID(int=number * 2**64 + number))


def dense(rng: random.Random, size: int = SIZE) -> list[float]:
    vector = [float(rng.randint(-2, 2)) for _ in range(size)]
    return vector if any(vector) else [1.0] * size


def sparse(rng: random.Random, terms: int = 5) -> models.SparseVector:
    """Return one to `terms` terms, the values from a few."""
    indices = rng.sample(range(TERMS), rng.randint(1, terms))
    return models.SparseVector(indices=indices, values=[rng.choice((0.5, 1.0, 1.5)) for _ in indices])


def payload(rng: random.Random) -> dict[str, Any]:
    """Return every kind of value, each at times missing, null or empty."""
    inner: dict[str, Any] = {"depth": rng.randint(0, 4)}
    if rng.random() < 0.8:
        inner["tags"] = rng.sample(TAGS, rng.randint(0, 3))
    if rng.random() < 0.5:
        inner["parts"] = [{"a": rng.randint(0, 2), "b": rng.choice("xy")} for _ in range(rng.randint(0, 3))]
    whole: dict[str, Any] = {
        "kind": rng.choice((*KINDS, None)),
        "n": rng.choice((0, 1, 2, 3, 2**53, -7)),
        "x": rng.randint(-4, 4) / 2,
        "flag": rng.random() < 0.5,
        "metadata": inner,
    }
    return {key: value for key, value in whole.items() if rng.random() < 0.85}


def point(rng: random.Random, name: str = "") -> models.PointStruct:
    vectors: dict[str, Any] = {name: dense(rng), "bm25": sparse(rng)}
    if rng.random() < 0.2:
        del vectors[rng.choice(list(vectors))]
    return models.PointStruct(id=point_id(rng), vector=vectors, payload=payload(rng))


def a_filter(rng: random.Random, depth: int = 2) -> models.Filter:

    parts: dict[str, Any] = {}
    for name in rng.sample(("must", "should", "must_not"), rng.randint(1, 2)):
        parts[name] = [_condition(rng, depth) for _ in range(rng.randint(0, 2))]
    return Filter(**parts)


def _condition(rng: random.Random, depth: int) -> Any:
    if depth and rng.random() < 0.3:
        return a_filter(rng, depth - 1)
    return rng.choice(CONDITIONS)(rng)


def _range(rng: random.Random) -> models.Range:
    bounds = {rng.choice(("gte", "gt")): rng.randint(-4, 4) / 2, rng.choice(("lte", "lt")): rng.randint(-2, 8) / 2}
    return models.Range(**{key: bounds[key] for key in rng.sample(list(bounds), rng.randint(1, 2))})


def _match(rng: random.Random, known: Sequence[Any], least: int = 1) -> Any:
    values = rng.sample(known, rng.randint(least, 4))
    one = models.MatchValue(value=values[0] if values else known[0])
    return rng.choice((one, models.MatchAny(any=values)))


def _key(rng: random.Random) -> str:
    return rng.choice(("kind", "n", "metadata.tags", "metadata.parts", "metadata", "absent"))


CONDITIONS: tuple[Callable[[random.Random], Any], ...] = (
    lambda rng: Field(key=rng.choice(("kind", "metadata.tags", "metadata.parts[].b")), match=_match(rng, WORDS, 0)),
    lambda rng: Field(key=rng.choice(("n", "metadata.depth", "metadata.parts[].a")), match=_match(rng, NUMBERS)),
    lambda rng: Field(key="flag", match=models.MatchValue(value=rng.random() < 0.5)),
    lambda rng: Field(key=rng.choice(("n", "x", "metadata.depth", "metadata.parts[].a")), range=_range(rng)),
    lambda rng: models.HasIdCondition(has_id=[point_id(rng) for _ in range(rng.randint(0, 8))]),
    lambda rng: models.IsEmptyCondition(is_empty=models.PayloadField(key=_key(rng))),
    lambda rng: Field(key=_key(rng), is_empty=rng.random() < 0.5),
    lambda rng: Field(key=_key(rng), is_null=rng.random() < 0.5),
)


# Rankings of two engines, which agree but for rounding

TOLERANCE = 1e-6
Ranking = list[tuple[int | str, float]]


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
    assert [i for i, _ in found] == [i for i, _ in expected], f"{what}:\n{found}\n{expected}"
    for (i, a), (_, b) in zip(found, expected, strict=True):
        assert _same(a, b), f"{what}: {i} scores {a}, expected {b}"


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b))
