"""Does a query give the same result again."""

import pytest

from evals.collect.observations import DeterminismPass, Observed
from evals.metrics.timing import max_score_delta, rate
from evals.stats import intervals as stats
from tests.support.observed import make_context

Call = tuple[str, bool, float | None]
SHIFTED: Call = ("b", True, 0.25)
SWAPPED: Call = ("c", True, 0.0)


def same(query_id: str) -> Call:
    return query_id, False, 0.0


def observed(*calls: Call) -> Observed:
    ids, changed, deltas = zip(*calls, strict=True)
    return Observed(observations=(), repetitions=DeterminismPass(query_ids=ids, changed=changed, score_deltas=deltas))


def test_all_the_same() -> None:
    found = rate(observed(same("a"), same("a"), same("b"), same("b")), make_context())
    expected = stats.wilson(2, 2)
    assert (found.value, found.n, found.note) == (1.0, 2, "")
    assert (found.ci_low, found.ci_high) == (expected.low, expected.high)


def test_counts_queries_not_repetitions() -> None:
    """One change in three repetitions makes a query different; n is what was asked, not how often."""
    found = rate(observed(same("a"), same("a"), same("a"), same("b"), SHIFTED, same("b")), make_context())
    assert (found.value, found.n) == (0.5, 2)


def test_any_change_counts() -> None:
    found = rate(observed(same("a"), SHIFTED, SHIFTED, SWAPPED), make_context())
    assert found.value == pytest.approx(1 / 3)


def test_the_largest_change_of_a_score() -> None:
    found = max_score_delta(observed(same("a"), SWAPPED, SHIFTED), make_context())
    assert (found.value, found.n, found.ci_low, found.note) == (0.25, 3, None, "a maximum has no interval")


def test_a_retriever_without_scores_has_a_rate_and_no_change_of_scores() -> None:
    unscored: list[Call] = [("a", False, None), ("b", True, None)]
    found = rate(observed(*unscored), make_context())
    assert found.value == 0.5
    change = max_score_delta(observed(*unscored), make_context())
    assert (change.value, change.n_unscored, change.note) == (None, 2, "the retriever gives no scores")


@pytest.mark.parametrize("metric", [rate, max_score_delta])
def test_without_repetitions_there_is_no_value_but_a_reason(metric: object) -> None:
    assert callable(metric)
    found = metric(Observed(observations=()), make_context())
    assert (found.value, found.n, found.note) == (None, 0, "no query was repeated")
