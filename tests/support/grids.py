"""A finished grid of the small world."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.grid.choice import Choice
from evals.grid.judging import CellProof
from evals.grid.measure import Measured, Swept
from tests.support.experiment import settings
from tests.support.grid_world import Bench, make_world

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}
METRICS = ["ranking/*", "ragas/id_*", "scope/*", "latency/total_p50_ms", "queries/*"]


def make_grid(folder: Path, **changes: Any) -> Measured:
    """Return 100 cells: two modes, ten thresholds, five cuts."""
    world = make_world(folder)
    values = {"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, **changes}
    return Bench(settings(world), {}).grid(settings(world, **values))


def swept_of(made: Measured) -> Swept:
    """Return the cells of a grid, and what they come down to."""
    assert made.swept is not None
    return made.swept


def with_swept(made: Measured, **changes: Any) -> Measured:
    """Return a grid with another choice, ranking, …"""
    return replace(made, swept=replace(swept_of(made), **changes))


def choice_of(made: Measured) -> Choice:
    """Return the choice among the cells of a grid."""
    choice = swept_of(made).choice
    assert choice is not None
    return choice


def proof_of(made: Measured) -> CellProof:
    """Return what verdicts prove of the cells of a grid."""
    proof = swept_of(made).proof
    assert proof is not None
    return proof
