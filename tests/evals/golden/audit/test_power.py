"""Provable differences against a simulation, and against the tests that runs are compared with."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from evals.golden.audit.power import FEWEST_CHANGED, LARGEST, deviation_of, power, smallest_difference
from evals.stats.paired import sign_flip
from tests.support.observed import make_case


@pytest.mark.parametrize(("n", "deviation"), [(40, 0.3), (132, 0.3), (400, 0.15)])
def test_a_difference_of_that_size_is_proved_in_80_percent_of_simulated_comparisons(n: int, deviation: float) -> None:
    rng = np.random.default_rng(1)
    least = smallest_difference(deviation, n, binary=False)
    draws = rng.normal(least, deviation, size=(4_000, n))
    share = float((stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean())
    assert share == pytest.approx(0.8, abs=0.025)


def test_hit_rates_differ_provably_only_where_six_queries_change() -> None:
    assert sign_flip(np.ones(FEWEST_CHANGED), 0)[0] < 0.05 < sign_flip(np.ones(FEWEST_CHANGED - 1), 0)[0]
    assert smallest_difference(0.01, 60, binary=True) == FEWEST_CHANGED / 60
    assert smallest_difference(0.01, 60, binary=False) < 0.01
    assert smallest_difference(0.5, 4, binary=True) == 1.0


def test_the_deviation_is_measured_between_runs_or_derived_from_one() -> None:
    first, second, third = ({"a": a, "b": b, "c": 0.5} for a, b in ((0.0, 1.0), (0.0, 1.0), (1.0, 1.0)))
    assert deviation_of([first, second, third])[0] == pytest.approx(sqrt(2) / 3)
    assert deviation_of([first])[0] == pytest.approx(np.std([0.0, 1.0, 0.5]))
    assert deviation_of([]) == deviation_of([{"a": 1.0, "b": 1.0}])
    assert deviation_of([])[0] == LARGEST


def test_all_and_each_split_are_told() -> None:
    cases = [make_case(f"q{n}", split="dev" if n < 30 else "test") for n in range(40)]
    cases += [make_case("out", in_scope=False, split="dev")]
    section = power(cases, {"hit rate": [], "nDCG": []})
    assert list(section.figures["nDCG"]["smallest_difference"]) == ["all", "dev", "test"]
    assert section.figures["hit rate"]["smallest_difference"]["test"] == FEWEST_CHANGED / 10
    assert "(dev, n 30)" in section.lines[1]
