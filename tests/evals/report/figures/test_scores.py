"""What thresholds could do, drawn."""

from typing import Any

import pytest

from evals.report.figures.scores import roc, separation_of
from evals.stats.abstention import assess
from tests.support.drawings import points
from tests.support.results import result, without_scores

INSIDE, OUTSIDE = [0.9, 0.6, 0.4], [0.5, 0.1]


def test_the_curve_runs_from_nothing_answered_to_everything() -> None:
    """Descending: 0.9 in, 0.6 in, 0.5 out, 0.4 in, 0.1 out; AUROC 5 of 6 pairs."""
    figure: Any = roc(assess(INSIDE, OUTSIDE), 0.45)
    assert figure is not None
    _, curve, here = figure.axes[0].lines
    answered, recalled = points(curve)
    corners = {(x, round(y * 3)) for x, y in zip(answered, recalled, strict=True)}
    assert corners == {(0, 0), (0, 1), (0, 2), (0.5, 2), (0.5, 3), (1, 3)}
    assert answered == sorted(answered) and recalled == sorted(recalled)
    assert curve.get_label() == "all thresholds (AUROC 0.833)"
    assert points(here) == ([0.5], [1 - 1 / 3])
    assert here.get_label() == "threshold 0.45"


@pytest.mark.parametrize(("inside", "outside"), [(INSIDE, []), ([], OUTSIDE), ([], [])])
def test_without_both_kinds_of_query_there_is_no_curve(inside: list[float], outside: list[float]) -> None:
    assert roc(assess(inside, outside), 0.3) is None


def test_a_run_has_it_from_its_own_scores() -> None:
    """Best scores: 0.9 and 0.29 (in scope), 0.8 (out of scope)."""
    known = separation_of(result())
    assert known is not None and known.auroc == 0.5


def test_a_retriever_without_scores_has_none() -> None:
    assert separation_of(without_scores()) is None
