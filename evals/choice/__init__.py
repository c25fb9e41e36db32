"""The statistics of choosing a cell of a grid: pure, seeded functions on arrays."""

from evals.choice.choose import choose
from evals.choice.explain import explain
from evals.choice.heldout import held_out
from evals.choice.intervals import column_intervals
from evals.choice.objective import combine
from evals.choice.records import Cells, Choice, HeldOut, ObjectiveScores, QueryScores, Standing

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
