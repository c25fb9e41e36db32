"""Thresholds on the best score: how well they tell queries in scope from others, and which promise a rate. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from evals.collect.pool import Pool
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError
from evals.grid.axes import Plan, Variant
from evals.grid.cells import Grid
from evals.grid.decision import NO_OUT_OF_SCOPE
from evals.stats.abstention import FINAL, Promise, Signal, promise, signal
from retrievers.config import RetrieverConfig, ThresholdSignal
from retrievers.records import UNBOUNDED


def abstaining(grid: Grid, index: int, rates: Sequence[float]) -> tuple[tuple[Promise, ...], tuple[Signal, ...]]:
    """Return what thresholds can do under the variant of a cell; nothing without queries of both kinds.

    Args:
        grid: The grid.
        index: The cell.
        rates: False-answer rates to promise; one of 0 no number of queries promises, and is left out.

    Returns:
        Thresholds that promise a rate of wrong answers. And how far the score that the threshold reads tells the
        queries apart, then the other scores that the same search holds, the best first.
    """
    number = grid.cell(index).variant
    settings = grid.variants[number].settings
    if settings.threshold is None or {case.in_scope for case in grid.pool.cases} != {True, False}:
        return (), ()
    read = [_best_scores(grid.pool, place, variant.settings) for place, variant in enumerate(grid.variants)]
    promises = (
        promise(*read[number], rate, settings.threshold_scale, _distinct(read))
        for rate in sorted({*rates} - {0}, reverse=True)
    )
    return tuple(promises), tuple(_signals(grid.pool, number, settings))


def _signals(pool: Pool, number: int, settings: RetrieverConfig) -> Iterator[Signal]:
    own = FINAL if settings.threshold_on == "final" else settings.threshold_signal
    read = _best_scores(pool, number, settings)
    yield signal(own, *read)
    others, lists = list[Signal](), pool.lists([number])
    for name in get_args(ThresholdSignal):
        reading = settings.model_copy(update={"threshold_on": "best", "threshold_signal": name})
        scores = lists.read_by_threshold(reading)[lists.codes >= 0]
        if name != own and scores.size and np.isfinite(scores).all():
            best = _best_scores(pool, number, reading)
            # The final score may be one of them.
            others += [signal(name, *best)] if best != read else []
    yield from sorted(others, key=lambda other: -other.auroc)


def fitted(config: ExperimentConfig, pool: Pool, plan: Plan) -> tuple[Plan, tuple[str, ...]]:
    """Return a plan whose variants have the lowest threshold that promises `threshold.false_answer`, and notes.

    Args:
        config: The experiment; where it promises nothing, the plan stays as it is.
        pool: What was found under the variants of the plan.
        plan: The cells.

    Raises:
        ExperimentError: These queries promise the rate for no threshold; with how many could.
    """
    rate = config.threshold.false_answer
    if rate is None:
        return plan, ()
    variants, notes = list[Variant](), list[str]()
    read = [_best_scores(pool, number, variant.settings) for number, variant in enumerate(plan.variants)]
    for variant, (inside, outside) in zip(plan.variants, read, strict=True):
        where = f"threshold.false_answer {rate:g}" + (f", {variant.name}" if variant.name else "")
        if not outside:
            raise ExperimentError(f"{where}: {NO_OUT_OF_SCOPE}")
        if not np.isfinite([*inside, *outside]).any():
            raise ExperimentError(f"{where}: the retriever gives no scores that a threshold could read; leave it out")
        promised = promise(inside, outside, rate, variant.settings.threshold_scale, _distinct(read))
        if promised.threshold is None:
            raise ExperimentError(f"{where}: {promised.statement}")
        settings = variant.settings.model_copy(update={"threshold": promised.threshold})
        variants.append(replace(variant, thresholds=(promised.threshold,), settings=settings))
        notes.append(f"{variant.name}: {promised.statement}" if variant.name else promised.statement)
    return replace(plan, variants=tuple(variants)), tuple(notes)


def _distinct(read: Sequence[tuple[list[float], list[float]]]) -> int:
    """Return how many ways to retrieve give out-of-scope queries other best scores: of these one may be chosen."""
    return len({tuple(outside) for _, outside in read})


def _best_scores(pool: Pool, number: int, settings: RetrieverConfig) -> tuple[list[float], list[float]]:
    """Return the best score of every query in scope and out of scope, of those that the threshold reads.

    Where nothing was found it is 0, −∞ on a scale without bounds.
    """
    lists = pool.lists([number])
    in_scope = lists.by_case(lambda case: case.in_scope).astype(np.bool_)
    nothing = -np.inf if settings.threshold_scale in UNBOUNDED else 0.0
    best = np.where(lists.codes < 0, -np.inf, lists.read_by_threshold(settings)).max(axis=1, initial=nothing)
    return best[in_scope].tolist(), best[~in_scope].tolist()
