"""All metrics, by name."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from evals.collect.observations import VERDICT_METRIC
from evals.errors import ExperimentError
from evals.metrics import (
    addresses,
    candidates,
    chunk_sequence,
    content,
    cost,
    determinism,
    incomplete_labels,
    index,
    latency,
    llm_metrics,
    metadata,
    oracle,
    ragas_metrics,
    ranking,
    scope,
    similarity,
    trust_metrics,
)
from evals.metrics.base import Metric, RunMetric
from evals.metrics.declaration import Declaration, Need
from evals.metrics.depth import Reach
from retrievers.config.removed import removed
from retrievers.errors import nearest

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *ragas_metrics.METRICS,
        *similarity.METRICS,
        *llm_metrics.METRICS,
        *trust_metrics.METRICS,
        *ranking.METRICS,
        *incomplete_labels.METRICS,
        *candidates.METRICS,
        *oracle.METRICS,
        *index.METRICS,
        *metadata.METRICS,
        *addresses.METRICS,
        *chunk_sequence.METRICS,
        *content.METRICS,
        *scope.METRICS,
        *determinism.METRICS,
        *latency.METRICS,
        *cost.METRICS,
    )
}


# Share of queries with the verdict SUCCESS, which a run has for any choice of metrics.
PASS_RATE = Declaration(name=VERDICT_METRIC, about="queries whose verdict is SUCCESS")
# The metrics that there are only with a judge.
NEED_A_JUDGE = frozenset(name for name, metric in METRICS.items() if metric.is_judged)
# The metrics that compare the search for vectors with an exact one.
OF_AN_INDEX = frozenset(name for name, metric in METRICS.items() if "index" in metric.needs)


def declared(name: str) -> Declaration:
    """Return the declaration of a metric; one that this version does not know, of an older report, has the defaults."""
    metric = PASS_RATE if name == VERDICT_METRIC else METRICS.get(name) or latency.metric_named(name)
    return metric or Declaration(name=name, about="", headline="never")


def needs(names: Iterable[str], need: Need) -> bool:
    """Return True if one of the metrics needs that."""
    return any(need in declared(name).needs for name in names)


def choose(
    patterns: Sequence[str],
    concurrency: Sequence[int],
    *,
    judged: bool = False,
    approximate: bool = False,
    reach: Reach | None = None,
) -> dict[str, Metric]:
    """Select metrics by names or patterns such as `ranking/*`, in the order of METRICS.

    Args:
        patterns: Names or patterns; `*` is all.
        concurrency: The concurrencies at which latency is measured.
        judged: True if there is a judge; without one, patterns skip the metrics that need it.
        approximate: True if the search for vectors may miss near ones; else only patterns of their own family choose
            the metrics that compare it with an exact one.
        reach: Lengths of the lists; patterns skip the metrics that read further. None for any length.

    Raises:
        ExperimentError: A pattern chooses nothing, the nearest names are given; or only what needs a judge, or only
            what reads further than the lists go.
    """
    measured = {m.name: m for level in concurrency for m in latency.metrics_at(level)}
    apart = METRICS.keys() - {m.name for m in latency.METRICS if latency.CONCURRENT.fullmatch(m.name)}
    selectable = {name: m for name, m in METRICS.items() if name in apart | measured.keys()} | measured
    chosen: dict[str, Metric] = {}
    for pattern in patterns:
        fitting = {name: metric for name, metric in selectable.items() if _chooses(pattern, name, approximate)}
        matching = {n: m for n, m in fitting.items() if n == pattern or not (reach and reach.is_exceeded_by(m))}
        if fitting and not matching and reach:
            raise ExperimentError(
                f"metrics: {pattern!r} fits only metrics that read more places than there are (top_k {reach.returned}, "
                f"candidates {reach.candidates}): {', '.join(fitting)}; raise top_k, or name a metric in full"
            )
        if not matching and not fnmatchcase(VERDICT_METRIC, pattern):
            if successor := removed(pattern):
                raise ExperimentError(f"metrics: {pattern!r} is no metric any more: {successor}")
            near = nearest(pattern, [*selectable, VERDICT_METRIC])
            raise ExperimentError(f"metrics: no metric {pattern!r}{near} (--list-metrics shows all)")
        if not judged and matching and matching.keys() <= NEED_A_JUDGE:
            raise ExperimentError(
                f"metrics: {pattern!r} needs a judge, and there is none; name one, for example "
                "--judge.model cohere:command-a-03-2025"
            )
        chosen |= {name: metric for name, metric in matching.items() if judged or name not in NEED_A_JUDGE}
    return {name: metric for name, metric in selectable.items() if name in chosen}


def _chooses(pattern: str, name: str, approximate: bool) -> bool:
    idle = name in OF_AN_INDEX and not approximate and not pattern.startswith("index/")
    return name == pattern or (not idle and fnmatchcase(name, pattern))


__all__ = [
    "METRICS",
    "NEED_A_JUDGE",
    "OF_AN_INDEX",
    "PASS_RATE",
    "VERDICT_METRIC",
    "Declaration",
    "Metric",
    "Reach",
    "RunMetric",
    "choose",
    "declared",
    "needs",
]
