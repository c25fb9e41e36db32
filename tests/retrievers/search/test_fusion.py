"""Fusion, by hand, against brute force and against qdrant-client's own."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from qdrant_client.hybrid.fusion import distribution_based_score_fusion
from qdrant_client.models import ScoredPoint
from retrievers.search.ranking import Floats

from retrievers.search import sides as fusion

IDS = "abcdefgh"
COSINES = st.dictionaries(st.sampled_from(IDS), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 0.1]))
BM25 = st.dictionaries(st.sampled_from(IDS), st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.25, 31.5]))
WEIGHTS = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
Scores = Mapping[str, float]
"""Scores by the id of a candidate, of those that a side found."""


def union(sides: Sequence[Scores]) -> list[str]:
    """The ids of all candidates."""
    return sorted({name for side in sides for name in side})


def columns(sides: Sequence[Scores]) -> list[Floats]:
    """The sides as columns of all candidates."""
    return [np.asarray([side.get(name, np.nan) for name in union(sides)], dtype=float) for side in sides]


def weighted(semantic: Scores, keyword: Scores, semantic_weight: float, keyword_weight: float) -> dict[str, float]:
    sides = [semantic, keyword]
    by_meaning, by_terms = columns(sides)
    fused = fusion.weighted(by_meaning, by_terms, semantic_weight, keyword_weight)
    return dict(zip(union(sides), fused.tolist(), strict=True))


def reciprocal_rank(lists: Sequence[Sequence[str]], weights: Sequence[float], constant: float) -> dict[str, float]:
    ranks = [{name: float(rank) for rank, name in enumerate(ids, 1)} for ids in lists]
    fused = fusion.reciprocal_rank(columns(ranks), weights, constant)
    return dict(zip(union(ranks), fused.tolist(), strict=True))


def distribution_based(sides: Sequence[Scores]) -> dict[str, float]:
    fused = fusion.distribution_based(columns(sides))
    return dict(zip(union(sides), fused.tolist(), strict=True))


# Weighted


@pytest.mark.parametrize(
    ("semantic", "keyword", "expected"),
    [
        ({"a": 0.8, "b": 0.4}, {"a": 2.0, "b": 4.0}, {"a": 0.71, "b": 0.58}),  # 0.56 + 0.15, 0.28 + 0.3
        ({"a": 0.8, "b": 0.4}, {"b": 4.0}, {"a": 0.56, "b": 0.58}),
        ({"a": 0.8}, {}, {"a": 0.56}),
        ({"a": 0.8}, {"a": 0.0}, {"a": 0.56}),  # no term at all: nothing to divide by
        ({}, {"a": 5.0}, {"a": 0.3}),
        ({}, {}, {}),
        ({"a": 1.0}, {"a": 9.0}, {"a": 1.0}),
    ],
)
def test_weighted_is_the_cosine_and_bm25_as_a_share_of_the_best(
    semantic: dict[str, float], keyword: dict[str, float], expected: dict[str, float]
) -> None:
    assert weighted(semantic, keyword, 0.7, 0.3) == pytest.approx(expected, abs=1e-15)


@given(COSINES, BM25, WEIGHTS)
def test_weighted_is_brute_force_and_from_0_to_1(
    semantic: dict[str, float], keyword: dict[str, float], weight: float
) -> None:
    fused = weighted(semantic, keyword, weight, 1 - weight)
    assert fused.keys() == semantic.keys() | keyword.keys()
    unit = max([*keyword.values(), 0]) or 1
    for name, score in fused.items():
        assert score == weight * semantic.get(name, 0) + (1 - weight) * keyword.get(name, 0) / unit
        assert 0 <= score <= 1 + 1e-12


@given(COSINES, BM25)
def test_weighted_does_not_depend_on_the_scale_of_bm25(semantic: dict[str, float], keyword: dict[str, float]) -> None:
    scaled = {name: 4 * score for name, score in keyword.items()}
    assert weighted(semantic, scaled, 0.7, 0.3) == weighted(semantic, keyword, 0.7, 0.3)


# Reciprocal rank


@pytest.mark.parametrize(
    ("lists", "weights", "constant", "expected"),
    [
        (["ab", "b"], (1, 1), 60, {"a": 1 / 61, "b": 1 / 62 + 1 / 61}),
        (["ab", "b"], (0.7, 0.3), 60, {"a": 0.7 / 61, "b": 0.7 / 62 + 0.3 / 61}),
        (["ab", "ba"], (0.5, 0.5), 60, {"a": 0.5 / 61 + 0.5 / 62, "b": 0.5 / 61 + 0.5 / 62}),
        (["a", ""], (1, 1), 1, {"a": 0.5}),
        (["", ""], (1, 1), 60, {}),
        (["a", "b", "a"], (1, 2, 3), 1, {"a": 2.0, "b": 1.0}),
        (["a", "b"], (1, 0), 60, {"a": 1 / 61, "b": 0.0}),
    ],
)
def test_reciprocal_rank_by_hand(
    lists: Sequence[str], weights: Sequence[float], constant: float, expected: dict[str, float]
) -> None:
    assert reciprocal_rank(lists, weights, constant) == expected


RANKED = st.lists(st.permutations(IDS).flatmap(lambda ids: st.integers(0, 8).map(lambda n: ids[:n])), min_size=1)


@given(RANKED.flatmap(lambda ls: st.tuples(st.just(ls), st.lists(WEIGHTS, min_size=len(ls), max_size=len(ls)))))
def test_reciprocal_rank_adds_a_term_for_each_list_that_has_the_id(
    given_lists: tuple[list[list[str]], list[float]],
) -> None:
    lists, weights = given_lists
    fused = reciprocal_rank(lists, weights, 60)
    assert fused.keys() == {name for ids in lists for name in ids}
    for name, score in fused.items():
        terms = [w / (60 + ids.index(name) + 1) for ids, w in zip(lists, weights, strict=True) if name in ids]
        assert score == pytest.approx(sum(terms), abs=1e-15)


def test_weights_of_reciprocal_rank_weigh() -> None:
    """In Qdrant's own the weight divides the rank, which at a constant of 60 changes next to nothing."""
    fused = reciprocal_rank([["a", "b"], ["b", "a"]], (3, 1), 60)
    assert fused["a"] - fused["b"] == pytest.approx(2 / 61 - 2 / 62)


def test_a_list_without_a_weight_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        reciprocal_rank([["a"], ["b"]], (1,), 60)


# Distribution-based


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ([{"a": 3.0}], {"a": 0.5}),
        ([{"a": 3.0, "b": 3.0}], {"a": 0.5, "b": 0.5}),
        ([{"a": 1.0, "b": 3.0}], {"a": 0.5 - 1 / (6 * 2**0.5), "b": 0.5 + 1 / (6 * 2**0.5)}),  # σ = √2
        ([{"a": 3.0}, {"a": 1.0, "b": 1.0}], {"a": 1.0, "b": 0.5}),
        ([{}, {"a": 2.0}], {"a": 0.5}),
        ([{}, {}], {}),
    ],
)
def test_distribution_based_by_hand(sides: Sequence[Mapping[str, float]], expected: dict[str, float]) -> None:
    assert distribution_based(sides) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("value", [0.1, 0.7, 1e-9, 5.3])
@pytest.mark.parametrize("count", [2, 3, 7, 100])
def test_equal_scores_are_in_the_middle_whatever_their_mean_is_rounded_to(value: float, count: int) -> None:
    assert set(distribution_based([{str(n): value for n in range(count)}]).values()) == {0.5}


@given(st.lists(st.dictionaries(st.integers(0, 9), st.integers(-40, 400).map(lambda n: n / 8)), min_size=1, max_size=3))
def test_distribution_based_is_qdrants(sides: list[dict[int, float]]) -> None:
    responses = [[ScoredPoint(id=i, version=0, score=score) for i, score in side.items()] for side in sides]
    theirs = {point.id: point.score for point in distribution_based_score_fusion(responses, limit=100)}
    ours = distribution_based([{str(i): score for i, score in side.items()} for side in sides])
    assert {int(i): score for i, score in ours.items()} == pytest.approx(theirs, abs=1e-12)


@given(st.dictionaries(st.sampled_from(IDS), st.integers(0, 100).map(float), min_size=2), st.integers(1, 9))
def test_distribution_based_does_not_depend_on_scale_and_origin(side: dict[str, float], factor: int) -> None:
    assume(len(set(side.values())) > 1)
    moved = {name: factor * score + 16 for name, score in side.items()}
    assert distribution_based([moved]) == pytest.approx(distribution_based([side]), abs=1e-9)
