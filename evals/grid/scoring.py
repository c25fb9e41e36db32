"""Selections → scores: every metric once for each distinct selection of every configuration. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.grid.cells import Configuration, Part, SelectionScores
from evals.grid.relevance_arrays import is_plain, of_candidates, of_selections
from evals.grid.selections import Selections
from evals.metrics.arrays import RelevanceArrays
from evals.metrics.base import NO_LABELS, Context, QueryMetric, within

Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """The distinct selections of a configuration, each as an observation of its own.

    Attributes:
        numbers: The selections that some cell keeps, by number.
        which: For each of them its place among `observations`.
    """

    numbers: NDArray[np.int64]
    which: NDArray[np.int64]
    observations: tuple[Observation, ...]


def score_all(
    metrics: Mapping[str, QueryMetric], configurations: Sequence[Configuration], context: Context
) -> dict[str, tuple[Part, ...]]:
    """Score every metric over the selections of every configuration.

    Those that can be computed over all beginnings of a list at once are, whenever they are read: kept, they would take
    more memory than all that was found. Each of the others is called once, with the distinct selections of all
    configurations together, or with the queries if it reads the candidates.

    Args:
        metrics: By name.
        configurations: Candidates, and the selections of the cells.
        context: Inputs of the metrics besides observations.
    """
    arrays = [_Arrays(configuration) for configuration in configurations]
    plain = all(is_plain(configuration.observed) for configuration in configurations)
    by_array = {name for name, metric in metrics.items() if plain and metric.over_prefixes}
    lists = {metric.of for name, metric in metrics.items() if name not in by_array}
    apart = {of: [_asked(configuration, of) for configuration in configurations] for of in lists}
    return {
        name: tuple(partial(_at_once, metric, of_configuration) for of_configuration in arrays)
        if name in by_array
        else tuple(map(_kept, _one_by_one(metric, configurations, apart[metric.of], context)))
        for name, metric in metrics.items()
    }


class _Arrays:
    """The relevance arrays of a configuration, made where a metric asks for them."""

    def __init__(self, configuration: Configuration) -> None:
        self._observed, self._selections = configuration.observed, configuration.selections

    @cached_property
    def candidates(self) -> RelevanceArrays:
        return of_candidates(self._observed)

    @cached_property
    def lists(self) -> RelevanceArrays:
        return of_selections(self._observed, self._selections, self.candidates)

    @cached_property
    def unlabelled(self) -> NDArray[np.bool_]:
        return np.array([o.case.is_unlabelled for o in self._observed.observations], dtype=np.bool_)

    def by_selection(self, of_queries: NDArray[Value]) -> NDArray[Value]:
        """Lay values of queries out by the number of the selection."""
        return np.repeat(of_queries[self._selections.query], self._selections.width)


def distinct(configuration: Configuration) -> Distinct:
    """Return the distinct selections of all cells: lists may begin alike, and a query's empty ones are the same."""
    selections = configuration.selections
    numbers = selections.used()
    places: dict[tuple[int, tuple[int, ...]], int] = {}
    which = np.empty(len(numbers), dtype=np.int64)
    observations: list[Observation] = []
    for at, number in enumerate(numbers.tolist()):
        query = int(selections.query[number // selections.width])
        members = tuple(selections.places(number))
        if (query, members) not in places:
            places[query, members] = len(observations)
            observation = configuration.observed.observations[query]
            observations.append(replace(observation, selection=observation.candidates.at(members)))
        which[at] = places[query, members]
    return Distinct(numbers=numbers, which=which, observations=tuple(observations))


def _asked(configuration: Configuration, of: str) -> Distinct:
    """Return observations to call a metric with: distinct selections, or, for its candidates, each query once."""
    if of == "returned":
        return distinct(configuration)
    selections = configuration.selections
    numbers = selections.used()
    which = selections.query[numbers // selections.width].astype(np.int64)
    return Distinct(numbers=numbers, which=which, observations=configuration.observed.observations)


def _at_once(metric: QueryMetric, arrays: _Arrays) -> SelectionScores:
    assert metric.over_prefixes is not None
    if metric.of == "candidates":
        values = arrays.by_selection(metric.over_prefixes(arrays.candidates)[:, -1])
    else:
        values = metric.over_prefixes(arrays.lists).ravel()
    unlabelled = arrays.by_selection(arrays.unlabelled) if "labels" in metric.needs else np.zeros(len(values), np.bool_)
    missing = np.isnan(values) | unlabelled
    if not missing.any():
        return SelectionScores(values=values)
    return SelectionScores(
        values=np.where(missing, np.nan, values),
        issue=np.where(unlabelled, 1, np.where(missing, 0, -1)).astype(np.int32),
        issues=(Unscored(reason=metric.undefined), NO_LABELS),
    )


def _kept(scores: SelectionScores) -> Part:
    return lambda: scores


def _one_by_one(
    metric: QueryMetric, configurations: Sequence[Configuration], apart: Sequence[Distinct], context: Context
) -> tuple[SelectionScores, ...]:
    asked = [within(one.observations, metric.scope) for one in apart]
    scores = iter(metric.scores([o for observations in asked for o in observations], context))
    return tuple(
        _spread(one.selections, each, [next(scores) if _inside(o, metric) else None for o in each.observations])
        for one, each in zip(configurations, apart, strict=True)
    )


def _inside(observation: Observation, metric: QueryMetric) -> bool:
    return bool(within([observation], metric.scope))


def _spread(selections: Selections, each: Distinct, scores: Sequence[Score | None]) -> SelectionScores:
    """Scores of distinct selections, to every selection by its number; those out of scope and unused have NaN."""
    issues: dict[Unscored | Failure, int] = {}
    values = np.full(len(scores), np.nan)
    why = np.full(len(scores), -1, dtype=np.int32)
    for index, score in enumerate(scores):
        if isinstance(score, Unscored | Failure):
            why[index] = issues.setdefault(score, len(issues))
        elif score is not None:
            values[index] = score
    whole = np.full(selections.count, np.nan)
    whole[each.numbers] = values[each.which]
    if not issues:
        return SelectionScores(values=whole)
    issue = np.full(selections.count, -1, dtype=np.int32)
    issue[each.numbers] = why[each.which]
    return SelectionScores(values=whole, issue=issue, issues=tuple(issues))
