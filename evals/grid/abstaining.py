"""What thresholds do to the queries of a grid: in scope, out of scope, and to recall. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evals.grid.cells import Grid, lay_out
from evals.metrics.declaration import Context
from evals.metrics.ranking import id_recall
from evals.stats.abstention import Abstention, OperatingPoint, Promise, assess, operating, promise
from retrievers.records import UNBOUNDED


@dataclass(frozen=True, kw_only=True)
class Abstaining:
    """Abstention under one configuration, at one cut.

    Attributes:
        top_k: The cut, for recall.
        known: Separation that any threshold could reach.
        by_threshold: Effect of the thresholds of the grid, with recall at the cut.
        promised: The thresholds that promise rates of false answers; empty without out-of-scope queries.
    """

    configuration: str
    top_k: int
    known: Abstention
    by_threshold: tuple[OperatingPoint, ...]
    promised: tuple[Promise, ...]


def abstaining(grid: Grid, index: int, rates: Sequence[float]) -> Abstaining | None:
    """Abstention under the configuration and cut of a cell; None where no threshold is in force.

    Args:
        grid: The grid.
        index: The cell.
        rates: False-answer rates to promise; one of 0 no number of queries promises, and is left out.
    """
    cell = grid.cell(index)
    configuration = grid.configurations[cell.configuration]
    if configuration.settings.used_threshold is None:
        return None
    lists = grid.pool.lists([cell.configuration])
    in_scope = lists.by_case(lambda case: case.in_scope).astype(np.bool_)
    scores = lists.column("score" if configuration.settings.threshold_on == "final" else "semantic")
    scale = configuration.settings.threshold_scale
    best = np.where(lists.codes < 0, -np.inf, scores).max(axis=1, initial=-np.inf if scale in UNBOUNDED else 0.0)
    inside, outside = best[in_scope].tolist(), best[~in_scope].tolist()
    at = operating(inside, outside, configuration.thresholds)
    recalls = _by_threshold(grid, cell.configuration, cell.top_k)
    return Abstaining(
        configuration=configuration.name,
        top_k=cell.top_k,
        known=assess(inside, outside, scale),
        by_threshold=tuple(replace(point, recall=recall) for point, recall in zip(at, recalls, strict=True)),
        promised=tuple(
            promise(inside, outside, rate, scale) for rate in sorted({*rates}, reverse=True) if rate and outside
        ),
    )


def _by_threshold(grid: Grid, number: int, top_k: int) -> list[float | None]:
    """Return the mean recall at each threshold; None where relevance is not known in full."""
    configuration = grid.configurations[number]
    results, row_of = lay_out(grid.pool.lists([number]), [configuration], [top_k])
    labelled, _ = results.at(row_of[0]).of("in_scope", labelled=True)
    if not len(labelled) or any(relevance.incomplete for relevance in results.lists.relevance):
        return [None] * len(configuration.thresholds)
    blank = Context(required=(), sources=None, relevant_texts=None, seed=0)
    recall = np.asarray(id_recall(results, blank))
    return [float(recall[rows[labelled]].mean()) for rows in row_of]
