"""95% intervals of the means of all cells at once."""

from evals.choice.records import Floats
from evals.metrics.base import Kind


def mean_intervals(values: Floats, kind: Kind, seed: int) -> tuple[Floats, Floats]:
    """What `evals.stats` says of every column's mean: Wilson for proportions, `mean_interval` for others.

    Args:
        values: [queries, cells], finite.
        kind: Of the metric.
        seed: Of the resampling.

    Returns:
        Lower and upper ends [cells]; NaN where not computable.
    """
    raise NotImplementedError
