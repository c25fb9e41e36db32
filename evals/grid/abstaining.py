"""What thresholds do to the queries of a grid: in scope, out of scope, and to recall. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evals.config.values import CRITERION
from evals.grid.cells import Grid, lay_out
from evals.metrics.declaration import Context
from evals.metrics.ranking import id_recall
from evals.stats.abstention import Abstention, OperatingPoint, RateThreshold, assess, operating, threshold_for
from retrievers.records import UNBOUNDED

FALSE_ANSWER = "scope/false_answer"
RATES = (0.0, 0.05, 0.1)
"""The false-answer rates for which a threshold is looked up, beside that of a constraint."""


@dataclass(frozen=True, kw_only=True)
class Abstaining:
    """Abstention under one configuration, at one cut.

    Attributes:
        top_k: The cut, for recall.
        known: Separation that any threshold could reach.
        by_threshold: Effect of the thresholds of the grid, with recall at the cut.
        wanted: The thresholds for wanted false-answer rates; empty without out-of-scope queries.
    """

    configuration: str
    top_k: int
    known: Abstention
    by_threshold: tuple[OperatingPoint, ...]
    wanted: tuple[RateThreshold, ...]


def abstaining(grid: Grid, index: int, rates: tuple[float, ...] = RATES) -> Abstaining | None:
    """Abstention under the configuration and cut of a cell; None where no threshold is in force.

    Args:
        grid: The grid.
        index: The cell.
        rates: Wanted false-answer rates.
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
        wanted=tuple(threshold_for(inside, outside, rate, scale) for rate in sorted(set(rates))) if outside else (),
    )


def wanted_rates(constraints: Mapping[str, str]) -> tuple[float, ...]:
    """Return the usual rates, and the one that a constraint on false answers names."""
    match = CRITERION.fullmatch(constraints.get(FALSE_ANSWER, ""))
    return (*RATES, float(match[2])) if match and match[1].startswith("<") else RATES


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
