"""All metrics by name: rows of table.yaml, each with the function that scores it. How they are listed and chosen."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from math import inf, isinf
from typing import Any, cast

from evals.collect.observations import VERDICT_METRIC, Observed, Summary
from evals.errors import ExperimentError
from evals.metrics import llm, metadata, outcomes, ranking, scope, texts, timing
from evals.metrics.declaration import (
    PREFIX,
    Context,
    Declaration,
    Metric,
    Need,
    QueryMetric,
    RunMetric,
    Scorer,
    own_metric,
)
from retrievers.config import RetrieverConfig
from retrievers.config.files import packaged_yaml
from retrievers.config.layers import removed
from retrievers.errors import nearest

DEPTH = re.compile(r"_at_([1-9]\d{0,2})$", re.ASCII)
SCORES: Mapping[str, Scorer] = {
    **ranking.SCORES, **texts.SCORES, **llm.SCORES, **metadata.SCORES, **scope.SCORES, **outcomes.SCORES,
}  # fmt: skip
FIGURES: Mapping[str, Callable[[Observed, Context], Summary]] = {**llm.FIGURES, **scope.FIGURES, **timing.FIGURES}
_ROWS: Mapping[str, dict[str, Any]] = packaged_yaml("evals.metrics", "table.yaml")


def _table() -> Iterator[Metric]:
    for name, row in _ROWS.items():
        if name == "latency/*":
            yield from (metric for level in timing.DEFAULT_CONCURRENCY for metric in timing.metrics_at(level))
        else:
            yield from (_metric(name, row, str(depth)) for depth in row.get("depths", [""]))


def _metric(pattern: str, row: Mapping[str, Any], depth: str) -> Metric:
    """Return a row of the table as a metric. A name that ends in `_at_K` gets the depth in place of K."""
    name = re.sub("K$", depth, pattern)
    row = {key: value for key, value in row.items() if key != "depths"}
    row |= {"name": name, "needs": frozenset(row.get("needs", ())), "about": re.sub(r"\bK\b", depth, row["about"])}
    if "range" in row:
        row["range"] = tuple(map(float, row["range"]))
    if name in FIGURES:
        return RunMetric(tell=FIGURES[name], **row)
    if match := DEPTH.search(name):
        measure, k = ranking.MEASURES[DEPTH.sub("", name.partition("/")[2])], int(match[1])
        return QueryMetric(score=lambda r, _: measure(r, k), depth=k, **row)
    return QueryMetric(score=SCORES[name], proxy=llm.PROXIES.get(name), **row)


METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _table()}
PASS_RATE = cast(QueryMetric, METRICS[VERDICT_METRIC])
# Metrics of the user's own that this process knows, by name.
OWN: dict[str, QueryMetric] = {}
# Declarations in reports that were read, by name: this process may lack their metrics.
_READ: dict[str, Declaration] = {}
# Names of the metrics that exist only with a judge.
NEED_A_JUDGE = frozenset(name for name, metric in METRICS.items() if metric.is_judged)


def declared(name: str) -> Declaration:
    """Return a metric's declaration; for an unknown name (of an older report), one of values without limits."""
    metric = metric_named(name) or timing.metric_named(name) or _READ.get(name)
    return metric or Declaration(name=name, about="", headline="never", range=(-inf, inf))


def metric_named(name: str) -> Metric | None:
    """Return a metric of the table, at any depth, or of the user's own; None if there is none of that name."""
    return METRICS.get(name) or OWN.get(name) or _at_depth(name)


@cache
def _at_depth(name: str) -> Metric | None:
    match, pattern = DEPTH.search(name), DEPTH.sub("_at_K", name)
    return METRICS.get(name) or _metric(pattern, _ROWS[pattern], match[1]) if match and pattern in _ROWS else None


def adopt(given: Sequence[Any]) -> list[str]:
    """Register the metrics of the user's own among the given ones, and return the names of all.

    Args:
        given: Names and patterns, which stay as they are; and metrics of the user's own: functions declared by
            `metric`, `QueryMetric` objects, or `python:module:name`.

    Raises:
        ConfigError: A metric cannot be imported.
        ExperimentError: An object is no metric, or has the name of another metric.
    """
    rows = [own_metric(item) if not isinstance(item, str) or item.startswith(PREFIX) else None for item in given]
    by_name = {row.name: row for row in rows if row}
    for row in filter(None, rows):
        is_ours = row.name in METRICS or _at_depth(row.name) or timing.metric_named(row.name)
        if is_ours or by_name[row.name] is not row:
            whose = "a metric of this project" if is_ours else "two of these metrics"
            raise ExperimentError(f"metrics: {row.name!r} is the name of {whose}; give yours another")
    OWN.update(by_name)
    return [row.name if row else name for name, row in zip(given, rows, strict=True)]


def remember(declaration: Declaration) -> None:
    """Keep the declaration of a metric in a report, for a process that lacks the metric."""
    _READ[declaration.name] = declaration


def needs(names: Iterable[str], need: Need) -> bool:
    """Return True if at least one of the metrics declares the need, such as `judge` or `latency`."""
    return any(need in declared(name).needs for name in names)


def choose(
    patterns: Sequence[str],
    concurrency: Sequence[int],
    *,
    judged: bool = False,
    reach: RetrieverConfig | None = None,
    settings: Mapping[str, str] | None = None,
) -> dict[str, Metric]:
    """Select metrics by names or patterns such as `ranking/*`, in the order of METRICS.

    Args:
        patterns: Names or patterns; `*` is the whole table. Metrics of the user's own are given by name or as
            `python:module:name`.
        concurrency: The concurrencies at which latency is measured.
        judged: True if there is a judge. Without one, patterns skip the metrics that need it.
        reach: The retriever. Patterns skip metrics that read further than its lists go. None for lists of any length.
        settings: The patterns that must be names, each with the setting that holds it.

    Raises:
        ExperimentError: A pattern chooses no metric; the message gives the nearest names. Or it chooses only metrics
            that need a judge, or only metrics that read further than the lists go.
    """
    patterns = adopt(patterns)
    timed = {metric.name: metric for level in concurrency for metric in timing.metrics_at(level)}
    selectable = {name: m for name, m in METRICS.items() if name in timed or not timing.CONCURRENT.fullmatch(name)}
    selectable |= timed | {name: m for name in patterns if (m := OWN.get(name) or _at_depth(name))}
    chosen = set[str]()
    for pattern in patterns:
        setting = (settings or {}).get(pattern, "")
        matches = [n for n in selectable if n == pattern or (not setting and fnmatchcase(n, pattern))]
        # Metrics at 10 stay, as `within` adds them at top_k.
        at_any_length = {pattern, *(n for n in matches if re.match("ranking/.+_at_10$", n))}
        fitting = [n for n in matches if n in at_any_length or not (reach and selectable[n].reads_beyond(reach))]
        if not fitting:
            raise ExperimentError(f"{setting or 'metrics'}: {_why_none(pattern, matches, reach, selectable)}")
        if not judged and NEED_A_JUDGE.issuperset(fitting):
            raise ExperimentError(
                f"metrics: {pattern!r} needs a judge, and there is none; name one, for example "
                "--judge.model cohere:command-a-03-2025"
            )
        chosen.update(name for name in fitting if judged or name not in NEED_A_JUDGE)
    return {name: metric for name, metric in selectable.items() if name in chosen}


def within(metrics: Mapping[str, Metric], retriever: RetrieverConfig, named: Collection[str]) -> dict[str, Metric]:
    """Return the metrics that a retriever's lists are long enough for, and the metrics that are named in full.

    A metric at depth 10 that is not named in full is added at the retriever's `top_k`, too.
    """
    fitting = dict[str, Metric]()
    for name, metric in metrics.items():
        if name in named or not metric.reads_beyond(retriever):
            fitting[name] = metric
        if name not in named and name.endswith("_at_10"):
            at_top_k = _at_depth(f"{name.removesuffix('10')}{retriever.top_k}")
            fitting |= {at_top_k.name: at_top_k} if at_top_k else {}
    return fitting


def _why_none(pattern: str, matches: Sequence[str], reach: RetrieverConfig | None, known: Iterable[str]) -> str:
    """Return why a pattern chooses no metric."""
    if matches and reach:
        return (
            f"{pattern!r} fits only metrics that read more places than there are (top_k {reach.top_k}, candidates "
            f"{reach.candidates}): {', '.join(matches)}; raise these, or name a metric in full"
        )
    if successor := removed(re.sub(r"_at_\d+_of_\d+$|_at_\d+$", "_at_K", pattern)):
        return f"{pattern!r} is no metric any more: {successor}"
    like = nearest(pattern, known) or "; one of your own is named python:module:function"
    return f"no metric {pattern!r}{like} (--list-metrics shows all)"


def listing() -> str:
    """Return a table with a line for each metric: name, unit and range, direction, description."""
    rows = [(metric.name, values_of(metric), metric.direction, metric.about) for metric in METRICS.values()]
    *widths, _ = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, [*widths, 0])) for row in rows)


def values_of(metric: Declaration) -> str:
    """Return unit and range, such as `share, 0 to 1` or `ms, from 0`."""
    low, high = metric.range
    return f"{metric.unit}, from {low:g}" if isinf(high) else f"{metric.unit}, {low:g} to {high:g}"
