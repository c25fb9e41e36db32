"""A grid as plain JSON values, by columns. Its schema is in docs/report.md."""

from collections.abc import Mapping
from dataclasses import asdict
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Summary
from evals.grid.cells import Configuration, MetricScores
from evals.grid.evaluation import GridResult
from evals.grid.objective import Ranking
from evals.report.choice_document import choice_section

MOST_CELLS = 10_000
"""Cells beyond these are left out of the report, from the end of the ranking; never the one that was chosen."""


def grid_document(result: GridResult) -> dict[str, Any]:
    """The grid: axes, configurations, cells, and every metric by cell."""
    grid, kept = result.grid, _kept(result)
    cells = [grid.cell(index) for index in kept.tolist()]
    return {
        "axes": {name: values if isinstance(values, str) else list(values) for name, values in grid.axes.items()},
        "chosen": result.chosen,
        "choice": choice_section(result.choice, result.held_out) if result.choice else None,
        "ranking": _ranking(result.ranking, kept),
        "configurations": [_configuration(configuration) for configuration in grid.configurations],
        "cells": {
            "count": len(grid),
            "index": kept.tolist(),
            "configuration": [cell.configuration for cell in cells],
            "top_k": [cell.top_k for cell in cells],
            "threshold": [cell.threshold for cell in cells],
        },
        "metrics": {name: _metric(metric, kept) for name, metric in grid.metrics.items()},
        "abstention": asdict(result.abstaining) if result.abstaining else None,
        "notes": list(grid.notes),
    }


def _kept(result: GridResult) -> NDArray[np.int64]:
    """The numbers of the cells that are reported, ascending."""
    every = np.arange(len(result.grid))
    if len(every) <= MOST_CELLS:
        return every
    chosen = () if result.chosen is None else (result.chosen,)
    order = np.asarray(list(dict.fromkeys((*chosen, *result.ranking.order))), dtype=np.int64)
    rest = np.setdiff1d(every, order)
    return np.sort(np.concatenate([order, rest])[:MOST_CELLS])


def _ranking(ranking: Ranking, kept: NDArray[np.int64]) -> dict[str, Any]:
    shown = set(kept.tolist())
    return {
        "metrics": dict(ranking.weights),
        "n": dict(ranking.n),
        "dropped": dict(ranking.dropped),
        "constraints": dict(ranking.constraints),
        "excluded": ranking.excluded,
        "reason": ranking.reason,
        "order": [cell for cell in ranking.order if cell in shown],
        "values": _numbers(ranking.values[kept]),
    }


def _configuration(configuration: Configuration) -> dict[str, Any]:
    return {
        "name": configuration.name,
        "parameters": dict(configuration.parameters),
        "metrics": {summary.metric: _summary(summary) for summary in configuration.summaries},
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {key: value for key, value in asdict(summary).items() if key != "metric"}


def _metric(metric: MetricScores, kept: NDArray[np.int64]) -> Mapping[str, Any]:
    known = metric.summaries
    same = np.array_equal(known.common, known.mean, equal_nan=True)
    return {
        "scope": metric.scope,
        "mean": _numbers(known.mean[kept]),
        **{name: _counts(getattr(known, name)[kept]) for name in ("n", "n_unscored", "n_failed")},
        "common": None if same else _numbers(known.common[kept]),
        "n_common": known.n_common,
        "n_dropped": known.n_dropped,
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


def _counts(values: NDArray[np.int64]) -> int | list[int]:
    """One number where all cells have the same."""
    found: list[int] = values.tolist()
    return found[0] if len(set(found)) == 1 else found
