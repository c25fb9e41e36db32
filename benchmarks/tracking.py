"""Wall and processor time of logging the cells of a grid to MLflow as runs, beside MLflow's calls one value at a time.

    python benchmarks/tracking.py [--cells 400] [--metrics 20] [--each 40] [--uri URI]

Both write runs of as many parameters and metrics, with parent, name, role and end, into the same kind of store: a fresh
SQLite database unless `--uri` names a server. The calls one at a time (create_run, set_tag, log_param, log_metric,
set_terminated) are measured on `--each` runs and given per run. The load of the machine is printed beside the times.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from mlflow import MlflowClient

sys.path.insert(0, str(Path(__file__).parents[1]))
from evals.config.experiment import TrackingConfig
from evals.grid.children import Child
from evals.tracking import Tracker, start
from retrievers.terminal.command import print_out, progress_bar


def children(cells: int, metrics: int) -> list[Child]:
    """Cells with eight parameters each and as many metrics."""
    fixed = {"mode": "hybrid", "fusion": "weighted", "rerank": "none", "candidates": 100, "semantic_weight": 0.7}
    return [
        Child(
            name=f"hybrid weighted, top_k {1 + cell % 20}, threshold {cell // 20 / 20:g}",
            cell=cell,
            parameters={**fixed, "rrf_constant": 60, "top_k": 1 + cell % 20, "threshold": cell // 20 / 20},
            metrics={f"ranking/metric_{number}": (cell * number % 97) / 97 for number in range(metrics)},
            roles=("Pareto front",),
        )
        for cell in range(cells)
    ]


def one_call_at_a_time(tracker: Tracker, cells: list[Child]) -> None:
    """MLflow's own calls, each for one value."""
    client: MlflowClient = tracker.client
    for child in cells:
        run = client.create_run(tracker.experiment_id, run_name=child.name).info.run_id
        client.set_tag(run, "mlflow.parentRunId", tracker.run_id)
        client.set_tag(run, "role", ", ".join(child.roles))
        for name, value in child.parameters.items():
            client.log_param(run, name, value)
        for name, score in child.metrics.items():
            client.log_metric(run, name, score)
        client.set_terminated(run)


def timed(name: str, cells: int, started: tuple[float, float]) -> None:
    """Print what has passed since."""
    wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    print_out(
        f"{name:<24} {cells:>5} runs  {wall:7.2f} s  {wall / cells * 1e3:7.1f} ms a run  "
        f"processor {cpu / cells * 1e3:6.1f} ms a run  load {os.getloadavg()[0]:.1f}"
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=400)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--each", type=int, default=40, help="runs that are logged one call at a time")
    parser.add_argument("--uri", help="tracking server (default: a fresh SQLite database)")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        uri = given.uri or f"sqlite:///{Path(folder) / 'runs.db'}"
        config = TrackingConfig.model_validate({"uri": uri, "experiment": "benchmark"})
        cells = children(given.cells, given.metrics)
        tracker = start(config, "grid", {})
        now = time.perf_counter(), time.process_time()
        one_call_at_a_time(tracker, cells[: given.each])
        timed("one call at a time", given.each, now)
        now = time.perf_counter(), time.process_time()
        table = {"top_k": [child.parameters["top_k"] for child in cells]}
        with progress_bar(shown=True) as progress:
            tracker.log_grid(cells, table, {}, progress)
        timed("Tracker.log_grid", given.cells, now)
        tracker.end("FINISHED")
    return 0


if __name__ == "__main__":
    sys.exit(main())
