"""A threshold that promises a rate of wrong answers (`threshold.false_answer`), fitted to what was found. Pure."""

from dataclasses import replace

import numpy as np

from evals.collect.pool import Pool
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError
from evals.grid.axes import Plan, Variant
from evals.stats.abstention import Promise, promise
from retrievers.config import RetrieverConfig
from retrievers.records import UNBOUNDED


def best_scores(pool: Pool, number: int, settings: RetrieverConfig) -> tuple[list[float], list[float]]:
    """Return the best score of every query in scope and out of scope, of those that the threshold reads.

    Where nothing was found it is 0, −∞ on a scale without bounds.

    Args:
        pool: What was found.
        number: The variant.
        settings: Its settings.
    """
    lists = pool.lists([number])
    in_scope = lists.by_case(lambda case: case.in_scope).astype(np.bool_)
    scores = lists.column("score" if settings.threshold_on == "final" else "semantic")
    nothing = -np.inf if settings.threshold_scale in UNBOUNDED else 0.0
    best = np.where(lists.codes < 0, -np.inf, scores).max(axis=1, initial=nothing)
    return best[in_scope].tolist(), best[~in_scope].tolist()


def fitted(config: ExperimentConfig, pool: Pool, plan: Plan) -> tuple[Plan, tuple[str, ...]]:
    """Return a plan whose every way to retrieve has the threshold that promises the experiment's rate, and what it is.

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
    found = [_fitted(pool, number, variant, rate) for number, variant in enumerate(plan.variants)]
    variants = tuple(
        replace(
            variant,
            thresholds=(threshold,),
            settings=variant.settings.model_copy(update={"threshold": threshold}),
        )
        for variant, (threshold, _) in zip(plan.variants, found, strict=True)
    )
    notes = tuple(
        f"{variant.name}: {told.statement}" if variant.name else told.statement
        for variant, (_, told) in zip(plan.variants, found, strict=True)
    )
    return replace(plan, variants=variants), notes


def _fitted(pool: Pool, number: int, variant: Variant, rate: float) -> tuple[float, Promise]:
    inside, outside = best_scores(pool, number, variant.settings)
    where = f"threshold.false_answer {rate:g}" + (f", {variant.name}" if variant.name else "")
    if not outside:
        raise ExperimentError(
            f"{where}: the golden data holds no out-of-scope query, which a promise needs; add queries that the "
            "documents do not answer (docs/golden.md)"
        )
    if not np.isfinite([*inside, *outside]).any():
        raise ExperimentError(f"{where}: the retriever gives no scores that a threshold could read; leave it out")
    found = promise(inside, outside, rate, variant.settings.threshold_scale)
    if found.threshold is None:
        raise ExperimentError(f"{where}: {found.statement}")
    return found.threshold, found
