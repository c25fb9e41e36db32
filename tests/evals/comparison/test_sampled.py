"""Comparisons of runs of which at least one judged a sample of the queries."""

from typing import Any

import numpy as np
import pytest

from evals.comparison.comparing import ComparisonOptions, compare
from evals.comparison.records import Difference, Run
from evals.judge.tasks import PRECISION
from evals.report.model import FailedValue, Report
from tests.support.results import report
from tests.support.sampled import sampled_result

LABELS = np.random.default_rng(0).integers(0, 5, 60) / 4
JUDGED = np.clip(LABELS + np.random.default_rng(1).choice([0, 0, 0, 0.25, -0.25], 60), 0, 1)


def sampled(judged: int, shift: float = 0.0) -> Report:
    """Return a run that judged so many of 60 queries and is better by a shift, as the labels say too."""
    labels = np.clip(LABELS + shift, 0, 1)
    return report(sampled_result(np.clip(JUDGED + shift, 0, 1)[:judged].tolist(), labels.tolist()))


def compared(first: Report, second: Report, **options: Any) -> Any:
    def run(made: Report) -> Run:
        return Run(reference="r", origin="r.json", name="r", report=made, digest="")

    [comparison] = compare(run(first), [run(second)], ComparisonOptions(metrics=(PRECISION,), **options))
    return comparison


def difference(first: Report, second: Report) -> Difference:
    [made] = compared(first, second).differences
    assert isinstance(made, Difference) and made.n
    return made


def test_two_samples_are_paired_on_the_queries_judged_in_both_and_corrected_by_the_scores_of_all() -> None:
    made = difference(sampled(20), sampled(30, 0.25))
    assert made.difference is not None
    assert (made.n, made.only_baseline, made.only_other, made.failed) == (20, (), (), ())
    assert made.note.startswith("judged in both: 20 of 60 queries, corrected by what foretells the judge, weight ")
    own = np.clip(JUDGED + 0.25, 0, 1) - JUDGED
    assert made.difference == pytest.approx(own.mean(), abs=0.05)


def test_a_sample_against_a_run_that_is_judged_in_full() -> None:
    made = difference(sampled(60), sampled(20, 0.25))
    assert made.n == 20 and "of 60 queries, corrected" in made.note


def test_reports_without_the_labels_scores_are_compared_on_the_judged_queries_alone() -> None:
    older = sampled(60)
    older = Report.model_validate(dict(older) | {"proxies": {}})
    made = difference(older, sampled(20, 0.25))
    assert made.note == "judged in both: 20 of 60 queries, the judged queries alone"
    assert made.difference == pytest.approx((np.clip(JUDGED + 0.25, 0, 1) - JUDGED)[:20].mean())


def test_queries_that_were_not_drawn_are_no_reason_to_fail_a_tolerance() -> None:
    for first, second, passed in ((sampled(60), sampled(20, 0.25), True), (sampled(60, 0.25), sampled(20), False)):
        comparison = compared(first, second, tolerances={PRECISION: 0.02})
        assert [one.passed for one in comparison.regressions] == [passed]


def test_a_failed_score_is_counted_at_its_worst() -> None:
    first, second = sampled(20), sampled(20, 0.25)
    scores = [FailedValue(failed="Timeout: "), *second.scores[PRECISION][1:]]
    made = difference(first, Report.model_validate(dict(second) | {"scores": {PRECISION: scores}}))
    assert made.failed == ("q0",) and made.worst is not None and made.difference is not None
    assert made.worst < made.difference
