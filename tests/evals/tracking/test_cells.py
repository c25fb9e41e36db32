from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run

from evals import tracking
from evals.errors import TrackingError
from evals.grid.children import Child
from tests.support.experiment import silent
from tests.support.tracking import client, start

TABLE: dict[str, list[Any]] = {"top_k": [1, 2], "threshold": [0.0, None], "ranking/ndcg_at_10": [0.25, None]}
ALONG: dict[str, list[tuple[int, float]]] = {
    "ranking/ndcg_at_10": [(1, 0.25), (2, 0.5), (3, 0.5)],
    "scope/abstention": [(1, 1.0)],
}


def cells(count: int) -> list[Child]:
    return [
        Child(
            name=f"semantic, top_k {cell + 1}",
            cell=cell,
            parameters={"retriever.mode": "semantic", "retriever.top_k": cell + 1, "cell.threshold": 0.05 * cell},
            metrics={"ranking/ndcg_at_10": cell / 10, "cost/context_tokens": 100.0 + cell},
            roles=("recommended", "Pareto front") if cell == 1 else (),
        )
        for cell in range(count)
    ]


@pytest.fixture(scope="module")
def grid(folder: Path) -> Run:
    """A run of a grid with six cells below it, as MLflow gives it back."""
    tracker = start("a grid")
    tracker.log_grid(cells(6), TABLE, ALONG, silent)
    tracker.end("FINISHED")
    return client().get_run(tracker.run_id)


def children_of(parent: Run) -> list[Run]:
    wanted = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    return list(client().search_runs([parent.info.experiment_id], wanted, order_by=["attributes.start_time DESC"]))


def test_cells_are_finished_runs_below_that_of_the_grid_in_its_order(grid: Run) -> None:
    """The newest run decides on the columns of MLflow's list: it has to be the grid's own, not a cell's."""
    found = children_of(grid)
    assert all(one.info.start_time < grid.info.start_time for one in found)
    assert [one.info.run_name for one in found] == [child.name for child in cells(6)]
    assert {one.info.status for one in found} == {"FINISHED"}
    assert [one.data.tags["cell"] for one in found] == ["0", "1", "2", "3", "4", "5"]
    assert [one.data.tags.get("role") for one in found] == [None, "recommended, Pareto front", None, None, None, None]


def test_a_cell_has_its_parameters_and_metrics_and_nothing_else(grid: Run) -> None:
    for one, child in zip(children_of(grid), cells(6), strict=True):
        assert one.data.metrics == child.metrics
        assert one.data.params == {name: str(value) for name, value in child.parameters.items()}
        assert client().list_artifacts(one.info.run_id) == []


def test_metrics_along_top_k_have_it_as_their_step(grid: Run) -> None:
    for name, values in ALONG.items():
        history = client().get_metric_history(grid.info.run_id, f"by_top_k/{name}")
        assert [(one.step, one.value) for one in sorted(history, key=lambda m: m.step)] == values


def test_the_grid_is_a_table_that_mlflow_loads(grid: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.local_uri(tracking.FOLDER))  # it asks no client where runs are
    loaded = client().load_table(grid.info.experiment_id, "grid.json", run_ids=[grid.info.run_id])
    assert list(loaded["top_k"]) == [1, 2]
    assert list(loaded["ranking/ndcg_at_10"].isna()) == [False, True]
    assert loaded["ranking/ndcg_at_10"][0] == 0.25


def test_more_steps_than_one_request_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.tracking.tracker.BATCH", 2)
    tracker = start("many steps")
    tracker.log_grid([], TABLE, {"a": [(k, k / 7) for k in range(1, 8)]}, silent)
    history = client().get_metric_history(tracker.run_id, "by_top_k/a")
    assert sorted((one.step, one.value) for one in history) == [(k, float(f"{k / 7:.6g}")) for k in range(1, 8)]


def test_logging_cells_tells_how_many_are_written(folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    tracker = start("told")
    tracker.log_grid(cells(5), TABLE, {}, lambda *now: told.append(now))
    assert told == [("logging", done, 5) for done in range(1, 6)]
    assert len(children_of(client().get_run(tracker.run_id))) == 5


def test_a_cell_whose_values_are_refused_ends_as_failed_and_no_further_ones_are_begun(folder: Path) -> None:
    broken = [replace(child, metrics={"ndcg@10": 1.0}) for child in cells(40)]
    tracker = start("refused")
    with pytest.raises(TrackingError, match="ndcg@10"):
        tracker.log_grid(broken, TABLE, {}, silent)
    found = children_of(client().get_run(tracker.run_id))
    assert {one.info.status for one in found} == {"FAILED"}
    assert 0 < len(found) < 40
