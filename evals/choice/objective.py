"""What is maximised, and which cells may be chosen at all."""

from collections.abc import Mapping, Sequence

from evals.choice.records import Bools, Floats, MetricScores, ObjectiveScores


def combine(objective: Mapping[str, float], scores: Mapping[str, MetricScores]) -> ObjectiveScores:
    """The weighted sum of the metrics' means as one column of per-query values for every cell.

    A metric of which less is better counts negatively. Metrics over different queries (in scope, out of scope) are put
    together so that the mean of a column is exactly the weighted sum of the means.

    Args:
        objective: Metric to weight (`ChoiceConfig.weights`).
        scores: Metric to its scores; all of the same cells.

    Raises:
        ExperimentError: A metric of the objective has no scores; the nearest names are given.
    """
    raise NotImplementedError


def allowed_cells(constraints: Mapping[str, str], figures: Mapping[str, Floats], labels: Sequence[str]) -> Bools:
    """Which cells meet every constraint, compared as criteria are.

    Args:
        constraints: Metric to condition, such as `<= 0.1`.
        figures: Metric to its value in every cell [cells]; NaN, where a cell has none, meets no constraint.
        labels: What the cells are called.

    Raises:
        ExperimentError: No cell is left (the nearest are named with what they violate), or a metric is unknown.
    """
    raise NotImplementedError
