"""A finished grid of the small world."""

from pathlib import Path
from typing import Any

from evals.grid.measure import Measured
from tests.support.experiment import settings
from tests.support.grid_world import Bench, make_world

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}
METRICS = ["ranking/*", "ragas/id_*", "scope/*", "latency/total_p50_ms", "queries/*"]


def make_grid(folder: Path, **changes: Any) -> Measured:
    """Return 100 cells: two modes, ten thresholds, five cuts."""
    world = make_world(folder)
    values = {"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, **changes}
    return Bench(settings(world), {}).grid(settings(world, **values))
