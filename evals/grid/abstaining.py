"""What thresholds do to the queries of a grid: in scope, out of scope, and to recall. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evals.config.criterion_text import CRITERION
from evals.grid.cells import Configuration, Grid
from evals.grid.relevance_arrays import is_plain, of_candidates, of_selections, threshold_scores
from evals.metrics.prefixes import id_recall
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
    observations = configuration.observed.observations
    in_scope = np.asarray([o.case.in_scope for o in observations], dtype=np.bool_)
    scores = threshold_scores(configuration.observed, configuration.settings).scores
    scale = configuration.settings.threshold_scale
    best = np.max(scores, axis=1, initial=-np.inf if scale in UNBOUNDED else 0.0)
    inside, outside = best[in_scope].tolist(), best[~in_scope].tolist()
    at = operating(inside, outside, configuration.thresholds)
    recalls = _by_threshold(configuration, cell.top_k)
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


def _by_threshold(configuration: Configuration, top_k: int) -> list[float | None]:
    """Return the mean recall at each threshold; None where relevance is not known in full."""
    selections, observed = configuration.selections, configuration.observed
    labelled = np.asarray([o.case.in_scope and o.case.is_labelled for o in observed.observations], dtype=np.bool_)
    if not labelled.any() or not is_plain(observed):
        return [None] * len(configuration.thresholds)
    values = id_recall(of_selections(observed, selections, of_candidates(observed))).ravel()
    cut = selections.top_ks.index(top_k)
    return [
        float(values[selections.of_cell(number * len(selections.top_ks) + cut)[labelled]].mean())
        for number in range(len(configuration.thresholds))
    ]
