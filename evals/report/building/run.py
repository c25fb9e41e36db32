"""The report of a run, built once, with its slices and caches."""

from collections.abc import Iterator, Mapping, Sequence

from evals.collect.observations import Summary
from evals.grid.measure import Measured
from evals.grid.sampled import sampled_summary
from evals.metrics import OWN, VERDICT_METRIC, declared, metric_named
from evals.metrics.declaration import QueryMetric, summarise
from evals.report.building.grid import grid_section
from evals.report.building.head import decided, head
from evals.report.building.judge import judge_section
from evals.report.building.queries import chunk_texts, query_rows
from evals.report.headline import leading
from evals.report.model import SCHEMA_VERSION, Criterion, Facts, MetricEntry, Report, Validation
from evals.report.model.report import CacheEntry, OwnMetric, SliceEntry, SliceMetric
from evals.sampling.order import NOT_DRAWN
from evals.stats.intervals import wilson
from retrievers.config import RERANKERS, RetrieverConfig, dump
from retrievers.config.layers import flatten

# A tag of fewer queries says nothing that their rows do not.
LEAST = 3


def build_report(result: Measured, facts: Facts) -> Report:
    """Build the report of a run, or of a grid and the run of its recommended cell.

    Args:
        result: The run.
        facts: Facts that make it comparable, as they are at its end.
    """
    rows = list(query_rows(result))
    causes = [row.cause for row in rows if row.cause]
    metrics = {summary.metric: MetricEntry.of(summary) for summary in result.summaries}
    report = Report(
        schema_version=SCHEMA_VERSION,
        name=result.config.name,
        passed=False,
        settings=_settings_line(result.config.retriever, facts),
        facts=facts,
        config=dump(result.config),
        metrics=metrics,
        headline=leading(
            [name for name, entry in metrics.items() if not _lacks_labels(name, entry, result)],
            {*result.config.metrics, *(gate.metric for gate in result.gates)},
        ),
        head=head(result, causes, facts.collection.sparse_vectors if facts.collection else None),
        criteria=[Criterion.of(gate) for gate in result.gates],
        validation=Validation.of(result.validation),
        notes=list(result.notes),
        caches=cache_entries(result),
        judge=judge_section(result.judging, result.context.trust, facts.in_scope, result.summaries)
        if result.judging
        else None,
        texts=chunk_texts(result),
        queries=rows,
    )
    # a field that is not set is absent from the file, as that of a grid is for a single run
    grid = {"grid": grid_section(result.swept)} if result.swept else {}
    own = [OwnMetric.of(OWN[name]) for name in result.scores if name in OWN]
    return decided(report.model_copy(update=grid | ({"own_metrics": own} if own else {})))


def slices(result: Measured) -> list[SliceEntry]:
    """Return the metrics of the queries of each type, then of each tag that three or more queries have, by name."""
    cases = [observation.case for observation in result.observed.observations]
    types: dict[str, list[str]] = {}
    tags: dict[str, list[str]] = {}
    for case in cases:
        if case.query_type:
            types.setdefault(case.query_type, []).append(case.id)
        for tag in case.tags:
            tags.setdefault(tag, []).append(case.id)
    validation = result.validation
    outcomes = zip(validation.query_ids, validation.outcomes, strict=True)
    passed = {query_id: outcome == "SUCCESS" for query_id, outcome in outcomes if outcome != "UNLABELLED"}
    return [
        SliceEntry(by=by, name=name, n=len(ids), metrics=dict(_metrics(result, ids, passed)))  # type: ignore[arg-type]
        for by, groups in (("query_type", types), ("tag", tags))
        for name, ids in sorted(groups.items())
        if by == "query_type" or len(ids) >= LEAST
    ]


def _lacks_labels(name: str, entry: MetricEntry, result: Measured) -> bool:
    """Return True for a metric by labels of golden data without any, unless a criterion reads it."""
    wanted = any(gate.metric == name for gate in result.gates)
    return entry.value is None and "labels" in declared(name).needs and result.validation.unlabelled > 0 and not wanted


READ_BY = {"each": "", "best": " on the best {}", "final": " on the final score"}


def _settings_line(retriever: RetrieverConfig, facts: Facts) -> str:
    """Return the settings that matter most, in a line."""
    threshold = retriever.used_threshold
    parts = [
        *([f"python {retriever.python} ({facts.retriever})"] if retriever.python else _search(retriever)),
        f"top_k {retriever.top_k}",
        "no threshold" if threshold is None else _threshold(threshold, retriever),
        f"candidates {retriever.candidates}",
        facts.embedding or "",
    ]
    return " · ".join(filter(None, parts))


def _threshold(threshold: float, retriever: RetrieverConfig) -> str:
    """Return the threshold with the score that it reads."""
    distance = retriever.used_distance
    named = READ_BY[retriever.threshold_on].format(distance)
    if distance != "cosine" and retriever.threshold_on == "each":
        named = f" on the {distance} score"
    return f"threshold {threshold:g}{named}"


def _search(retriever: RetrieverConfig) -> list[str]:
    """Return the mode, and the fusion and the reranker that are in force; reranking by rrf is fusion by rrf."""
    fusion = [f"fusion {retriever.used_fusion}"] if retriever.mode == "hybrid" else []
    rerank = [f"rerank {retriever.rerank}"] if RERANKERS[retriever.rerank].make else []
    distance = [] if retriever.used_distance == "cosine" else [f"distance {retriever.used_distance}"]
    index = [f"{name} {str(v).lower()}" for name, v in flatten({"search_params": retriever.search_params or {}}) if v]
    return [retriever.mode, *distance, *fusion, *rerank, *index]


def cache_entries(result: Measured) -> dict[str, CacheEntry]:
    """Return the look-ups of the caches of query vectors, of results, and of the judge's verdicts.

    Timed and repeated calls ask no cache and do not count. A result is always searched for in a golden run, so that
    its cache is not asked. Of the judge every request counts as a look-up that found nothing.
    """
    states = [observation.candidates.cache for observation in result.observed.observations]
    values = {name: [state.get(name, "off") for state in states] for name in ("embedding", "result")}
    entries = {name: _entry(each.count("hit"), each.count("miss")) for name, each in values.items()}
    if result.judging:
        entries["judge"] = _entry(result.judging.whole_usage.hits, result.judging.whole_usage.calls)
    return entries


def _entry(hits: int, misses: int) -> CacheEntry:
    lookups = hits + misses
    return CacheEntry(hits=hits, lookups=lookups, rate=hits / lookups if lookups else None)


def _metrics(result: Measured, ids: Sequence[str], passed: Mapping[str, bool]) -> Iterator[tuple[str, SliceMetric]]:
    for name, scores in result.scores.items():
        metric = metric_named(name)
        if isinstance(metric, QueryMetric) and any(query_id in scores for query_id in ids):
            summary = _summary(metric, ids, result)
            if summary.value is not None:
                yield name, SliceMetric.of(summary)
    decided = [passed[query_id] for query_id in ids if query_id in passed]
    if decided:
        n, ends = len(decided), wilson(sum(decided), len(decided))
        whole = Summary(metric=VERDICT_METRIC, value=sum(decided) / n, ci_low=ends.low, ci_high=ends.high, n=n)
        yield VERDICT_METRIC, SliceMetric.of(whole)


def _summary(metric: QueryMetric, ids: Sequence[str], result: Measured) -> Summary:
    """Return the mean of a metric over a slice, corrected with the weight of the whole run where that is."""
    scores, proxies = result.scores[metric.name], result.proxies.get(metric.name, {})
    own = [scores[query_id] for query_id in ids if query_id in scores]
    sampled = next((each.sampled for each in result.summaries if each.metric == metric.name), None)
    if sampled is None or NOT_DRAWN not in own:
        return summarise(metric.name, own, metric.interval)
    of_slice = [proxies[query_id] for query_id in ids if query_id in scores]
    return sampled_summary(metric, own, of_slice, sampled.proxy, sampled.weight)
