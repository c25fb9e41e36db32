"""A run of which a sample of the queries was judged, on terminal, page, MLflow and JUnit."""

from collections.abc import Sequence
from statistics import fmean
from xml.etree.ElementTree import fromstring

import pytest

from evals.collect.observations import Score, Unscored
from evals.judge.tasks import PRECISION
from evals.report.build import slices
from evals.report.description import description
from evals.report.html import render_page
from evals.report.junit import junit
from evals.report.terminal import render
from evals.tracking.values import metrics_table
from tests.support.results import report
from tests.support.sampled import JUDGED, LABELS, sampled_result

OPEN = {PRECISION: ">= 0.55"}
MET = {PRECISION: ">= 0.2"}


def test_every_surface_counts_the_judged_of_all() -> None:
    made = report(sampled_result())
    page = render_page(made)
    assert ">24 of 60<" in page and "narrower than without" in page
    assert "24 of 60" in render(made, width=150, color=False)
    assert f"| {PRECISION} |" in description(made.model_copy(update={"headline": [PRECISION]}))
    assert "| 24 of 60 |" in description(made.model_copy(update={"headline": [PRECISION]}))
    [row] = metrics_table(made)
    assert (row["n"], row["sampled.queries"], row["sampled.proxy"]) == (24, 60, "labels/context_precision")


def test_a_criterion_is_open_where_the_queries_that_were_not_judged_could_turn_it() -> None:
    [gate] = sampled_result(criteria=OPEN).gates
    assert gate.verdict == "undecided"
    assert gate.reason.startswith("24 of 60 queries are judged; judging all would give 0.")
    assert gate.reason.endswith("the others leave it open; a larger judge.sample decides")
    [failed] = sampled_result(criteria={PRECISION: ">= 0.99"}).gates
    assert failed.verdict == "FAIL" and failed.reason.endswith("not met")


def test_a_criterion_that_is_met_says_by_how_many_queries() -> None:
    made = report(sampled_result(criteria=MET))
    assert [criterion.verdict for criterion in made.criteria] == ["pass"]
    said = fromstring(junit(made)).findtext("testsuite[@name='criteria']/system-out") or ""
    assert said.startswith(f"{PRECISION} >= 0.2: 24 of 60 queries are judged; judging all would give")


def test_junit_says_why_a_criterion_is_open() -> None:
    case = fromstring(junit(report(sampled_result(criteria=OPEN)))).find(".//testcase/failure")
    assert case is not None and case.get("type") == "undecided"
    assert "24 of 60 queries are judged" in case.get("message", "")


def test_of_too_few_for_an_interval_nothing_is_decided() -> None:
    [gate] = sampled_result([1.0, 0.5], criteria={PRECISION: ">= 0.5"}).gates
    assert gate.undecided and gate.reason == (
        "2 of 60 queries are judged, too few for an interval; a larger judge.sample decides"
    )


def test_rows_hold_the_labels_beside_the_judge() -> None:
    rows = report(sampled_result()).queries
    assert [row.proxies[PRECISION] for row in rows] == list(LABELS)
    assert [isinstance(row.scores[PRECISION], float) for row in rows] == [True] * 24 + [False] * 36


def test_slices_are_corrected_with_the_weight_of_the_whole_run() -> None:
    made = sampled_result(types=("a", "a", "b"))
    [summary] = made.summaries
    assert summary.sampled is not None
    weight = summary.sampled.weight
    found = {one.name: one.metrics[PRECISION] for one in slices(made)}
    own, labels, of_judged = (
        [score for place, score in enumerate(scores) if place % 3 != 2 and isinstance(score, float)]
        for scores in (JUDGED, LABELS, LABELS[: len(JUDGED)])
    )
    expected = fmean(own) + weight * (fmean(labels) - fmean(of_judged))
    assert found["a"].value == pytest.approx(expected) and found["a"].n == 16
    assert found["b"].n == 8


def test_a_slice_of_which_nothing_was_judged_has_no_mean() -> None:
    made = sampled_result(types=(*"a" * 24, *"b" * 36))
    assert {one.name: PRECISION in one.metrics for one in slices(made)} == {"a": True, "b": False}


def test_where_a_budget_ended_the_remedy_is_a_further_run() -> None:
    unbought = Unscored(reason="the budget of 60 calls is spent", missing=True)
    [gate] = sampled_result([*JUDGED[:20], *[unbought] * 4], criteria=OPEN).gates
    assert gate.undecided and "20 of 60 queries are judged" in gate.reason
    assert gate.reason.endswith("the others leave it open, with the 4 missing scores; a further run buys the rest")


@pytest.mark.parametrize(
    ("labels", "judged", "why"),
    [
        ([1 - label for label in LABELS], JUDGED, "labels/context_precision does not foretell the judge"),
        ([0.5] * 60, JUDGED, "labels/context_precision does not foretell the judge"),
        (LABELS, JUDGED[:2], "fewer than 4 are judged"),
    ],
    ids=["contrary", "constant", "two"],
)
def test_labels_that_do_not_help_correct_nothing(labels: Sequence[float], judged: Sequence[Score], why: str) -> None:
    made = sampled_result(judged, labels)
    assert made.summaries[0].value == pytest.approx(fmean(score for score in judged if isinstance(score, float)))
    assert f">mean of the judged queries alone, because {why}" in render_page(report(made))
