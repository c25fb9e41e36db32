from evals.comparison.comparing import moved, movers
from evals.comparison.differences import difference
from evals.report.model import Difference, Report
from tests.support.reports import FALSE_ANSWER, HIT, NDCG, P95, TOKENS, paired, report

ABSTENTION = "scope/abstention"


def differences(first: Report, second: Report) -> list[Difference]:
    names = list(dict.fromkeys([*first.metrics, *second.metrics]))
    return [difference(name, first, second, paired(first, second), restricted=False, seed=0) for name in names]


def test_most_moved_first_and_of_two_that_moved_as_much_the_worse() -> None:
    first = report({NDCG: [0.5, 0.5, 0.5, 0.5, "failed"]})
    second = report({NDCG: [0.6, 0.9, 0.1, 0.5, 0.5]})
    found = moved(paired(first, second), [NDCG])
    assert [one.baseline.id for one in found] == ["q2", "q1", "q0"]
    assert [(one.before, one.after) for one in found] == [(0.5, 0.1), (0.5, 0.9), (0.5, 0.6)]
    assert [round(one.gain, 9) for one in found] == [-0.4, 0.4, 0.1]
    assert found[0].other.scores == second.queries[2].scores


def test_a_gain_is_in_the_metrics_own_direction() -> None:
    first, second = report({FALSE_ANSWER: [1.0, 0.0]}), report({FALSE_ANSWER: [0.0, 1.0]})
    assert [(one.baseline.id, one.gain) for one in moved(paired(first, second), [FALSE_ANSWER])] == [
        ("q1", -1.0),
        ("q0", 1.0),
    ]


def test_a_query_stands_there_once_by_the_metric_by_which_it_moved_most() -> None:
    first = report({NDCG: [0.5, None], HIT: [1.0, None], ABSTENTION: [None, 1.0]})
    second = report({NDCG: [0.2, None], HIT: [0.0, None], ABSTENTION: [None, 0.0]})
    found = moved(paired(first, second), [NDCG, HIT, ABSTENTION])
    assert [(one.baseline.id, one.metric) for one in found] == [("q0", HIT), ("q1", ABSTENTION)]


def test_the_verdict_moves_too() -> None:
    first, second = report({HIT: [1.0, 1.0]}), report({HIT: [1.0, 0.0]})
    [one] = moved(paired(first, second), ["queries/pass_rate"])
    assert (one.baseline.id, one.before, one.after) == ("q1", 1.0, 0.0)


def test_nothing_moved() -> None:
    first = report({NDCG: [0.5]})
    assert moved(paired(first, first), [NDCG]) == []
    assert moved(paired(first, first), []) == []


def test_by_default_one_metric_for_queries_in_scope_and_one_for_the_others() -> None:
    first = report({HIT: [1.0, None], NDCG: [0.5, None], ABSTENTION: [None, 1.0]}, {P95: 1.0})
    assert movers([], differences(first, first)) == [NDCG, ABSTENTION]


def test_what_is_wanted_comes_before_the_default_where_it_is_paired() -> None:
    first = report({HIT: [1.0], NDCG: [0.5]}, {P95: 1.0})
    assert movers([HIT, P95], differences(first, first)) == [HIT]
    assert movers([P95], differences(first, first)) == []


def test_where_no_query_moved_by_the_default_metrics_the_first_that_moved() -> None:
    first, second = report({NDCG: [0.5, 0.5], HIT: [1.0, 0.0]}), report({NDCG: [0.5, 0.5], HIT: [1.0, 1.0]})
    assert movers([], differences(first, second)) == [HIT]
    assert movers([NDCG], differences(first, second)) == [NDCG]


def test_without_the_default_metrics_the_first_that_moved() -> None:
    first, second = report({HIT: [1.0, 1.0], TOKENS: [1.0, 2.0]}), report({HIT: [1.0, 1.0], TOKENS: [1.0, 3.0]})
    assert movers([], differences(first, second)) == [TOKENS]
    assert movers([], differences(first, first)) == []
