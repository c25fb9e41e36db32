"""How well a threshold tells the queries of a grid that the documents answer from the others. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.grid.cells import Grid
from evals.grid.fitted import best_scores
from evals.stats.abstention import Abstention, Promise, assess, promise


@dataclass(frozen=True, kw_only=True)
class Abstaining:
    """Abstention under one configuration.

    Attributes:
        known: Separation that any threshold could reach, and the effect of each.
        promised: The thresholds that promise rates of false answers; empty without out-of-scope queries.
    """

    known: Abstention
    promised: tuple[Promise, ...]


def abstaining(grid: Grid, index: int, rates: Sequence[float]) -> Abstaining | None:
    """Abstention under the configuration of a cell; None where no threshold is in force.

    Args:
        grid: The grid.
        index: The cell.
        rates: False-answer rates to promise; one of 0 no number of queries promises, and is left out.
    """
    cell = grid.cell(index)
    settings = grid.configurations[cell.configuration].settings
    if settings.threshold is None:
        return None
    inside, outside = best_scores(grid.pool, cell.configuration, settings)
    scale = settings.threshold_scale
    wanted = sorted({rate for rate in rates if rate and outside}, reverse=True)
    promised = tuple(promise(inside, outside, rate, scale) for rate in wanted)
    return Abstaining(known=assess(inside, outside, scale), promised=promised)
