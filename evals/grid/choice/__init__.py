"""The statistics of choosing a cell of a grid: pure, seeded functions on arrays."""

from evals.grid.choice.choose import choose
from evals.grid.choice.explain import explain
from evals.grid.choice.heldout import held_out
from evals.grid.choice.intervals import column_intervals
from evals.grid.choice.objective import combine
from evals.grid.choice.standings import Cells, Choice, HeldOut, ObjectiveScores, QueryScores, Standing

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
