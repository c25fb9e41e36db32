"""Thresholds on the best score: which of them promise a rate, and how well scores separate the scopes. Pure."""

import re
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
    """Return what thresholds can do under the variant of a cell.

    Args:
        grid: The grid.
        index: Number of the cell.
        rates: False-answer rates to promise. A rate of 0 is left out, as no number of queries can promise it.

    Returns:
        Thresholds that promise a rate of wrong answers, from the highest rate to the lowest. And how well scores
        separate in-scope from out-of-scope queries: first the score that the threshold reads, then the other scores of
        the same search, the best first. Both are empty where no threshold is in force, and without queries of both
        kinds.
    """
    number = grid.cell(index).variant
    settings = grid.variants[number].settings
    if settings.threshold is None or {case.in_scope for case in grid.pool.cases} != {True, False}:
        return (), ()
    best = [best_scores(grid.pool, place, variant.settings) for place, variant in enumerate(grid.variants)]
    promises = (
        promise(*best[number], rate, settings.threshold_scale, _distinct(best))
        for rate in sorted({*rates} - {0}, reverse=True)
    )
    return tuple(promises), tuple(_signals(grid.pool, number, settings))


def beyond(signals: Sequence[Signal], highest: float) -> str:
    """Return the flag that sweeps the score that the threshold reads, if it goes beyond the highest threshold swept."""
    along = signals[0].thresholds if signals else ""
    return sweep_flag(along) if along and float(re.split("[:,]", along)[-2 if ":" in along else -1]) > highest else ""


def sweep_flag(along: str) -> str:
    """Return the flag that sweeps thresholds; empty without thresholds. A value that begins with - is no flag."""
    return f"--sweep.threshold{'=' if along.startswith('-') else ' '}{along}" if along else ""


def best_scores(pool: Pool, number: int, settings: RetrieverConfig) -> tuple[list[float], list[float]]:
    """Return the best score of every in-scope and of every out-of-scope query, of the kind that the threshold reads.

    The best score of a query without candidates is 0, or −∞ on a scale without bounds.
    """
    lists = pool.lists([number])
    in_scope = lists.by_case(lambda case: case.in_scope).astype(np.bool_)
    nothing = -np.inf if settings.threshold_scale in UNBOUNDED else 0.0
    best = np.where(lists.codes < 0, -np.inf, lists.read_by_threshold(settings)).max(axis=1, initial=nothing)
    return best[in_scope].tolist(), best[~in_scope].tolist()


def _signals(pool: Pool, number: int, settings: RetrieverConfig) -> Iterator[Signal]:
    """Yield how well the score that the threshold reads separates the scopes, then each other score, the best first."""
    in_force = FINAL if settings.threshold_on == "final" else settings.threshold_signal
    best_in_force = best_scores(pool, number, settings)
    yield signal(in_force, *best_in_force)
    others, lists = list[Signal](), pool.lists([number])
    for name in get_args(ThresholdSignal):
        other = settings.model_copy(update={"threshold_on": "best", "threshold_signal": name})
        scores = lists.read_by_threshold(other)[lists.codes >= 0]
        if name != in_force and scores.size and np.isfinite(scores).all():
            best = best_scores(pool, number, other)
            if best != best_in_force:  # the final score may equal one of them
                others.append(signal(name, *best))
    yield from sorted(others, key=lambda other: -other.auroc)


def fitted(config: ExperimentConfig, pool: Pool, plan: Plan) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan with the lowest thresholds that promise `threshold.false_answer`, and a note for each variant.

    Args:
        config: The experiment. Without `threshold.false_answer` the plan stays as it is.
        pool: The candidates under the variants of the plan.
        plan: The plan.

    Raises:
        ExperimentError: No threshold promises the rate on these queries. The message says how many queries could.
    """
    rate = config.threshold.false_answer
    if rate is None:
        return plan, ()
    variants, notes = list[Variant](), list[str]()
    best = [best_scores(pool, number, variant.settings) for number, variant in enumerate(plan.variants)]
    for variant, (inside, outside) in zip(plan.variants, best, strict=True):
        where = f"threshold.false_answer {rate:g}" + (f", {variant.name}" if variant.name else "")
        if not outside:
            raise ExperimentError(f"{where}: {NO_OUT_OF_SCOPE}")
        if not np.isfinite([*inside, *outside]).any():
            raise ExperimentError(f"{where}: the retriever gives no scores that a threshold could read; leave it out")
        promised = promise(inside, outside, rate, variant.settings.threshold_scale, _distinct(best))
        if promised.threshold is None:
            raise ExperimentError(f"{where}: {promised.statement}")
        settings = variant.settings.model_copy(update={"threshold": promised.threshold})
        variants.append(replace(variant, thresholds=(promised.threshold,), settings=settings))
        notes.append(f"{variant.name}: {promised.statement}" if variant.name else promised.statement)
    return replace(plan, variants=tuple(variants)), tuple(notes)


def _distinct(best: Sequence[tuple[list[float], list[float]]]) -> int:
    """Return the number of variants whose best scores of out-of-scope queries differ: one of them may be chosen."""
    return len({tuple(outside) for _, outside in best})
