"""Metrics of the table on observations put together by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evals.collect.observations import Observation, Score
from evals.collect.pool import Pool
from evals.metrics import METRICS
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.results import Results
from retrievers.search.candidates import ChunkList, joined
from tests.support.candidates import found_candidates
from tests.support.observed import make_context, observe, results


def results_of(observations: Sequence[Observation]) -> Results:
    """Return observations as results over one pool, in their order."""
    chunks, tables = ChunkList(), []
    places = np.full((len(observations), max((len(o.selection) for o in observations), default=0) or 1), -1)
    for row, observation in enumerate(observations):
        table = found_candidates(observation.candidates, chunks)
        left = list(enumerate(table.codes[0].tolist()))
        for rank, code in enumerate(chunks.code(chunk) for chunk in observation.selection.chunks):
            place = next(pair for pair in left if pair[1] == code)
            left.remove(place)
            places[row, rank] = place[0]
        tables.append(replace(table, facts=(observation.candidates.facts,)))
    pool = Pool(
        cases=tuple(o.case for o in observations),
        tables=(joined(tables),),
        relevance=(tuple(o.relevance for o in observations),),
    )
    return Results(pool.lists([0]), np.arange(len(observations)), places)


def scored(
    metric: QueryMetric | str, observations: Sequence[Observation], context: Context | None = None
) -> list[Score]:
    """Return the score of each observation that is in the scope of a metric, in their order."""
    results, found = results_of(observations), metric_of(metric)
    values, (rows, _) = found.values(results, context or make_context()), results.of(found.scope, labelled=False)
    return [values[row] for row in rows.tolist()]


def scorer(metric: str) -> Callable[..., Score]:
    """Return a function that scores one observation, whose query is in the scope of the metric."""
    return lambda observation, context=None: scored(metric, [observation], context)[0]


def metric_of(name: QueryMetric | str) -> QueryMetric:
    """Return a metric over queries by its name."""
    metric = METRICS[name] if isinstance(name, str) else name
    assert isinstance(metric, QueryMetric)
    return metric


def on_list(measure: Callable[[Results, int], Any]) -> Callable[[Sequence[str], Mapping[str, int], int], float]:
    """Return a measure of ranked ids and grades at a depth."""
    return lambda ranked, grades, k: float(measure(results_of([observe(results(*ranked), grades)]), k)[0])
