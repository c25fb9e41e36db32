"""Metrics by query type and tag, against means by hand."""

from dataclasses import replace
from statistics import fmean

import pytest

from evals.grid.measure import Measured
from evals.report.build import slices
from evals.stats.intervals import wilson
from tests.support.results import hit, observation, report_of, result, verdict

# Name, type, tags, hit, verdict.
PLAN = (
    ("a", "keyword", ("arms", "urdf"), 1.0, "SUCCESS"),
    ("b", "keyword", ("arms",), 0.0, "FAILURE"),
    ("c", "factual", ("arms",), 1.0, "SUCCESS"),
    ("d", None, ("urdf",), 1.0, "FAILURE"),
)


def made() -> Measured:
    return replace(
        result(),
        observed=replace(
            result().observed,
            observations=tuple(
                observation(name, [hit(1, 0.9, "x")], 1, {"x": 1}, query_type=kind, tags=list(tags))
                for name, kind, tags, _, _ in PLAN
            ),
        ),
        scores={"ranking/hit_rate_at_5": {name: score for name, _, _, score, _ in PLAN}},
        validation=report_of([verdict(name, outcome) for name, _, _, _, outcome in PLAN]),  # type: ignore[arg-type]
    )


def test_each_type_and_each_tag_of_three_queries_is_a_slice() -> None:
    assert [(one.by, one.name, one.n) for one in slices(made())] == [
        ("query_type", "factual", 1),
        ("query_type", "keyword", 2),
        ("tag", "arms", 3),
    ]


def test_a_slice_has_every_metric_over_its_own_queries_with_n_and_interval() -> None:
    found = {one.name: one.metrics for one in slices(made())}
    for name, scores, passed in (("keyword", [1.0, 0.0], 1), ("arms", [1.0, 0.0, 1.0], 2)):
        metric, rate = found[name]["ranking/hit_rate_at_5"], found[name]["queries/pass_rate"]
        ends = wilson(sum(scores), len(scores))
        figures = (metric.value, metric.n, metric.ci_low, metric.ci_high)
        assert figures == pytest.approx((fmean(scores), len(scores), ends.low, ends.high))
        assert (rate.value, rate.n) == (passed / len(scores), len(scores))


def test_a_metric_without_a_score_in_the_slice_is_left_out() -> None:
    [factual, *_] = slices(replace(made(), scores={"ranking/hit_rate_at_5": {"a": 1.0}}))
    assert [*factual.metrics] == ["queries/pass_rate"]
