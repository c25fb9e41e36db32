"""Golden queries without labels, and what may score them."""

import re
from typing import Any

import pytest

from evals.cases.reading import GoldenSet, golden_set
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError, ExperimentError
from evals.experiment.inputs import check_scored, load_inputs

LABELLED: dict[str, Any] = {"id": "l", "query": "how?", "relevant_ids": {"a": 1}}
ANSWERED: dict[str, Any] = {"id": "a", "query": "why?", "reference_answer": "So."}
BARE: dict[str, Any] = {"id": "b", "query": "when?"}
OUTSIDE: dict[str, Any] = {"id": "o", "query": "soup?", "in_scope": False}
JUDGE = {"model": "cohere:command-a-03-2025"}
PRECISION = "ragas/llm_context_precision"


def golden(*rows: dict[str, Any]) -> GoldenSet:
    return golden_set(rows)


def config(**settings: Any) -> ExperimentConfig:
    return ExperimentConfig.model_validate({"name": "x", "dataset": {"path": "x.jsonl"}, **settings})


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        ((LABELLED, OUTSIDE), {}),
        ((ANSWERED, OUTSIDE), {"judge": JUDGE}),
        ((BARE,), {"judge": JUDGE}),
        (
            (LABELLED, ANSWERED),
            {"judge": JUDGE, "sweep": {"top_k": [1, 2]}, "objective": {"metrics": "ranking/ndcg_at_3"}},
        ),
        ((ANSWERED,), {"judge": JUDGE, "sweep": {"top_k": [1, 2]}, "objective": {"metrics": PRECISION}}),
        ((ANSWERED,), {"judge": JUDGE, "metrics": ["ranking/*"], "criteria": {PRECISION: ">= 0.5"}}),
    ],
)
def test_something_scores_every_query(rows: tuple[dict[str, Any], ...], settings: dict[str, Any]) -> None:
    check_scored(config(**settings), golden(*rows))


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (
            (LABELLED, BARE, OUTSIDE),
            {},
            "1 of 2 in-scope cases have no labels .*: row 1; only a judge .* there is none",
        ),
        (
            (ANSWERED,),
            {"judge": JUDGE, "metrics": ["ranking/*"]},
            f"no metric of the run is one that it grades: add {PRECISION}",
        ),
        (
            (ANSWERED, BARE),
            {"judge": JUDGE, "metrics": [PRECISION]},
            f"1 of 2 .*: row 1; nor have they a reference_answer, which {PRECISION}",
        ),
    ],
)
def test_refused_with_the_ways_out(rows: tuple[dict[str, Any], ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError) as raised:
        check_scored(config(**settings), golden(*rows))
    assert re.search(message, str(raised.value)), raised.value
    assert "golden label" in str(raised.value) and "golden synthesize" in str(raised.value)


def test_many_are_counted() -> None:
    with pytest.raises(DatasetError, match=r"5 of 5 in-scope cases .*: row 0, row 1, row 2 and 2 more;"):
        check_scored(config(), golden(*({"query": f"how {number}?"} for number in range(5))))


def test_cells_cannot_be_compared_by_labels_that_no_query_has() -> None:
    swept = config(judge=JUDGE, sweep={"top_k": [1, 2]}, objective={"metrics": "ranking/ndcg_at_3"})
    with pytest.raises(ExperimentError, match=f"ndcg_at_3 compares cells by labels, and no query .*{PRECISION}"):
        load_inputs(swept, golden(ANSWERED, OUTSIDE))


def test_a_grid_that_names_no_objective_compares_cells_by_what_the_judge_says_where_no_query_has_labels() -> None:
    swept = config(judge=JUDGE, sweep={"top_k": [1, 2]})
    assert [*load_inputs(swept, golden(ANSWERED, OUTSIDE)).config.objective.metrics] == [PRECISION]
    assert [*load_inputs(swept, golden(LABELLED)).config.objective.metrics] == ["ranking/ndcg_at_10"]
