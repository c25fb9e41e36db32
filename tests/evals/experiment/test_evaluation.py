from dataclasses import replace
from pathlib import Path

from evals.collect.observations import Summary
from evals.experiment.evaluation import Evaluation
from evals.experiment.outputs import Outputs
from evals.grid.measure import Measured
from evals.judge.budget import Usage
from tests.support.grids import make_grid, swept_of, with_swept
from tests.support.judged import judging
from tests.support.results import report, result

FEW = Summary(metric="a", value=1.0, n=19, n_failed=1)
MANY = Summary(metric="b", value=1.0, n=18, n_failed=2, note="timeout")
UNJUDGED = judging(usage=Usage(stopped="the budget of 6 calls is spent"))


def of(run: Measured, untracked: str = "") -> Evaluation:
    return Evaluation(report=report(run), result=run, outputs=Outputs(), untracked=untracked)


def test_nothing_is_missing_where_at_most_one_score_in_twenty_failed() -> None:
    assert of(result(summaries=[FEW])).incomplete == ""


def test_every_metric_of_which_more_failed_is_named_those_that_failed_alike_together() -> None:
    found = of(result(summaries=[FEW, MANY, replace(MANY, metric="c"), replace(MANY, metric="d", n_failed=3)]))
    assert found.incomplete == "b, c: 2 of 20 failed (timeout); d: 3 of 21 failed (timeout)"
    assert found.report.head and found.incomplete in found.report.head.criteria


def test_a_spent_budget_is_named_before_what_came_of_it(tmp_path: Path) -> None:
    grid = make_grid(tmp_path)
    lost = with_swept(grid, choice=None, ranking=replace(swept_of(grid).ranking, reason="too few"))
    assert (
        of(replace(lost, context=replace(lost.context, judging=UNJUDGED))).incomplete
        == f"{UNJUDGED.incomplete}; the cells are not ranked: too few"
    )
    assert of(lost).incomplete == "the cells are not ranked: too few"


def test_what_mlflow_and_the_judge_left_out_comes_before_what_failed() -> None:
    run = result(summaries=[MANY], judging=UNJUDGED)
    assert of(run).incomplete == UNJUDGED.incomplete != ""
    assert of(run, "MLflow failed").incomplete == "MLflow failed"
