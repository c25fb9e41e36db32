"""The unbiased figure of a choice: its score on queries that had no part in it."""

from evals.errors import ExperimentError
from evals.grid.choice.column_intervals import objective_intervals
from evals.grid.choice.standings import Choice, HeldOut, ObjectiveScores


def held_out(choice: Choice, scores: ObjectiveScores) -> HeldOut:
    """Return the recommended cell on held-out queries.

    The value of the best of many cells on the queries that made it the best is too high; on others it is not.

    Args:
        choice: Made on other queries (the split `dev`).
        scores: The same objective and cells on the held-out queries (the split `test`).

    Raises:
        ExperimentError: The scores are of another objective or another number of cells.
    """
    queries, cells = scores.values.shape
    if scores.objective != choice.objective or cells != choice.n_cells or not queries:
        raise ExperimentError(
            f"choice: expected held-out scores of {choice.objective!r} in {choice.n_cells} cells, got {queries} "
            f"queries of {scores.objective!r} in {cells}"
        )
    column = scores.values[:, [choice.recommended.cell]]
    value = float(column.mean())
    return HeldOut(
        label=choice.recommended.label,
        value=value,
        n=queries,
        interval=objective_intervals(scores, column)[0],
        chosen_on=choice.recommended.value,
        optimism=choice.recommended.value - value,
    )
