"""What was found under every variant → the grid. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation, Observed
from evals.config.sweep import SweepConfig
from evals.grid.axes import Plan, Variant
from evals.grid.cells import Configuration, Grid, MetricScores
from evals.grid.means import Scored, summarise_cells
from evals.grid.relevance_arrays import threshold_scores
from evals.grid.sampled_cells import with_samples
from evals.grid.scoring import score_all
from evals.grid.selections import select_all
from evals.metrics import NEED_A_JUDGE, VERDICT_METRIC
from evals.metrics.base import Context, Metric, QueryMetric, within
from evals.metrics.declaration import LABELS
from evals.metrics.proxies import serving
from evals.metrics.verdicts import outcomes_of


@dataclass(frozen=True, kw_only=True)
class ObservedVariant:
    """Observations of the golden queries under one variant, with candidates at full depth."""

    variant: Variant
    observed: Observed


def configure(plan: Plan, retrieved: Sequence[ObservedVariant]) -> tuple[Configuration, ...]:
    """Return each variant with the selections that its cells keep.

    Args:
        plan: Its cuts and thresholds.
        retrieved: By variant, in the plan's order, all over the same queries.
    """
    return tuple(_configuration(plan, observed) for observed in retrieved)


def build(
    plan: Plan,
    sweep: SweepConfig,
    configurations: Sequence[Configuration],
    metrics: Mapping[str, Metric],
    context: Context,
    judged_on: NDArray[np.bool_] | None = None,
) -> Grid:
    """Score every cell of a sweep.

    Args:
        plan: Its cuts and thresholds.
        sweep: As it was written.
        configurations: At least one.
        metrics: Those over queries are scored in every cell; those of a run belong to the configurations.
        context: Inputs of the metrics besides observations.
        judged_on: As in `with_samples`.
    """
    by_query = {name: metric for name, metric in metrics.items() if isinstance(metric, QueryMetric)}
    sampled = context.judging is not None and context.judging.drawn is not None
    proxies = {m.proxy.name: m.proxy for m in by_query.values() if m.proxy is not None} if sampled else {}
    parts = score_all(by_query | proxies, configurations, context)
    observations = configurations[0].observed.observations
    rows = {name: _rows(observations, metric) for name, metric in by_query.items()}
    scored = {name: Scored(parts=parts[name], rows=rows[name]) for name in by_query}
    summaries = summarise_cells(scored, [c.selections for c in configurations])
    ids = tuple(o.case.id for o in observations)
    grid = Grid(
        axes=dict(sweep.axes),
        top_ks=plan.top_ks,
        configurations=tuple(with_summaries(c, metrics, context) for c in configurations),
        query_ids=ids,
        metrics={
            name: MetricScores(
                metric=name,
                scope=metric.scope,
                interval=metric.interval,
                query_ids=tuple(ids[row] for row in rows[name]),
                rows=rows[name],
                parts=parts[name],
                summaries=summaries[name],
            )
            for name, metric in by_query.items()
        },
        notes=plan.notes,
    )
    cases = [o.case for o in within(observations, "in_scope")]
    corrections = {
        m.name: (serving(m.proxy, cases), parts[m.proxy.name]) for m in by_query.values() if m.proxy and sampled
    }
    judged = {name: by_query[name] for name in corrections}
    lower = context.judging.tiers[:-1] if context.judging and sampled else ()
    tiers = [(tier.model, score_all(judged, configurations, replace(context, judging=tier))) for tier in lower]
    return with_samples(grid, corrections, judged_on, tiers)


def pass_rate() -> QueryMetric:
    """Return the share of queries whose verdict is SUCCESS as a metric of the grid."""
    return QueryMetric(
        name=VERDICT_METRIC,
        scope="all",
        interval="proportion",
        about="queries whose verdict is SUCCESS",
        needs=LABELS,
        score=lambda observations, context: [
            float(outcome == "SUCCESS") for outcome in outcomes_of(observations, context)[0]
        ],
    )


def _configuration(plan: Plan, one: ObservedVariant) -> Configuration:
    settings = one.variant.settings
    arrays = threshold_scores(one.observed, settings)
    return Configuration(
        name=one.variant.name,
        parameters=one.variant.parameters,
        settings=settings,
        thresholds=plan.thresholds,
        observed=one.observed,
        selections=select_all(arrays, plan.thresholds, plan.top_ks),
    )


def with_summaries(configuration: Configuration, metrics: Mapping[str, Metric], context: Context) -> Configuration:
    """Return a configuration with the metrics that belong to it, as far as they were measured.

    The cost of the judge belongs to the whole grid.
    """
    observed = configuration.observed
    lacking = {"latency": not observed.latency, "determinism": not observed.repetitions}
    own = [
        metric
        for name, metric in metrics.items()
        if not isinstance(metric, QueryMetric)
        and name not in NEED_A_JUDGE
        and not any(lacking.get(need) for need in metric.needs)
    ]
    summaries = tuple(metric.summarise(configuration.observed, context) for metric in own)
    return replace(configuration, summaries=summaries)


def _rows(observations: Sequence[Observation], metric: QueryMetric) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    chosen = [
        row
        for row, o in enumerate(observations)
        if metric.scope == "all" or o.case.in_scope == (metric.scope == "in_scope")
    ]
    return np.asarray(chosen, dtype=np.int64)
