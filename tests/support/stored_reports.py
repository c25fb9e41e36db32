"""Six reports whose every surface is held by snapshots: `python -m tests.support.stored_reports` writes them anew.

They are files, so that what a surface shows changes with its own code alone. Whoever changes the report's model writes
them again, and looks at what becomes of the snapshots (`pytest --snapshot-update`). A judged run, a sample, one without
scores and a failed one hold what a small run has not: they were put together by hand, and are kept.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.experiment.flow import run_experiment
from evals.experiment.outputs import Outputs
from evals.report.model import Report
from evals.report.parsing import parse
from retrievers.text.shown import json_text
from tests.support.experiment import make_experiment, settings
from tests.support.grid_world import SIDE, make_grid
from tests.support.results import report

STORED = Path(__file__).parents[1] / "evals" / "report" / "stored"
NAMES = ("run", "grid", "judged", "sampled", "unlisted", "failed")
STEADY = {"duration_s": 1.5, "commit": "abc", "started_at": "2026-01-02T03:04:05+00:00"}


def stored(name: str) -> Report:
    return parse((STORED / f"{name}.json").read_text(encoding="utf-8"), name)


def _made(folder: Path) -> Mapping[str, Report]:
    """Return a run beside a baseline and a grid, measured anew, and the others as they are, by the present model."""
    config = settings(make_experiment(folder / "made"), metrics=["ranking/*", "scope/*", "ragas/id_*"])
    flow: dict[str, Any] = {"wanted": Outputs(), "env": {}, "shown": False}
    first = run_experiment(config, **flow).report
    (folder / "baseline.json").write_text(json_text(_steady(first, folder).plain()), encoding="utf-8")
    run = run_experiment(config.model_copy(update={"baseline": folder / "baseline.json"}), **flow).report
    constraints = {"scope/false_abstention": "<= 0.5"}
    grid = report(make_grid(folder / "grid", objective={**SIDE, "constraints": constraints}))
    return {**{name: stored(name) for name in NAMES}, "run": run, "grid": grid}


def _steady(made: Report, folder: Path) -> Report:
    rows = [row.model_copy(update={"time_ms": 1.5, "stages_ms": {}}) for row in made.queries]
    facts = made.facts.model_copy(update=STEADY | {"versions": {"python": "3.12"}, "dataset": "golden.jsonl"})
    text = json_text(made.model_copy(update={"queries": rows, "facts": facts, "run": made.name}).plain())
    return parse(text.replace(str(folder), "/box"), "a report")


if __name__ == "__main__":
    os.environ["HOME"] = tempfile.mkdtemp()
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as box:
        for name, each in _made(Path(box)).items():
            (STORED / f"{name}.json").write_text(json_text(_steady(each, Path(box)).plain()) + "\n", encoding="utf-8")
