"""The statistics of choosing a cell of a grid: pure, seeded functions on arrays."""

from evals.grid.choice.choose import choose
from evals.grid.choice.column_intervals import column_intervals
from evals.grid.choice.explanation import explain
from evals.grid.choice.heldout_score import held_out
from evals.grid.choice.standings import Cells, Choice, HeldOut, ObjectiveScores, QueryScores, Standing
from evals.grid.choice.weighted_objective import combine

__all__ = [
    "Cells",
    "Choice",
    "HeldOut",
    "ObjectiveScores",
    "QueryScores",
    "Standing",
    "choose",
    "column_intervals",
    "combine",
    "explain",
    "held_out",
]
