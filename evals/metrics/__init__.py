"""All metrics, by name."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from evals.collect.observations import VERDICT_METRIC
from evals.errors import ExperimentError
from evals.metrics import (
    candidates,
    content,
    cost,
    determinism,
    latency,
    llm_metrics,
    metadata,
    ragas_metrics,
    ranking,
    scope,
    similarity,
    trust_metrics,
)
from evals.metrics.base import Metric, RunMetric
from evals.metrics.depth import Reach
from evals.metrics.llm_metrics import BY_NAME_ONLY
from retrievers.errors import nearest

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *ragas_metrics.METRICS,
        *similarity.METRICS,
        *llm_metrics.METRICS,
        *trust_metrics.METRICS,
        *ranking.METRICS,
        *candidates.METRICS,
        *metadata.METRICS,
        *content.METRICS,
        *scope.METRICS,
        *determinism.METRICS,
        *latency.METRICS,
        *cost.METRICS,
    )
}


NEED_A_JUDGE = llm_metrics.NAMES | trust_metrics.NAMES
"""The metrics that there are only with a judge."""


def choose(
    patterns: Sequence[str], concurrency: Sequence[int], *, judged: bool = False, reach: Reach | None = None
) -> dict[str, Metric]:
    """The metrics that names or patterns such as `ranking/*` choose, in the order of METRICS.

    Args:
        patterns: Names or patterns; `*` is all but BY_NAME_ONLY.
        concurrency: The concurrencies at which latency is measured.
        judged: Whether there is a judge; without one, patterns pass over the metrics that need it.
        reach: How long the lists are; patterns pass over the metrics that read further. None for any length.

    Raises:
        ExperimentError: A pattern chooses nothing, the nearest names are given; or only what needs a judge, or only
            what reads further than the lists go.
    """
    measured = {m.name: m for level in concurrency for m in latency.metrics_at(level)}
    named = {f"latency/{s}_{t}_ms" for s in latency.STAGES for t in ("mean", *latency.PERCENTILES)}
    known = {name: m for name, m in METRICS.items() if not _is_concurrent(name, named) or name in measured} | measured
    chosen: dict[str, Metric] = {}
    for pattern in patterns:
        fitting = {name: metric for name, metric in known.items() if _chooses(pattern, name)}
        matching = {n: m for n, m in fitting.items() if n == pattern or not (reach and reach.is_exceeded_by(m))}
        if fitting and not matching and reach:
            raise ExperimentError(
                f"metrics: {pattern!r} fits only metrics that read more places than there are (top_k {reach.returned}, "
                f"candidates {reach.candidates}): {', '.join(fitting)}; raise top_k, or name a metric in full"
            )
        if not matching and not fnmatchcase(VERDICT_METRIC, pattern):
            near = nearest(pattern, [*known, VERDICT_METRIC])
            raise ExperimentError(f"metrics: no metric {pattern!r}{near} (--list-metrics shows all)")
        if not judged and matching and matching.keys() <= NEED_A_JUDGE:
            raise ExperimentError(
                f"metrics: {pattern!r} needs a judge, and there is none; name one, for example "
                "--judge.model cohere:command-a-03-2025"
            )
        chosen |= {name: metric for name, metric in matching.items() if judged or name not in NEED_A_JUDGE}
    return {name: metric for name, metric in known.items() if name in chosen}


def _chooses(pattern: str, name: str) -> bool:
    return name == pattern or (name not in BY_NAME_ONLY and fnmatchcase(name, pattern))


def _is_concurrent(name: str, serial: set[str]) -> bool:
    return name.startswith("latency/") and name.rpartition("_c")[0] in serial


__all__ = ["BY_NAME_ONLY", "METRICS", "VERDICT_METRIC", "Metric", "RunMetric", "choose"]
