"""Maximal marginal relevance against a slow reference, LangChain's, and hand-picked vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from numpy.typing import NDArray
from retrievers.rerank.reranking import Pick, Pool, diversify, mmr_order
from retrievers.retriever.stages import reordered

from retrievers.config import RetrieverConfig
from retrievers.store.chunks import ChunkTable
from tests.support.candidates import found_candidates

Vectors = NDArray[np.float64]
LAMBDAS = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])


def reference(relevance: Sequence[float], vectors: Vectors, lambda_: float) -> list[tuple[int, float]]:
    """The definition, word by word."""

    def likeness(one: int, other: int) -> float:
        a, b = vectors[one], vectors[other]
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    picked: list[tuple[int, float]] = []
    while len(picked) < len(relevance):
        left = [i for i in range(len(relevance)) if i not in [one for one, _ in picked]]
        nearest = {i: max([likeness(i, one) for one, _ in picked], default=0.0) for i in left}
        best = max(left, key=lambda i: (lambda_ * relevance[i] - (1 - lambda_) * nearest[i], -i))
        picked.append((best, 1 - nearest[best]))
    return picked


def gains(relevance: Sequence[float], vectors: Vectors, lambda_: float, order: Sequence[int]) -> list[float]:
    """Return the lead of each pick over the next best at its turn."""
    margins = []
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for turn, index in enumerate(order[:-1]):
        nearest = (unit @ unit[list(order[:turn])].T).max(axis=1) if turn else np.zeros(len(order))
        gain = lambda_ * np.asarray(relevance) - (1 - lambda_) * nearest
        margins.append(gain[index] - max(gain[i] for i in order[turn + 1 :]))
    return margins


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[float], Vectors]:
    """Relevances, some of them equal, and vectors in general position."""
    count = draw(st.integers(1, 9))
    relevance = draw(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.55, 0.9]), min_size=count, max_size=count))
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    return sorted(relevance, reverse=True), generator.normal(size=(count, 3))


@given(worlds(), LAMBDAS)
def test_the_order_and_the_diversities_are_those_of_the_definition(
    world: tuple[list[float], Vectors], lambda_: float
) -> None:
    relevance, vectors = world
    picks = mmr_order(relevance, vectors, lambda_)
    expected = reference(relevance, vectors, lambda_)
    assert [pick.index for pick in picks] == [index for index, _ in expected]
    assert [pick.diversity for pick in picks] == pytest.approx([diversity for _, diversity in expected], abs=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.3, 0.5, 0.7, 1.0]))
def test_the_order_is_langchains(seed: int, count: int, lambda_: float) -> None:
    """Theirs takes the vectors of query and texts, so relevances here are cosines; equal gains are left out."""
    generator = np.random.default_rng(seed)
    query, vectors = generator.normal(size=4), generator.normal(size=(count, 4))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = list(unit @ (query / np.linalg.norm(query)))
    theirs = maximal_marginal_relevance(query, vectors.tolist(), lambda_mult=lambda_, k=count)
    assume(min(gains(cosines, vectors, lambda_, theirs), default=1) > 1e-9)
    assert [pick.index for pick in mmr_order(cosines, vectors, lambda_)] == theirs


def test_no_diversity_is_the_order_of_relevance_and_ties_keep_theirs() -> None:
    vectors = np.random.default_rng(1).normal(size=(5, 3))
    assert [pick.index for pick in mmr_order([0.9, 0.5, 0.5, 0.5, 0.1], vectors, 1.0)] == [0, 1, 2, 3, 4]


def test_an_equal_text_comes_last_and_is_not_diverse() -> None:
    """By hand, λ = 0.7: the twin of the first gains 0.7 · 0.9 − 0.3 · 1 = 0.33, the other 0.7 · 0.5 − 0 = 0.35."""
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert mmr_order([0.9, 0.9, 0.5], vectors, 0.7) == [
        Pick(index=0, diversity=1.0),
        Pick(index=2, diversity=1.0),
        Pick(index=1, diversity=0.0),
    ]


def test_all_texts_equal_keep_their_order() -> None:
    picks = mmr_order([0.5] * 4, np.ones((4, 3)), 0.7)
    assert [pick.index for pick in picks] == [0, 1, 2, 3]
    assert [pick.diversity for pick in picks] == pytest.approx([1.0, 0, 0, 0], abs=1e-12)
    assert min(pick.diversity for pick in picks) >= 0


def test_the_length_of_a_vector_does_not_count() -> None:
    generator = np.random.default_rng(2)
    vectors, lengths = generator.normal(size=(8, 3)), generator.uniform(0.1, 9, size=(8, 1))
    relevance = sorted(generator.uniform(size=8), reverse=True)
    plain, stretched = mmr_order(relevance, vectors, 0.7), mmr_order(relevance, vectors * lengths, 0.7)
    assert [pick.index for pick in plain] == [pick.index for pick in stretched]


def test_a_vector_of_zeros_is_like_no_other() -> None:
    picks = mmr_order([0.9, 0.8, 0.7], np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), 0.5)
    assert [(pick.index, pick.diversity) for pick in picks] == [(0, 1.0), (1, 1.0), (2, 0.0)]


def test_an_opposite_is_more_diverse_than_a_stranger() -> None:
    picks = mmr_order([0.5, 0.5, 0.5], np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), 0.5)
    assert [(pick.index, pick.diversity) for pick in picks] == [(0, 1.0), (2, 2.0), (1, 1.0)]


def test_nothing_is_ordered_as_nothing() -> None:
    assert mmr_order([], np.zeros((0, 3)), 0.7) == []


def test_candidates_keep_their_scores_and_gain_place_and_diversity() -> None:
    """Relevance is the cosine, whatever the candidates are ordered by: the second has the higher one."""
    chunks = ChunkTable(None, RetrieverConfig())  # type: ignore[arg-type]
    for code in chunks.codes([1, 2, 3]).tolist():
        chunks.keep(code, {})
    scores, cosines = np.array([0.03, 0.02, 0.01]), np.array([0.4, 0.9, 0.8])
    components = {"semantic": cosines, "fused": scores}
    found = found_candidates(range(3), scores.tolist(), components, chunks=chunks, scale="rrf")
    pool = Pool(query="q", cosines=cosines.tolist(), vectors=np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]))
    moved = reordered(found, diversify(pool, 0.7), None, chunks)
    shown: list[tuple[Any, ...]] = [
        (c.chunk.point_id, c.rank, c.score, c.score_scale, c.original_rank, c.original_score) for c in moved
    ]
    assert shown == [
        ("2", 1, 0.02, "rrf", 2, 0.02),
        ("1", 2, 0.03, "rrf", 1, 0.03),
        ("3", 3, 0.01, "rrf", 3, 0.01),
    ]
    assert [c.scores for c in moved] == [
        {"semantic": 0.9, "fused": 0.02, "diversity": 1.0},
        {"semantic": 0.4, "fused": 0.03, "diversity": 1.0},
        {"semantic": 0.8, "fused": 0.01, "diversity": 0.0},
    ]
    assert list(found.columns) == ["semantic", "fused"], "what is given is not changed"
