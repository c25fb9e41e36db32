"""A judge against itself: counts by hand, the analysis of variance by scipy, and simulated coverage."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import f_oneway

from evals.collect.observations import Failure, Score, Unscored
from evals.judge.trust.estimate import Floats
from evals.judge.trust.noise import Rejudged, noise_share, self_agreement
from evals.stats import intervals as stats
from evals.stats.intervals import Interval, wilson

TIMEOUT = Failure(type="TimeoutError", message="30 s")


def rejudged(query: str, *pairs: tuple[Any, Any]) -> list[Rejudged]:
    return [
        Rejudged(query_id=query, chunk_id=f"c{place}", first=first, second=second)
        for place, (first, second) in enumerate(pairs)
    ]


def scores(pairs: Any) -> Mapping[str, tuple[Score, Score]]:
    return {f"q{place:03}": (float(first), float(second)) for place, (first, second) in enumerate(pairs)}


class TestSelfAgreement:
    def test_counts_by_hand(self) -> None:
        rows = [*rejudged("a", (1, 1), (0, 0), (0, 1)), *rejudged("b", (1, 0), (0, 0))]
        found = self_agreement(rows, 0)
        assert (found.value, found.n, found.n_queries, found.n_failed) == (0.6, 5, 2, 0)
        assert found.interval.note == "not computable: only 2 queries, 10 are needed"

    def test_a_judge_that_never_changes_its_mind_has_wilsons_interval_by_query(self) -> None:
        rows = [row for query in range(30) for row in rejudged(f"q{query}", (1, 1), (0, 0), (0, 0))]
        found = self_agreement(rows, 0)
        assert (found.value, found.interval) == (1, wilson(30, 30))

    def test_the_interval_holds_the_share(self) -> None:
        rng = np.random.default_rng(1)
        rows = [r for q in range(30) for r in rejudged(f"q{q}", *((1, int(rng.random() < 0.9)) for _ in range(5)))]
        found = self_agreement(rows, 0)
        assert found.value is not None and found.interval.low is not None and found.interval.high is not None
        assert 0.75 < found.interval.low < found.value < found.interval.high < 1

    def test_failures_of_either_pass_leave_bounds_open(self) -> None:
        found = self_agreement(rejudged("a", (1, 1), (0, 1), (1, TIMEOUT), (TIMEOUT, TIMEOUT)), 0)
        assert (found.value, found.n, found.n_failed) == (0.5, 2, 2)
        assert (found.bound_low, found.bound_high) == (0.25, 0.75)

    def test_a_repeated_chunk_counts_once(self) -> None:
        rows = rejudged("a", (1, 1), (0, 1))
        assert self_agreement([*rows, rows[1], rows[1]], 0) == self_agreement(rows, 0)

    def test_nothing_judged_twice(self) -> None:
        found = self_agreement([], 0)
        assert (found.value, found.note) == (None, "no chunk was judged twice")

    @pytest.mark.parametrize(("first", "second"), [(7, 1), (1, -1)])
    def test_what_is_no_verdict_is_refused(self, first: Any, second: Any) -> None:
        with pytest.raises(ValueError, match=r"query 'a', chunk 'c0': the (first|second) verdict must be 0 or 1, got"):
            rejudged("a", (first, second))


class TestNoiseShare:
    def test_hand_computed(self) -> None:
        """Means 0.2, 0.6, 1 (grand mean 0.6): B = 2 (0.16 + 0 + 0.16) / 2 = 0.32; W = (0.02 + 0 + 0) / 3."""
        found = noise_share(scores([(0.1, 0.3), (0.6, 0.6), (1, 1)]), 0)
        assert found.value == pytest.approx(2 * (0.02 / 3) / (0.32 + 0.02 / 3), abs=1e-12)
        assert (found.n, found.n_queries) == (3, 3)
        assert found.interval.note == "not computable: only 3 queries, 10 are needed"

    @given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=2, max_size=40))
    def test_is_one_minus_the_intraclass_correlation_of_scipys_analysis_of_variance(
        self, pairs: list[tuple[int, int]]
    ) -> None:
        """ICC(1,1) = (F − 1) / (F + 1) with two scores a query; below 0 it is taken for 0."""
        assume(len({one for pair in pairs for one in pair}) > 1)
        found = noise_share(scores(pairs), 0)
        assert found.value is not None
        if all(first == second for first, second in pairs):
            assert found.value == 0
            return
        ratio = float(f_oneway(*(np.array(pair, dtype=float) for pair in pairs)).statistic)
        assert found.value == pytest.approx(min(1.0, 1 - (ratio - 1) / (ratio + 1)), abs=1e-9)

    def test_does_not_depend_on_units_order_or_which_pass_was_first(self) -> None:
        pairs = np.random.default_rng(3).random((40, 1)) + np.random.default_rng(4).normal(0, 0.2, (40, 2))
        found = noise_share(scores(pairs), 0)
        again = noise_share(dict(sorted(scores(pairs[:, ::-1] * 7 + 3).items(), reverse=True)), 0)
        assert again.value == pytest.approx(found.value, abs=1e-12)
        assert again.interval.low == pytest.approx(found.interval.low, abs=1e-9)
        assert again.interval.high == pytest.approx(found.interval.high, abs=1e-9)

    def test_scores_that_are_noise_alone(self) -> None:
        """Means vary less than chance would have it: 2W / (B + W) is above 1, and is 1."""
        found = noise_share(scores([(0.4 + place / 100, 0.6 - place / 200) for place in range(10)] * 2), 0)
        assert found.value == 1
        assert (found.interval.low, found.interval.high) == (1, 1)

    def test_scores_that_never_change_have_no_noise_and_no_interval(self) -> None:
        found = noise_share(scores([(x / 20, x / 20) for x in range(20)]), 0)
        assert found.value == 0
        assert found.interval.note == "not computable: scores changed in only 0 queries, 5 are needed"

    def test_few_changes_have_no_interval(self) -> None:
        pairs = [(x / 20, x / 20) for x in range(20)]
        pairs[:4] = [(0.0, 0.2)] * 4
        assert "changed in only 4 queries, 5 are needed" in noise_share(scores(pairs), 0).interval.note
        pairs[4] = (0.4, 0.2)
        assert noise_share(scores(pairs), 0).interval.low is not None

    def test_queries_that_differ_little_have_no_interval(self) -> None:
        found = noise_share(scores([(0.4, 0.6)] * 26 + [(0.9, 0.9)] * 4), 0)
        assert found.interval.note == "not computable: only 4 queries unlike the others, 5 are needed"
        level = noise_share(scores([(0.4, 0.6)] * 30), 0)
        assert (level.value, level.interval.low) == (1, None)

    @pytest.mark.parametrize("rounding", [0.0, 1e-10])
    def test_equal_scores_have_no_variance_to_divide(self, rounding: float) -> None:
        """ragas' perfect average precision is 1 − 1e-10 / relevant: that is no variance either."""
        found = noise_share(scores([(1.0, 1.0 - rounding)] * 20), 0)
        assert (found.value, found.interval) == (None, Interval())
        assert found.note == "all scores are equal: there is no variance to divide"

    @pytest.mark.parametrize(("n", "said"), [(0, "no query was scored twice"), (1, "a single query has no variance")])
    def test_too_few_for_any_variance(self, n: int, said: str) -> None:
        found = noise_share(scores([(0.1, 0.2)] * n), 0)
        assert found.value is None and said in found.note

    def test_queries_without_both_scores_are_left_out_and_counted(self) -> None:
        whole = dict(scores([(0.1, 0.3), (0.6, 0.6), (1, 1)]))
        found = noise_share(
            {**whole, "x": (0.5, TIMEOUT), "y": (Unscored(reason="no reference"), 0.5), "z": (TIMEOUT, TIMEOUT)}, 0
        )
        assert found.value == noise_share(whole, 0).value
        assert (found.n, found.n_failed, found.n_unscored) == (3, 2, 1)

    def test_same_seed_same_interval_other_seed_another(self) -> None:
        pairs = scores(np.random.default_rng(0).random((30, 2)))
        assert noise_share(pairs, 1) == noise_share(pairs, 1)
        assert noise_share(pairs, 1).interval != noise_share(pairs, 2).interval

    @pytest.mark.slow
    @pytest.mark.parametrize("queries", [30, 100])
    @pytest.mark.parametrize(
        ("kind", "flips", "least"), [("share", 0.1, 0.93), ("share", 0.3, 0.93), ("ap", 0.1, 0.89)]
    )
    def test_covers_the_true_share(
        self, kind: str, flips: float, least: float, queries: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Verdicts on five chunks flip in either pass; 600 samples, 999 resamples each.

        The interval of Shrout and Fleiss, which supposes normal scores, holds that of average precision in 86%.
        """
        monkeypatch.setattr(stats, "RESAMPLES", 999)
        rng = np.random.default_rng(queries)
        many = passes(rng, 200_000, flips, kind)
        true = (many[:, 0] - many[:, 1]).var() / 2 / many.var()
        found = [noise_share(scores(passes(rng, queries, flips, kind)), seed).interval for seed in range(600)]
        covered = np.mean([i.low is not None and i.high is not None and i.low <= true <= i.high for i in found])
        assert least <= covered <= 0.985


def passes(rng: np.random.Generator, queries: int, flips: float, kind: str) -> Floats:
    """Scores of two passes over queries with usefulness of their own, (queries, 2)."""
    useful = rng.random((queries, 5)) < rng.beta(1, 2, (queries, 1))
    verdicts = useful[:, None, :] ^ (rng.random((queries, 2, 5)) < flips)
    if kind == "share":
        return np.asarray(verdicts.mean(axis=-1))
    precision = verdicts.cumsum(axis=-1) / np.arange(1, 6)
    return np.asarray((precision * verdicts).sum(axis=-1) / np.maximum(1, verdicts.sum(axis=-1)))
