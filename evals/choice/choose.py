"""From the scores of all cells to a choice."""

from evals.choice.records import Cells, Choice, ObjectiveScores


def choose(scores: ObjectiveScores, cells: Cells, *, margin: float = 0.02, seed: int = 0) -> Choice:
    """The best cell, the confidence set of best cells, and the cheapest cell proved not worse by more than the margin.

    Args:
        scores: The objective of every query in every cell.
        cells: Labels, costs, and which of them meet the constraints; in the order of the columns of `scores`.
        margin: In units of the objective.
        seed: Of the resampling.

    Raises:
        ExperimentError: Scores are not finite or do not fit the cells, no cell is allowed, no query is left, or more
            than 5% of the queries were dropped.
    """
    raise NotImplementedError
