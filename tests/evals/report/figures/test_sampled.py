"""Judge against labels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Unscored
from evals.judge.tasks import PRECISION
from evals.report.figures.sampled import judge_against_labels
from tests.support.results import result
from tests.support.sampled import JUDGED, LABELS, sampled_result


def test_a_point_a_judged_query_and_the_mean_of_all_on_the_line_of_the_weight() -> None:
    made = sampled_result()
    figure = judge_against_labels(made)
    assert figure is not None
    [axes], [summary] = figure.axes, made.summaries
    assert summary.sampled is not None and summary.value is not None
    points = {tuple(point) for point in np.asarray(axes.collections[0].get_offsets()).tolist()}
    assert points == set(zip(LABELS[: len(JUDGED)], JUDGED, strict=True))
    _, line, _, star = (np.asarray(each.get_data(), dtype=float) for each in axes.lines)
    assert star[:, 0].tolist() == pytest.approx([np.mean(LABELS), summary.value])
    assert np.interp(star[0], line[0], line[1]).tolist() == pytest.approx([summary.value])
    assert axes.get_title().endswith(f"24 of 60, weight {summary.sampled.weight:.2f}")


def test_points_of_several_queries_are_larger() -> None:
    figure = judge_against_labels(sampled_result())
    assert figure is not None
    points: Any = figure.axes[0].collections[0]
    sizes = points.get_sizes()
    assert max(sizes) == pytest.approx(2 * min(sizes))


def test_where_all_queries_were_judged_there_is_none() -> None:
    assert judge_against_labels(result()) is None
    assert PRECISION not in result().proxies


def test_where_no_judged_query_has_a_proxy_there_is_none() -> None:
    made = sampled_result()
    assert judge_against_labels(replace(made, proxies={})) is None
    unscored = {PRECISION: dict.fromkeys(made.proxies[PRECISION], Unscored(reason="no labels"))}
    assert judge_against_labels(replace(made, proxies=unscored)) is None
