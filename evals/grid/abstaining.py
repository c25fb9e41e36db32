"""How well a threshold tells the queries of a grid that the documents answer from the others. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.grid.cells import Grid
from evals.stats.abstention import Abstention, Promise, assess, promise
from retrievers.records import UNBOUNDED


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
    settings, lists = grid.configurations[cell.configuration].settings, grid.pool.lists([cell.configuration])
    if settings.used_threshold is None:
        return None
    scores, scale = lists.column("score" if settings.threshold_on == "final" else "semantic"), settings.threshold_scale
    best = np.where(lists.codes < 0, -np.inf, scores).max(axis=1, initial=-np.inf if scale in UNBOUNDED else 0.0)
    in_scope = lists.by_case(lambda case: case.in_scope).astype(np.bool_)
    inside, outside = best[in_scope].tolist(), best[~in_scope].tolist()
    wanted = sorted({rate for rate in rates if rate and outside}, reverse=True)
    promised = tuple(promise(inside, outside, rate, scale) for rate in wanted)
    return Abstaining(known=assess(inside, outside, scale), promised=promised)
