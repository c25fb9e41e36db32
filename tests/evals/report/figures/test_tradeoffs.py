"""What quality costs, drawn from the grid's own numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Summary
from evals.grid.measure import Swept
from evals.report.figures.tradeoffs import precision_by_recall, quality_by_latency, quality_by_tokens
from tests.support.drawings import places, points


def test_precision_and_recall_run_along_top_k_at_the_recommended_threshold(swept: Swept) -> None:
    figure: Any = precision_by_recall(swept)
    assert figure is not None and swept.choice is not None
    chosen = swept.grid.cell(swept.choice.recommended.cell)
    for place, line in enumerate(figure.axes[0].lines):
        cells = [c.index for c in swept.grid.cells() if (c.configuration, c.threshold) == (place, chosen.threshold)]
        recall, precision = (swept.grid.metrics[f"ragas/id_context_{m}"].mean for m in ("recall", "precision"))
        assert list(line.get_xdata()) == recall[cells].tolist()
        assert list(line.get_ydata()) == precision[cells].tolist()
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "5", "1", "5"]


def test_the_front_is_beaten_by_no_allowed_cell(swept: Swept) -> None:
    figure: Any = quality_by_tokens(swept)
    assert figure is not None
    (front,) = figure.axes[0].lines
    cost, value = swept.grid.metrics["cost/context_tokens"].mean, swept.ranking.values
    for tokens, quality in zip(*points(front), strict=True):
        for cell in swept.ranking.order:
            assert not (cost[cell] <= tokens and value[cell] > quality + 1e-12)
    shown = sum(len(places(group)) for group in figure.axes[0].collections) - 1  # the star
    assert shown == len(swept.ranking.order)


def test_without_times_of_two_configurations_there_is_no_figure_of_them(swept: Swept) -> None:
    assert quality_by_latency(swept) is None


def test_latency_is_that_of_each_configuration_with_its_best_cell(swept: Swept) -> None:
    times = {"semantic": 3.5, "hybrid weighted": 7.25}
    timed = tuple(
        replace(one, summaries=(Summary(metric="latency/total_p50_ms", value=times[one.name]),))
        for one in swept.grid.configurations
    )
    figure: Any = quality_by_latency(replace(swept, grid=replace(swept.grid, configurations=timed)))
    assert figure is not None
    drawn = {str(line.get_label()): line for line in figure.axes[0].lines if line.get_marker() == "o"}
    allowed = np.full(len(swept.grid), -np.inf)
    allowed[list(swept.ranking.order)] = swept.ranking.values[list(swept.ranking.order)]
    for place, one in enumerate(swept.grid.configurations):
        at, quality = points(drawn[one.name])
        assert at == [times[one.name]]
        assert quality == pytest.approx([allowed[place * 50 : place * 50 + 50].max()])


@pytest.mark.parametrize("paint", [precision_by_recall, quality_by_tokens, quality_by_latency])
def test_cells_that_are_not_ranked_have_none(swept: Swept, paint: object) -> None:
    assert paint(replace(swept, choice=None)) is None  # type: ignore[operator]
