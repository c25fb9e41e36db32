"""The statistics of choosing a cell of a grid: pure, seeded functions on arrays."""

from evals.choice.choose import choose
from evals.choice.explain import explain
from evals.choice.heldout import held_out
from evals.choice.intervals import mean_intervals
from evals.choice.objective import allowed_cells, combine
from evals.choice.records import Cells, Choice, HeldOut, MetricScores, ObjectiveScores, Standing

__all__ = [
    "Cells",
    "Choice",
    "HeldOut",
    "MetricScores",
    "ObjectiveScores",
    "Standing",
    "allowed_cells",
    "choose",
    "combine",
    "explain",
    "held_out",
    "mean_intervals",
]
