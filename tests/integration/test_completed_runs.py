"""Runs that MLflow lost half-way, completed from what was kept: they hold what an unbroken run holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from evals.errors import TrackingError
from evals.run import main as evaluate
from evals.tracking import FOLDER, Tracker, local_uri
from evals.tracking.__main__ import main as complete
from tests.support.command import call
from tests.support.experiment import make_experiment

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SWEEP = ["--sweep.top-k", "1,2,3", "--sweep.threshold", "0,0.2,0.4", "--tracking.log-cells", "frontier"]


def everything(name: str) -> Mapping[str, Any]:
    """Return all of a run in MLflow that does not differ from run to run; that it exists once, too."""
    client = MlflowClient(local_uri(FOLDER))
    experiment = client.get_experiment_by_name("retrieval-evals")
    assert experiment
    every = client.search_runs([experiment.experiment_id])
    [run] = [run for run in every if run.info.run_name == name]
    cells = [run_ for run_ in every if run_.data.tags.get("mlflow.parentRunId") == run.info.run_id]

    def traces(run_id: str) -> list[Any]:
        found = client.search_traces(locations=[experiment.experiment_id], run_id=run_id)
        return sorted(
            (trace.info.client_request_id, [(span.name, span.outputs) for span in trace.data.spans],
             [assessment.name for assessment in trace.info.assessments])
            for trace in found
        )  # fmt: skip

    folder = Path(run.info.artifact_uri.removeprefix("file://"))
    timeless = {"latency", "by_top_k"}
    return {
        "status": run.info.status,
        "metrics": {key for key in run.data.metrics if key.split("/")[0] not in timeless},
        "along": [
            [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, key)]
            for key in sorted(run.data.metrics)
            if key.startswith("by_top_k")
        ],
        "artifacts": sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()),
        "rows": (folder / "grid.json").read_text() if cells else "",
        "cells": sorted((cell.info.run_name, cell.info.status, len(cell.data.metrics)) for cell in cells),
        "traces": [traces(run.info.run_id), *(traces(cell.info.run_id) for cell in sorted(cells, key=_name))],
    }


def _name(cell: Any) -> str:
    return str(cell.info.run_name)


@pytest.mark.parametrize("flags", [[], SWEEP], ids=["a run", "a grid"])
@pytest.mark.parametrize("moment", ["log", "log_traces", "link_cells"])
def test_a_completed_run_holds_what_an_unbroken_one_does(
    flags: list[str],
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if moment == "link_cells" and not flags:
        pytest.skip("a run has no cells")
    monkeypatch.chdir(tmp_path)
    made = make_experiment(tmp_path)
    given = ["--config", str(made.config), "--no-gate", "--tracking.enabled", "true", *flags]
    whole = call(evaluate, [*given, "--tracking.run-name", "whole"], capsys)
    assert whole.code == 0, whole.err

    def lost(*_: Any) -> None:
        raise TrackingError("MLflow went away")

    with monkeypatch.context() as patch:
        patch.setattr(Tracker, moment, lost)
        broken = call(evaluate, [*given, "--tracking.run-name", "broken"], capsys)
    assert broken.code == 3 and "python -m evals.tracking" in broken.err
    report = Path("mlruns/reports/broken.json")
    done = call(complete, [report], capsys)
    assert (done.code, done.err) == (0, "")
    assert everything("broken") == everything("whole")
    assert not [file for file in report.parent.iterdir() if file.name.startswith(".")]
