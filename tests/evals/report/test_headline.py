"""Which metrics the terminal shows beside those that have a criterion."""

import pytest

from evals.report.headline import deepest, headline

SHALLOW = ["ranking/ndcg_at_3", "ranking/ndcg_at_5", "ranking/precision_at_5", "scope/auroc"]
DEEP = [*SHALLOW, "ranking/ndcg_at_10", "candidates/ndcg_at_10", "candidates/mrr_at_10"]


def test_a_ranking_metric_is_shown_at_the_deepest_that_was_measured() -> None:
    assert headline(SHALLOW) == ["ranking/ndcg_at_5", "scope/auroc"]
    assert headline(DEEP) == ["scope/auroc", "ranking/ndcg_at_10", "candidates/ndcg_at_10"]


def test_of_several_runs_at_the_deepest_that_all_have() -> None:
    assert headline(SHALLOW, DEEP) == ["ranking/ndcg_at_5", "scope/auroc", "candidates/ndcg_at_10"]


@pytest.mark.parametrize(
    ("pattern", "measured", "name"),
    [
        ("ranking/ndcg_at_K", [["ranking/ndcg_at_1", "ranking/ndcg_at_10", "ranking/ndcg_at_5"]], "ranking/ndcg_at_10"),
        ("ranking/ndcg_at_K", [["ranking/ndcg_at_1"], ["ranking/ndcg_at_3"]], "ranking/ndcg_at_3"),
        ("ranking/ndcg_at_K", [["ranking/ndcg_at_3"], []], "ranking/ndcg_at_3"),
        ("ranking/ndcg_at_K", [["ranking/mrr_at_1"]], "ranking/ndcg_at_K"),
        ("scope/*", [["scope/auroc"]], "scope/*"),
    ],
)
def test_the_deepest_of_a_measure(pattern: str, measured: list[list[str]], name: str) -> None:
    assert deepest(pattern, *measured) == name
