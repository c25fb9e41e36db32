"""The weighted sum of metrics, query by query."""

from collections.abc import Mapping, Sequence

import numpy as np

from evals.errors import ExperimentError
from evals.grid.choice.standings import Bools, Floats, Integers, ObjectiveScores, QueryScores
from evals.metrics.declaration import Kind
from evals.stats.intervals import FEWEST
from retrievers.errors import nearest

# Above this share of queries that only some cells score, cells are not compared.
MOST_DROPPED = 0.05


def combine(weights: Mapping[str, float], scores: Mapping[str, QueryScores]) -> ObjectiveScores:
    """Return the weighted sum of the metrics' means as a column of per-query values for every cell.

    Metrics may be over different queries (in scope, out of scope): a metric over n of all N queries counts N/n times
    its weight on these, so that a column's mean is the weighted sum of the means. A query that some cells score and
    others do not is dropped; one that no cell scores, without a reference, is not of that metric.

    Args:
        weights: Metric to weight; one of which less is better has a negative weight.
        scores: Metric to its scores, all over the same cells.

    Raises:
        ExperimentError: A metric has no scores (the nearest are named), no query is left, or over 5% were dropped.
    """
    for metric in weights:
        if metric not in scores:
            raise ExperimentError(f"objective: there are no scores of {metric!r}{nearest(metric, scores)}")
    ids = tuple(dict.fromkeys(i for metric in weights for i in scores[metric].query_ids))
    spread = {metric: _spread(scores[metric], ids) for metric in weights}
    # Scored in some cells and not in others: such a query would favour the cells that drop it.
    partial = np.any([np.isnan(v).any(axis=1) & ~np.isnan(v).all(axis=1) for v in spread.values()], axis=0)
    scored = np.stack([~np.isnan(v).all(axis=1) & ~partial for v in spread.values()], axis=1)
    is_kept = scored.any(axis=1)
    _check_dropped(weights, kept=int(is_kept.sum()), dropped=int(partial.sum()))
    scored = scored[is_kept]
    factors = np.array(list(weights.values())) * len(scored) / np.maximum(1, scored.sum(axis=0))
    values = sum(
        _weighted(v if is_kept.all() else v[is_kept], on * factor)
        for v, on, factor in zip(spread.values(), scored.T, factors, strict=True)
    )
    assert isinstance(values, np.ndarray)
    kind = _kind([scores[metric].kind for metric in weights])
    lowest, highest = (scored * np.minimum(factors, 0)).sum(axis=1), (scored * np.maximum(factors, 0)).sum(axis=1)
    return ObjectiveScores(
        objective=_text(weights),
        values=values,
        strata=_strata(scored),
        kind=kind,
        floor=float(lowest.min()),
        ceiling=float(highest.max()),
        span=None if kind == "amount" else float((highest - lowest).max()),
        dropped=int(partial.sum()),
        judged=min((s.judged for s in scores.values() if s.judged is not None), default=None),
    )


def _spread(scores: QueryScores, ids: Sequence[str]) -> Floats:
    """Return scores [all queries, cells], NaN where the metric is not over a query."""
    if ids == scores.query_ids:
        return scores.values
    rows = {query: row for row, query in enumerate(ids)}
    spread = np.full((len(ids), scores.values.shape[1]), np.nan)
    spread[[rows[query] for query in scores.query_ids]] = scores.values
    return spread


def _weighted(values: Floats, weights: Floats) -> Floats:
    """Return scores [queries, cells] times the weight of each query, 0 where one is NaN; no copy if nothing changes."""
    if (weights == 1).all() and not np.isnan(values).any():
        return values
    return np.nan_to_num(values * weights[:, None], copy=False)


def _check_dropped(weights: Mapping[str, float], *, kept: int, dropped: int) -> None:
    if not kept:
        raise ExperimentError(f"objective: no query is scored in all cells by {_text(weights)}")
    if dropped > MOST_DROPPED * (kept + dropped):
        raise ExperimentError(
            f"objective: {_text(weights)} scores {dropped} of {kept + dropped} queries in some cells and not in all, "
            f"over {MOST_DROPPED:.0%}: means over different queries do not compare"
        )


def _kind(kinds: Sequence[Kind]) -> Kind:
    if "amount" in kinds:
        return "amount"
    # A sum of proportions takes more than two values, so it is no proportion.
    return kinds[0] if len(kinds) == 1 else "mean"


def _strata(scored: Bools) -> Integers:
    """Group queries by the metrics that score them; fewer than ten of a kind go with the most numerous kind."""
    _, numbers, counts = np.unique(scored, axis=0, return_inverse=True, return_counts=True)
    strata = numbers.reshape(-1).astype(np.int64)
    return np.where(counts[strata] < FEWEST, counts.argmax(), strata)


def _text(weights: Mapping[str, float]) -> str:
    text = ""
    for metric, weight in weights.items():
        sign = "− " if weight < 0 else "+ " if text else ""
        text += (" " if text else "") + sign + ("" if abs(weight) == 1 else f"{abs(weight):g} ") + metric
    return text
