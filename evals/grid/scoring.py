"""Selections → scores: every metric once for each distinct selection of every configuration. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.grid.cells import Configuration, SelectionScores, ranked
from evals.grid.prefixes import ON_ITEMS, ON_TOKENS, PREFIXES, Prefixes
from evals.grid.relevance_arrays import Judged, is_plain, judged, with_items, with_tokens
from evals.grid.selections import Selections
from evals.metrics.base import Context, QueryMetric, within

TOO_FEW = Unscored(reason="fewer than three relevant chunks")


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
) -> dict[str, tuple[SelectionScores, ...]]:
    """Every metric over the selections of every configuration.

    Those that can be computed over all beginnings of a list at once are; each of the others is called once, with the
    distinct selections of all configurations together, or with the queries if it reads the candidates.

    Args:
        metrics: By name.
        configurations: What was found, and what cells keep of it.
        context: What metrics need besides observations.
    """
    plain = all(is_plain(o) for one in configurations for o in one.observed.observations)
    at_once: Mapping[str, Prefixes] = PREFIXES if plain else {}
    sides = [_arrays(one, [name for name in metrics if name in at_once]) for one in configurations]
    apart = {of: [_asked(one, of) for one in configurations] for of in _lists_read(metrics, at_once)}
    return {
        name: tuple(_at_once(name, side) for side in sides)
        if name in at_once
        else _one_by_one(metric, configurations, apart[metric.of], context)
        for name, metric in metrics.items()
    }


def distinct(configuration: Configuration) -> Distinct:
    """The distinct selections that some cell keeps: lists may begin alike, and a query's empty ones are the same."""
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
            found = configuration.observed.observations[query]
            observations.append(replace(found, selection=ranked(found.candidates.chunks, members)))
        which[at] = places[query, members]
    return Distinct(numbers=numbers, which=which, observations=tuple(observations))


def _lists_read(metrics: Mapping[str, QueryMetric], at_once: Mapping[str, Prefixes]) -> set[str]:
    return {metric.of for name, metric in metrics.items() if name not in at_once}


def _asked(configuration: Configuration, of: str) -> Distinct:
    """What a metric is called with: the distinct selections, or each query once, whose candidates no cut changes."""
    if of == "returned":
        return distinct(configuration)
    selections = configuration.selections
    numbers = selections.used()
    which = selections.query[numbers // selections.width].astype(np.int64)
    return Distinct(numbers=numbers, which=which, observations=configuration.observed.observations)


def _arrays(configuration: Configuration, names: Sequence[str]) -> Judged | None:
    if not names:
        return None
    observations, selections = configuration.observed.observations, configuration.selections
    known = judged(observations, selections)
    if not ON_ITEMS.isdisjoint(names):
        known = with_items(known, observations, selections)
    if not ON_TOKENS.isdisjoint(names):
        known = with_tokens(known, observations, selections)
    return known


def _at_once(name: str, side: Judged | None) -> SelectionScores:
    assert side is not None
    values = PREFIXES[name](side).ravel()
    missing = np.isnan(values)
    if not missing.any():
        return SelectionScores(values=values)
    return SelectionScores(values=values, issue=np.where(missing, 0, -1).astype(np.int32), issues=(TOO_FEW,))


def _one_by_one(
    metric: QueryMetric, configurations: Sequence[Configuration], apart: Sequence[Distinct], context: Context
) -> tuple[SelectionScores, ...]:
    asked = [within(one.observations, metric.scope) for one in apart]
    scores = iter(metric.score([o for observations in asked for o in observations], context))
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
    for place, score in enumerate(scores):
        if isinstance(score, Unscored | Failure):
            why[place] = issues.setdefault(score, len(issues))
        elif score is not None:
            values[place] = score
    whole = np.full(selections.count, np.nan)
    whole[each.numbers] = values[each.which]
    if not issues:
        return SelectionScores(values=whole)
    issue = np.full(selections.count, -1, dtype=np.int32)
    issue[each.numbers] = why[each.which]
    return SelectionScores(values=whole, issue=issue, issues=tuple(issues))
