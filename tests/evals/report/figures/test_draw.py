"""The figures hold the run's own numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evals.collect.observations import LatencyPass, Observation, Observed
from evals.grid.measure import Measured
from evals.report.figures import draw
from evals.report.figures.canvas import ORANGE
from evals.report.figures.latency import latency_by_stage
from evals.report.figures.ranks import recall_by_rank
from evals.report.figures.scores import score_distribution
from retrievers.records import StageTimings
from tests.support.observed import make_case, make_context, observe, results
from tests.support.results import UNLISTED, config, report, report_of, without_scores
from tests.support.scored import results_of


def run_of(observations: Sequence[Observation] = (), latency: Sequence[LatencyPass] = (), **retriever: Any) -> Measured:
    settings = {"threshold": 0.3, "top_k": min(5, retriever.get("candidates", 5)), "candidates": 100, **retriever}
    return Measured(
        config=config(**settings),
        observed=Observed(observations=tuple(observations), latency=tuple(latency)),
        scores={},
        summaries=(),
        gates=(),
        validation=report_of([]),
        results=results_of(observations),
        context=make_context(),
    )


def asked(
    ids: str, grades: Mapping[str, int] | None = None, *, best: float = 0.9, in_scope: bool = True
) -> Observation:
    candidates = results(*ids, scores=[best - 0.01 * n for n in range(len(ids))])
    return observe((), grades, candidates=candidates, case=make_case(in_scope=in_scope))


def timed(concurrency: int, embed: Sequence[float], total: Sequence[float]) -> LatencyPass:
    timings = tuple(StageTimings(embed_ms=a, total_ms=b) for a, b in zip(embed, total, strict=True))
    ids = tuple(f"q{n}" for n in range(len(timings)))
    return LatencyPass(concurrency=concurrency, query_ids=ids, timings=timings)


def axes_of(figure: Figure | None) -> Axes:
    assert figure is not None
    (axes,) = figure.axes
    return axes


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}  # type: ignore[arg-type]


def legend(axes: Axes) -> list[str]:
    found = axes.get_legend()
    return [text.get_text() for text in found.get_texts()] if found else []


INSIDE = [asked("xa", {"a": 1}, best=0.9), asked("a", {"a": 1}, best=0.62), asked("xy", {"a": 1}, best=0.11)]
OUTSIDE = [asked("x", best=0.44, in_scope=False), asked("", in_scope=False)]
LATENCY = [timed(1, [1.0, 2.0, 3.0], [10.0, 20.0, 60.0]), timed(4, [4.0, 4.0, 4.0], [50.0, 70.0, 90.0])]


@pytest.fixture(autouse=True)
def no_figure_is_left_open() -> Iterator[None]:
    """Figures are made without pyplot, which keeps every figure it makes."""
    yield
    import sys

    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def heights(axes: Axes, container: int) -> dict[float, float]:
    """Bins (by their left edge) of one histogram that are not empty."""
    return {round(bar.get_x(), 3): bar.get_height() for bar in axes.containers[container] if bar.get_height()}


class TestScores:
    def test_counts_queries_by_their_best_score_in_bins_of_a_fortieth(self) -> None:
        axes = axes_of(score_distribution(run_of([*INSIDE, *OUTSIDE])))
        assert heights(axes, 0) == {0.9: 1, 0.6: 1, 0.1: 1}
        assert heights(axes, 1) == {0.425: 1, 0.0: 1}
        assert axes.get_xlim() == (0, 1)

    def test_says_how_many_of_each_and_marks_the_threshold(self) -> None:
        axes = axes_of(score_distribution(run_of([*INSIDE, *OUTSIDE], threshold=0.35)))
        assert sorted(legend(axes)) == ["in scope (n = 3)", "out of scope (n = 2)", "threshold 0.35"]
        assert lines(axes)["threshold 0.35"][0] == [0.35, 0.35]

    @pytest.mark.parametrize(
        ("observations", "label"), [(INSIDE, "in scope (n = 3)"), (OUTSIDE, "out of scope (n = 2)")]
    )
    def test_draws_one_kind_alone(self, observations: list[Observation], label: str) -> None:
        axes = axes_of(score_distribution(run_of(observations)))
        assert sorted(legend(axes)) == sorted([label, "threshold 0.3"])


class TestRecall:
    def test_is_the_mean_over_in_scope_queries_at_every_depth(self) -> None:
        """Found at rank 2, at rank 1, never: 1/3 at depth 1, 2/3 from depth 2."""
        found = lines(axes_of(recall_by_rank(run_of([*INSIDE, *OUTSIDE], candidates=5))))
        depths, recalls = found["relevant chunks found"]
        assert depths == [1, 2, 3, 4, 5]
        assert recalls == pytest.approx([1 / 3, 2 / 3, 2 / 3, 2 / 3, 2 / 3])
        assert found["top_k 5"][0] == [5, 5]

    def test_counts_evidence_items_beside_chunks(self) -> None:
        """Two chunks hold one item: the first chunk is half of the chunks and all of the items."""
        observation = observe(
            (), {"a": 1, "b": 1}, items=[frozenset("ab")], candidates=results("a", "x", "b"), case=make_case()
        )
        found = lines(axes_of(recall_by_rank(run_of([observation], candidates=3))))
        assert found["relevant chunks found"][1] == [0.5, 0.5, 1.0]
        assert found["evidence items found"][1] == [1.0, 1.0, 1.0]

    @pytest.mark.parametrize(("candidates", "depth"), [(1, 1), (7, 7), (100, 50)])
    def test_goes_as_deep_as_the_candidates_but_no_deeper_than_50(self, candidates: int, depth: int) -> None:
        axes = axes_of(recall_by_rank(run_of(INSIDE, candidates=candidates)))
        assert lines(axes)["relevant chunks found"][0] == list(range(1, depth + 1))

    def test_without_in_scope_queries_there_is_none(self) -> None:
        assert recall_by_rank(run_of(OUTSIDE)) is None


class TestLatency:
    def test_has_a_box_for_every_stage_that_ran_at_every_concurrency(self) -> None:
        axes = axes_of(latency_by_stage(run_of(latency=LATENCY)))
        labels = [text.get_text() for text in axes.get_xticklabels()]
        assert labels == ["embed\n×1", "total\n×1", "embed\n×4", "total\n×4"]
        medians = [line.get_ydata() for line in axes.lines if line.get_color() == ORANGE]
        assert [float(np.asarray(m)[0]) for m in medians] == [2.0, 20.0, 4.0, 70.0]
        assert axes.get_ylim()[0] == 0

    def test_without_timed_calls_there_is_none(self) -> None:
        assert latency_by_stage(run_of(INSIDE)) is None
        assert latency_by_stage(run_of(INSIDE, [LatencyPass(concurrency=1, query_ids=(), timings=())])) is None


@pytest.mark.parametrize(
    ("observations", "latency", "names"),
    [
        (
            [*INSIDE, *OUTSIDE],
            LATENCY,
            ["score_distribution", "roc", "recall_by_rank", "reranker_headroom", "latency_by_stage"],
        ),
        (OUTSIDE, LATENCY, ["score_distribution", "latency_by_stage"]),
        (INSIDE, [], ["score_distribution", "recall_by_rank", "reranker_headroom"]),
        ([], [], ["score_distribution"]),
    ],
)
def test_draw_gives_what_there_is_data_for(
    observations: list[Observation], latency: list[LatencyPass], names: list[str]
) -> None:
    assert list(draw(run_of(observations, latency), [])) == names


def test_figures_can_be_saved_and_name_their_axes() -> None:
    for picture in draw(run_of([*INSIDE, *OUTSIDE], LATENCY), []).values():
        figure = picture.figure
        axes = axes_of(figure)
        assert picture.caption.endswith(".")
        assert axes.get_title(loc="left") and axes.get_ylabel()
        file = BytesIO()
        figure.savefig(file, format="png", dpi=40)
        assert file.getvalue().startswith(b"\x89PNG")


def test_without_cosines_there_is_no_distribution_of_them() -> None:
    assert score_distribution(without_scores()) is None
    assert set(draw(without_scores(), report(without_scores(), UNLISTED).queries)) == {"queries", "recall_by_rank"}


def test_without_a_threshold_none_is_drawn() -> None:
    run = run_of([asked("ab", {"a": 1})])
    assert "threshold 0.3" in lines(axes_of(score_distribution(run)))
    free = replace(run, config=config(python="mine:make"))
    assert not lines(axes_of(score_distribution(free)))


def test_where_not_all_relevant_chunks_are_known_only_evidence_is_drawn() -> None:
    """Of the relevant chunks some may never have come back; evidence items are all known."""
    known = asked("abc", {"b": 1, "z": 1})
    unlisted = replace(known, relevance=replace(known.relevance, incomplete="not listed"))
    drawn = lines(axes_of(recall_by_rank(run_of([unlisted], candidates=3))))
    assert drawn["evidence items found"] == ([1, 2, 3], [0.0, 0.5, 0.5])
    assert "relevant chunks found" not in drawn
    assert "relevant chunks found" in lines(axes_of(recall_by_rank(run_of([known]))))
