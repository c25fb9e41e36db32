"""How many queries a proof would take: the least number that is enough, and whether it is."""

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.grid.choice import Choice, ObjectiveScores, choose
from evals.grid.choice.confidence_set import BestSet, best_set
from evals.grid.choice.pairs import Pairs, pair_up
from evals.grid.choice.queries_needed import queries_needed
from evals.grid.choice.resample import resample
from tests.support.populations import population

Floats = NDArray[np.float64]


def compared(values: Floats, resamples: int = 1_000) -> tuple[Pairs, BestSet]:
    strata, rng = np.zeros(len(values), dtype=np.int64), np.random.default_rng(0)
    drawn = resample(values, strata, resamples, rng)
    pairs = pair_up(ObjectiveScores(objective="", values=values, strata=strata), values)
    return pairs, best_set(pairs, drawn, rng)


def needed(values: Floats, cheaper: list[bool], margin: float = 0.02, several: list[bool] | None = None) -> int | None:
    pairs, found = compared(values)
    return queries_needed(pairs, found, np.array(cheaper), np.array(several or [False] * len(cheaper)), margin)


RARE = np.column_stack([np.full(40, 0.9), np.where(np.arange(40) == 7, 0.6, 0.9)])
"""The second cell is behind by 0.3 on one query of 40, by 0.0075 in the mean."""


def test_is_the_least_number_at_which_the_bound_is_within_the_margin_with_power() -> None:
    """By hand for two cells: (40 d − 1 in n + 1 queries) less (2 + 0.8416) standard errors, at −0.02."""
    number = needed(RARE, [False, True])
    assert number is not None

    def bound(n: int) -> float:
        mean = (n * -0.0075 - 1) / (n + 1)
        square = (n * 0.3**2 / 40 + 1) / (n + 1)
        return float(mean - 2.8416212335729143 * np.sqrt((square - mean**2) / n))

    assert bound(number) >= -0.02 > bound(number - 1)


def test_a_wider_margin_takes_fewer_a_worse_cell_more() -> None:
    narrow, wide = needed(RARE, [False, True]), needed(RARE, [False, True], margin=0.05)
    worse = np.column_stack([RARE, np.where(np.isin(np.arange(40), [7, 9]), 0.6, 0.9)])
    assert wide is not None and narrow is not None
    assert wide < narrow
    assert needed(worse[:, [0, 2]], [False, True]) > narrow  # type: ignore[operator]


def test_of_several_cheaper_cells_the_easiest_counts() -> None:
    worse = np.column_stack([RARE, np.where(np.isin(np.arange(40), [7, 9]), 0.6, 0.9)])
    both, easy = needed(worse, [False, True, True]), needed(worse, [False, True, False])
    assert both == pytest.approx(easy, rel=0.2)


def test_cells_behind_by_the_margin_are_never_proved() -> None:
    assert needed(RARE, [False, True], margin=0.0074) is None


def test_no_cheaper_cell_no_number() -> None:
    assert needed(RARE, [False, False]) is None


def test_a_cell_that_stands_for_others_is_behind_its_likes_too() -> None:
    alone, several = needed(RARE, [False, True]), needed(RARE, [False, True], several=[False, True])
    assert several >= alone  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nDCG@10, sparse", "0.7 recall + 0.3 precision", "0.5 recall + 0.5 precision"])
def test_at_that_number_a_cheaper_cell_is_preferred_in_about_four_of_five_draws(name: str) -> None:
    """Were the truth as measured: 80 queries are drawn, and from these as many as are said to be needed."""
    known, rng = population(name), np.random.default_rng(80)

    def chosen(values: Floats, resamples: int) -> Choice:
        scores = ObjectiveScores(objective=name, values=values, strata=np.zeros(len(values), dtype=np.int64))
        return choose(scores, known.cells, resamples=resamples)

    pilot = known.draw(80, rng)
    number = chosen(pilot, 2_000).queries_needed
    assert number is not None and number > 80
    preferred = {
        share: sum(
            choice.recommended is not choice.best
            for choice in (chosen(pilot[rng.integers(0, 80, int(share * number))], 500) for _ in range(60))
        )
        for share in (0.5, 1.0, 2.0)
    }
    assert 33 <= preferred[1.0]
    assert preferred[0.5] < 30
    assert preferred[2.0] > 54
