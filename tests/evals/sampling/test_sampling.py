"""A judged sample of the queries: its corrected means by the definition, and judging in rounds of a random order."""

from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t

from evals.cases.case import Case
from evals.config.judge import JudgeConfig
from evals.sampling.corrected import Sample, corrected, difference, shrunk_weight, weight_of_differences
from evals.sampling.order import judging_order, sample_size, uniform
from evals.sampling.rounds import Rounds, Unjudged, judge_in_rounds, queries_needed
from evals.stats import paired
from evals.stats.best import compare_with_best, planned_looks
from evals.stats.intervals import mean_intervals

Floats = NDArray[np.float64]
Two = tuple[Floats, Floats]


def scores(total: int, columns: int = 1, noise: float = 0.2, seed: int = 0) -> Two:
    rng = np.random.default_rng(seed)
    judged = rng.integers(0, 5, (total, columns)) / 4
    return judged, np.clip(judged + rng.normal(0, noise, judged.shape), 0, 1)


def first(judged: Floats, n: int) -> Floats:
    return np.where(np.arange(len(judged))[:, None] < n, judged, np.nan)


def left_open(residuals: Floats, floor: float, ceiling: float, agree: float, share: float, alpha: float) -> list[float]:
    """Return how far a mean of residuals may be below and above: Student's with a query that was not seen, by hand.

    As far off as the farthest, n - 2 degrees; and by the square of the share that agrees as far as can be.
    """
    n, mean = len(residuals), float(residuals.mean())

    def error(distance: float, free: int, times: float = 1) -> float:
        squares = times * residuals.var() * n + distance**2 * n / (n + 1)
        return float(t.isf(alpha / 2, free) * sqrt(share * squares / n / (n + 1)))

    by_farthest = error(float(np.abs(residuals - mean).max()), n - 2, (n - 1) / (n - 2) * (1 + 1 / n))
    return [
        (1 - agree**2) * by_farthest + agree**2 * (error(distance, n - 1) + share * distance / (n + share))
        for distance in (mean - floor, ceiling - mean)
    ]


def open_of(sample: Sample, column: int, looks: int = 1) -> list[float]:
    foretold, residuals = sample.foretold[:, column], sample.residuals[:, column]
    floor = min(-foretold.max(), residuals.min())
    ceiling = max(1 - foretold.min(), residuals.max())
    agree = float(np.isclose(sample.weight * sample.scores[:, column], foretold[sample.judged], atol=1e-9).mean())
    return left_open(residuals, floor, ceiling, agree, 1 - sample.n / sample.total, 0.05 / looks)


@pytest.mark.parametrize("n", [4, 5, 30])
def test_the_weight_is_the_slope_shrunk_by_the_statistic_of_the_regression(n: int) -> None:
    judged, proxy = scores(n, noise=0.4, seed=3)
    j, p = judged[:, 0], proxy[:, 0]
    slope, explained = np.cov(j, p)[0, 1] / p.var(ddof=1), np.corrcoef(j, p)[0, 1] ** 2
    statistic = (n - 2) * explained / (1 - explained)
    assert shrunk_weight(judged, proxy) == pytest.approx(min(1.0, slope * max(0.0, 1 - 1 / statistic)))
    assert shrunk_weight(judged, proxy / 4) <= 1
    moved = judged + np.linspace(0, 1, n)[:, None]  # what all cells have in common tells no difference
    assert weight_of_differences(moved, proxy) == pytest.approx(weight_of_differences(judged, proxy))


@pytest.mark.parametrize("kind", ["contrary", "constant", "three"])
def test_the_weight_is_nothing_where_nothing_is_known(kind: str) -> None:
    judged, _ = scores(30)
    proxy = {"contrary": 1 - judged, "constant": np.full_like(judged, 0.5), "three": judged}[kind]
    n = 3 if kind == "three" else 30
    assert shrunk_weight(judged[:n], proxy[:n]) == 0


def test_pseudo_values_have_the_mean_and_its_variance() -> None:
    judged, proxy = scores(60, 2)
    sample = corrected(first(judged, 20), proxy)
    assert sample.pseudo.mean(axis=0) == pytest.approx(sample.means)
    of_proxy, of_rest = sample.foretold.var(axis=0, ddof=1), sample.residuals.var(axis=0, ddof=1)
    drawn = sample.foretold[:20]
    both = ((drawn - sample.foretold.mean(axis=0)) * (sample.residuals - sample.residuals.mean(axis=0))).sum(axis=0)
    scale = 3 * np.sqrt((1 - 1 / 60) / (1 - 1 / 20))
    expected = of_proxy * 59 + 19 * scale**2 * of_rest + 2 * scale * both
    assert sample.pseudo.var(axis=0, ddof=1) == pytest.approx(expected / 59)


@pytest.mark.parametrize("agreeing", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weight", [None, 1.0])
def test_the_distances_of_what_is_open_and_of_the_scores_add_in_squares(agreeing: float, weight: float | None) -> None:
    judged, proxy = scores(60, 2, seed=1)
    labels = np.where(np.arange(60)[:, None] < 60 * agreeing, 0.1 + 0.8 * judged, proxy)
    judged = np.where(np.arange(60)[:, None] < 60 * agreeing, labels, judged)
    sample = corrected(np.where(np.arange(60)[:, None] % 3 == 0, judged, np.nan), labels, weight)
    known, (low, high) = np.array(sample.of_these(4)), sample.interval()
    alone = mean_intervals(sample.scores, shares=True)
    for column, mean in enumerate(sample.means):
        below, above = open_of(sample, column, looks=4)
        assert known[:, column] == pytest.approx(np.clip([mean - below, mean + above], 0, 1))
        own = [abs(sample.scores[:, column].mean() - end[column]) for end in alone]
        reach = [sqrt(20 / 60 * a**2 + b**2) for a, b in zip(own, open_of(sample, column), strict=True)]
        down, up = (min(each, max(own)) for each in reach)
        assert (low[column], high[column]) == pytest.approx((max(0.0, mean - down), min(1.0, mean + up)))


def test_what_lacks_a_query_corrects_nothing_or_counts_in_no_column() -> None:
    judged, proxy = scores(40, 2)
    known = first(judged, 15)
    sample = corrected(known, np.where(np.arange(40)[:, None] == 39, np.nan, proxy))
    assert sample.weight == 0 and sample.means == pytest.approx(judged[:15].mean(axis=0))
    known[3, 1] = np.nan
    assert corrected(known, proxy).n == 14


def test_nine_queries_have_no_interval_unless_all_are_on_a_bound() -> None:
    judged, proxy = scores(40)
    assert np.isnan(np.array(corrected(first(judged, 9), proxy).interval())).all()
    sample = corrected(first(np.ones((40, 1)), 9), np.ones((40, 1)))
    assert np.isfinite(np.array([*sample.interval(), *sample.of_these(looks=1)])).all()
    assert sample.of_these(looks=1)[0] < 0.9


def runs(n: int, seed: int = 3, noise: float = 0.1, total: int = 60) -> tuple[Two, Two]:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 4, total) / 4
    both = base, np.clip(base + 0.1 * (rng.random(total) < 0.6), 0, 1)
    labels = [np.clip(each + rng.normal(0, noise, total), 0, 1) for each in both]
    known = [np.where(np.arange(total) < n, each, np.nan) for each in both]
    return (known[0], known[1]), (labels[0], labels[1])


def test_all_judged_is_the_paired_comparison() -> None:
    judged, proxies = runs(60)
    assert difference(judged, proxies, 0) == (paired.compare(judged[0].tolist(), judged[1].tolist(), 0), 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_estimate_is_that_of_the_differences_and_its_interval_of_their_parts(seed: int) -> None:
    judged, proxies = runs(30, seed, noise=0.02)
    found, weight = difference(judged, proxies, 0)
    q, d = proxies[1] - proxies[0], (judged[1] - judged[0])[:30]
    assert 0 < weight == shrunk_weight(d[:, None], q[:30, None])
    mean = d.mean() + weight * (q.mean() - q[:30].mean())
    assert found.difference == pytest.approx(mean)
    assert found.other - found.baseline == pytest.approx(found.difference) and found.n == 30
    residuals, ties = d - weight * q[:30], float((np.abs(d) <= 1e-9).mean())
    p_test = paired.sign_flip(weight * q + np.append(2 * residuals, np.zeros(30)), 0)
    largest = max(1.0, float(np.abs(residuals).max()))
    below, above = left_open(residuals, -largest, largest, ties, 0.5, 0.05)
    low, high = (float(end[0]) for end in paired.difference_intervals(d[:, None], 1.0))
    down, up = sqrt(0.5 * (d.mean() - low) ** 2 + below**2), sqrt(0.5 * (high - d.mean()) ** 2 + above**2)
    expected, p = paired.agreed(mean - down, mean + up, p_test)
    assert (found.interval.low, found.interval.high, found.p) == pytest.approx((expected.low, expected.high, p))


# Rounds: what is asked, what each look rests on, and what is true of all verdicts


def world(seed: int, total: int = 90, behind: float = 0.25, cells: int = 6) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    scores = np.clip(rng.normal(0.7, 0.2, (total, 1)) + rng.normal(0, 0.1, (total, cells)), 0, 1)
    scores = np.clip(scores - np.abs(np.arange(cells) - 2) * behind / 3, 0, 1)
    return scores, np.clip(scores + rng.normal(0, 0.1, scores.shape), 0, 1)


class Judge:
    def __init__(self, scores: Floats, most: int = 1_000) -> None:
        self.scores, self.most, self.asked = scores, most, list[tuple[list[int], list[int]]]()

    def __call__(self, rows: Any, cells: Any) -> tuple[Floats, bool]:
        self.asked.append((rows.tolist(), np.flatnonzero(cells).tolist()))
        return self.scores[rows][:, cells], int(rows[-1]) < self.most

    def looks(self, proxy: Floats, margin: float = 0.0, most: int = 1000, seed: int = 0, **others: Any) -> list[Rounds]:
        results = np.arange(proxy.size).reshape(proxy.shape)
        queries: Any = {"proxy": proxy, "results": results, "alone": None, "span": 1.0, **others}
        return [*judge_in_rounds(self, Unjudged(**queries), margin=margin, most=most, seed=seed)]

    def rounds(self, proxy: Floats, margin: float = 0.0, **others: Any) -> Rounds:
        return self.looks(proxy, margin, **others)[-1]


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_a_proof_is_true_of_all_verdicts_and_asks_only_about_cells_that_are_left(seed: int, margin: float) -> None:
    scores, proxy = world(seed)
    judge = Judge(scores)
    looks = judge.looks(proxy, margin)
    found = looks[-1]
    assert found.chosen is not None
    below = scores.mean(axis=0).max() - scores.mean(axis=0)
    assert below[found.chosen] <= found.within[found.chosen] + 1e-9
    assert found.within[found.chosen] <= margin or found.n == len(scores)
    assert np.isfinite(found.within).tolist() == found.remaining.tolist()
    assert found.remaining[int(below.argmin())] and found.users[int(below.argmin())]
    assert [row for rows, _ in judge.asked for row in rows] == list(range(found.n))
    ends = [rows[-1] + 1 for rows, _ in judge.asked]
    assert [look.n for look in looks] == ends == planned_looks(len(scores))[: len(ends)]
    assert found.looks == len(planned_looks(len(scores)))
    for cell in range(6):
        assert found.judged_on[cell] == max(rows[-1] + 1 for rows, cells in judge.asked if cell in cells)
    if found.n == len(scores):
        assert (found.within[found.chosen], below[found.chosen]) == (0.0, 0.0)
    for look in looks[:-1]:
        assert look.chosen is not None and look.within[look.chosen] > margin


@pytest.mark.parametrize(("span", "power"), [(0.2, 1), (1.0, 1), (1.0, 6)])
def test_a_look_rests_on_the_comparison_of_corrected_scores(span: float, power: int) -> None:
    scores, proxy = (each**power for each in world(4, behind=0.05, cells=20))
    [found] = Judge(scores).looks(proxy, 0.01, most=20, span=span, seed=7)
    assert (found.n, found.looks) == (20, 1)
    own = scores[:20]
    sample = corrected(np.vstack([own, np.full((70, 20), np.nan)]), proxy, weight_of_differences(own, proxy[:20]))
    values = sample.residuals + sample.foretold.mean(axis=0)
    here = compare_with_best(values, span=span, looks=[20, 90], seed=7)
    assert np.nanmax(here.quantiles) > 2, "else the seed would have no part in it"
    regret, near = -here.lower, -here.lower <= max(0.01, -here.lower.max())
    chosen = max(np.flatnonzero(near).tolist(), key=lambda cell: values.mean(axis=0)[cell])
    assert found.chosen == chosen and found.within[chosen] == pytest.approx(regret[chosen])
    kept = here.members | (np.arange(20) == chosen)
    assert found.remaining.tolist() == kept.tolist()
    assert found.within[kept] == pytest.approx(regret[kept])
    users = compare_with_best(sample.pseudo, span=span, judged=20, seed=7).members
    assert found.users.tolist() == users.tolist()


def test_in_place_of_a_failed_verdict_stands_what_the_labels_let_expect() -> None:
    scores, proxy = world(5)
    holed = scores.copy()
    holed[3, 2] = holed[11, :] = np.nan
    whole = np.delete(np.arange(20), [3, 11])
    weight = shrunk_weight(scores[whole], proxy[whole])
    expected = scores[whole].mean(axis=0) + weight * (proxy[:20] - proxy[whole].mean(axis=0))
    filled = scores.copy()
    filled[3, 2], filled[11, :] = expected[3, 2], expected[11]
    made, by_hand = (Judge(each).rounds(proxy, 0.01, most=20) for each in (holed, filled))
    assert made.within == pytest.approx(by_hand.within, nan_ok=True)
    assert (made.chosen, made.n) == (by_hand.chosen, by_hand.n)
    [never] = Judge(np.full_like(scores, np.nan)).looks(proxy)
    assert (never.chosen, never.n) == (None, 20)


@pytest.mark.parametrize(("most", "looks"), [(10, []), (20, [20]), (24, [20, 23])])
def test_where_a_budget_ends_the_looks_before_it_count(most: int, looks: list[int]) -> None:
    scores, proxy = world(1, behind=0.02)
    made = Judge(scores, most).looks(proxy, 0.001)
    found = made[-1]
    assert [look.n for look in made if look.chosen is not None] == looks
    assert (found.chosen is None) == bool(np.isnan(found.within).all()) == (not looks)
    assert found.n == (looks[-1] if looks else 20)
    assert found.users.all() or looks


@pytest.mark.parametrize(("most", "looks"), [(7, [7]), (25, [20, 23, 25]), (200, [20, 23, 26, 30])])
def test_no_more_is_judged_than_was_asked_for(most: int, looks: list[int]) -> None:
    scores, proxy = world(1, total=30, behind=0.01)
    assert [look.n for look in Judge(scores).looks(proxy, 1e-6, most=most)] == looks


def test_the_cell_of_the_least_bound_is_chosen_before_the_one_of_the_best_mean() -> None:
    apart = np.where(np.arange(90) % 2, 0.3, -0.3) + 0.01
    scores = 0.5 + np.column_stack([apart, np.zeros(90), -apart])
    found = Judge(scores).rounds(np.zeros_like(scores), most=20)
    assert scores[:20].mean(axis=0).argmax() == 0 and found.remaining.all()
    assert found.chosen == 1 and found.within[1] < found.within[0]


@pytest.mark.parametrize(
    ("others", "behind", "users"), [(40, 0.8, [0]), (40, 1.8, [1]), (10, 2.2, [0]), (9, 2.2, [0, 1])]
)
def test_how_kinds_of_queries_differ_is_no_chance_for_users(others: int, behind: float, users: list[int]) -> None:
    """The first is ahead by 0.5 on each in scope, and in all but once; the others may be too few to be a kind."""
    scores = np.tile([0.8, 0.3], (60, 1))
    alone = np.vstack([np.zeros((60, 2)), np.tile([0.0, behind], (others, 1))])
    found = Judge(scores).rounds(np.zeros_like(scores), alone=alone)
    assert np.flatnonzero(found.users).tolist() == users and found.chosen == users[0]


@pytest.mark.parametrize(("total", "most"), [(1, 90), (90, 1)])
def test_one_query_compares_nothing(total: int, most: int) -> None:
    scores, proxy = world(1, total)
    found = Judge(scores).rounds(proxy, most=most)
    assert (found.chosen, found.n) == (None, 1) and found.remaining.all() and found.users.all()


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_so_many_queries_are_needed_that_the_interval_is_at_most_a_quarter_wider(noise: float) -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 5, (200, 3)) / 4
    scores = np.clip(labels + rng.normal(0, noise, labels.shape), 0, 1)
    scores[40:] = np.nan
    sample, equal = corrected(scores, labels), np.abs(scores - labels)[:40] < 1e-9
    unseen = (equal.mean(axis=0) ** 2).sum() / 40
    variance, rest = (values.var(axis=0).sum() + unseen for values in (sample.scores, sample.residuals))

    def width(n: int) -> float:
        return float(np.sqrt(variance / 200 + (1 / n - 1 / 200) * rest))

    assert queries_needed(scores, labels) == next(n for n in range(1, 201) if width(n) <= 1.25 * width(200))


@pytest.mark.parametrize("score", [0.0, 0.5, 1 - 1e-10])
def test_equal_scores_do_not_prove_that_no_other_would_come(score: float) -> None:
    scores = np.where(np.arange(200)[:, None] < 20, score, np.nan)
    assert queries_needed(scores, np.zeros((200, 1))) == 128, "as of any scores without a proxy: 200 / 1.25²"
    labels = np.random.default_rng(1).integers(0, 2, (200, 1)).astype(float)
    by_label = np.where(np.arange(200)[:, None] < 20, labels, np.nan)
    assert 20 < queries_needed(by_label, labels) < 60, "a proxy that was never wrong may be wrong on others"


def test_a_name_has_a_number_of_its_own_from_0_to_1() -> None:
    found = [uniform(seed, "case", str(number)) for seed in (0, 1) for number in range(1_000)]
    assert 0 <= min(found) and max(found) < 1 and len(set(found)) == 2_000
    assert found != [uniform(0, "other", str(number)) for number in range(2_000)]
    assert fmean(found) == pytest.approx(0.5, abs=0.03)


def test_the_order_is_that_of_the_cases_whatever_theirs_and_how_often_they_come() -> None:
    inside = [Case(id=f"q{number}", query="q", relevant_ids={"a": 1}) for number in range(30)]
    cases = [*inside, Case(id="soup", query="q", in_scope=False)]
    assert judging_order(cases, 7) == judging_order([*reversed(cases), *cases], 7) != judging_order(cases, 8)
    assert sorted(judging_order(cases, 7)) == sorted(case.id for case in inside)


@pytest.mark.parametrize(
    ("written", "queries", "size"),
    [
        ("all", 66, 66), ("0.1", 230, 23), (0.1, 66, 10), (0.5, 66, 33), (0.1, 8, 8), ("40", 66, 40), (400, 66, 66),
        ("auto", 66, 20), ("auto", 12, 12),
    ],
)  # fmt: skip
def test_the_size_of_the_sample(written: object, queries: int, size: int) -> None:
    assert sample_size(JudgeConfig.model_validate({"sample": written}).sample, queries) == size
