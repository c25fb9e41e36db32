from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.stats.corrected_mean import Floats
from evals.stats.proved_choice import Proof, Rounds, expected_bound, look
from evals.stats.returned_chunks import Returned

QUERIES, DEPTH = 100, 12
CUTS = (1, 2, 4, 6, 8, 10)


def world(seed: int, agreement: float) -> tuple[Floats, Floats, Returned]:
    """F1 by judge and labels in 12 cells: two rankings, of which the second is better, and six cuts."""
    rng = np.random.default_rng(seed)
    ease = rng.beta(2, 2, (QUERIES, 1))
    relevant = rng.random((QUERIES, DEPTH)) < ease * np.linspace(0.9, 0.1, DEPTH)
    rankings = [np.argsort(rng.normal(np.arange(DEPTH), spread, (QUERIES, DEPTH)), axis=1) for spread in (4.0, 3.0)]
    chunks = np.zeros((QUERIES, 2 * len(CUTS), DEPTH), dtype=np.bool_)
    for cell, (ranking, cut) in enumerate((r, c) for r in rankings for c in CUTS):
        np.put_along_axis(chunks[:, cell], ranking[:, :cut], True, axis=1)
    verdicts = relevant ^ (rng.random(relevant.shape) >= agreement)

    def f1(hits: NDArray[np.bool_]) -> Floats:
        known = np.maximum(1, relevant.sum(axis=1))[:, None]
        scores: Floats = np.minimum(1, 2 * (chunks & hits[:, None]).sum(axis=2) / (chunks.sum(axis=2) + known))
        return scores

    return f1(verdicts), f1(relevant), Returned(chunks=chunks, pools=())


def rounds(
    judged: Floats, proxy: Floats, returned: Returned, *, margin: float, seed: int, batch: int = 10
) -> list[tuple[Rounds, Proof]]:
    """All rounds until the bound is within the margin; verdicts that were not bought are NaN."""
    total, cells = judged.shape
    order = np.random.default_rng(seed).permutation(total)
    judged, proxy = judged[order], proxy[order]
    returned = Returned(chunks=returned.chunks[order], pools=())
    state, history = Rounds(total=total, judged=20, remaining=tuple(range(cells))), list[tuple[Rounds, Proof]]()
    seen = np.full_like(judged, np.nan)
    while True:
        at = np.ix_(range(state.judged), list(state.remaining))
        seen[at] = judged[at]
        state, proof = look(state, seen, proxy, returned, margin=margin, seed=seed)
        history.append((state, proof))
        if proof.bound <= margin or state.judged == total:
            return history
        state = replace(state, judged=min(total, state.judged + batch))


def beginning(n: int) -> Rounds:
    return Rounds(total=QUERIES, judged=n, remaining=tuple(range(2 * len(CUTS))))


def test_all_verdicts_leave_no_doubt() -> None:
    judged, proxy, returned = world(0, 0.8)
    state = beginning(QUERIES)
    after, proof = look(state, judged, proxy, returned, margin=0.0, seed=0)
    assert proof.chosen == judged.mean(axis=0).argmax()
    assert (proof.bound, after.remaining) == (0.0, (proof.chosen,))
    assert proof.estimated.values == pytest.approx(judged.mean(axis=0))
    assert proof.regret == pytest.approx(judged.mean(axis=0).max() - judged.mean(axis=0))
    assert proof.expected(QUERIES) == 0.0


def test_a_margin_of_0_goes_on_until_one_cell_is_left() -> None:
    judged, proxy, returned = world(1, 0.9)
    state, proof = rounds(judged, proxy, returned, margin=0.0, seed=1)[-1]
    assert proof.bound == 0.0
    assert state.remaining == (int(judged.mean(axis=0).argmax()),)


def test_the_same_verdicts_and_seed_give_the_same_rounds() -> None:
    judged, proxy, returned = world(2, 0.9)
    first, again = (rounds(judged, proxy, returned, margin=0.02, seed=5) for _ in range(2))
    assert [state for state, _ in first] == [state for state, _ in again]
    assert [proof.bound for _, proof in first] == [proof.bound for _, proof in again]


def test_cells_leave_and_the_bound_falls() -> None:
    judged, proxy, returned = world(3, 0.93)
    history = rounds(judged, proxy, returned, margin=0.005, seed=3)
    remaining = [set(state.remaining) for state, _ in history]
    assert all(later <= earlier for earlier, later in pairwise(remaining))
    assert all(proof.chosen in state.remaining for state, proof in history)
    assert history[-1][1].bound <= 0.005 < history[0][1].bound
    assert history[-1][1].judged < QUERIES
    assert 0 < history[-1][0].spent < 0.05


def test_what_further_verdicts_would_buy() -> None:
    judged, proxy, returned = world(4, 0.9)
    state, proof = rounds(judged, proxy, returned, margin=0.05, seed=4)[0]
    bounds = [expected_bound(state, proof, returned, verdicts) for verdicts in (0, 100, 300, 10_000)]
    assert bounds[0] == pytest.approx(proof.bound)
    assert sorted(bounds, reverse=True) == bounds
    assert bounds[-1] == 0.0


def test_the_rest_needs_no_verdict_where_all_cells_return_the_same() -> None:
    judged, proxy, returned = world(6, 0.9)
    chunks, scores, labels = returned.chunks.copy(), judged.copy(), proxy.copy()
    for array in (chunks, scores, labels):
        array[30:] = array[30:, :1]
    state = beginning(30)
    unseen = np.where(np.arange(QUERIES)[:, None] < 30, scores, np.nan)
    _, proof = look(state, unseen, labels, Returned(chunks=chunks, pools=()), margin=0.0, seed=0)
    assert proof.chosen == scores.mean(axis=0).argmax()
    assert proof.bound == 0.0


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_queries_prove_nothing(n: int) -> None:
    judged, proxy, returned = world(0, 0.9)
    state, proof = look(beginning(n), judged, proxy, returned, margin=0.03, seed=0)
    assert proof.bound > 0.5
    assert len(state.remaining) == 12


def held(agreement: float, *, useless: bool, draws: int) -> tuple[float, float]:
    """Share of draws in which every statement was true, and mean share of queries judged."""
    true, shares = 0, []
    for seed in range(draws):
        judged, proxy, returned = world(seed, agreement)
        labels = np.full_like(proxy, 0.5) if useless else proxy
        history, truth = rounds(judged, labels, returned, margin=0.03, seed=seed), judged.mean(axis=0)
        true += all(truth.max() - truth[proof.chosen] <= proof.bound + 1e-9 for _, proof in history)
        shares.append(history[-1][1].judged / QUERIES)
    return true / draws, float(np.mean(shares))


def test_what_is_proved_is_true_and_labels_save_verdicts() -> None:
    true, share = held(0.95, useless=False, draws=12)
    assert true == 1
    assert share < held(0.95, useless=True, draws=12)[1]


@pytest.mark.slow
@pytest.mark.parametrize(("agreement", "useless"), [(0.97, False), (0.88, False), (0.7, False), (0.9, True)])
def test_what_is_proved_is_true_in_94_of_100_draws(agreement: float, useless: bool) -> None:
    assert held(agreement, useless=useless, draws=150)[0] >= 0.94
