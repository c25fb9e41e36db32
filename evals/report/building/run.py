"""The report of a run, built once."""

from evals.grid.evaluation import GridResult
from evals.metrics import declared
from evals.metrics.run_result import RunResult
from evals.report.building.caches import cache_entries
from evals.report.building.grid import grid_section
from evals.report.building.head import head
from evals.report.building.judge import judge_section
from evals.report.building.queries import query_rows
from evals.report.headline import leading
from evals.report.model import SCHEMA_VERSION, Criterion, Facts, MetricEntry, Report, Validation
from retrievers.config import RERANKERS, RetrieverConfig, dump
from retrievers.config.layers import flatten


def build_report(result: RunResult, facts: Facts) -> Report:
    """Build the report of a run, or of a grid and the run of its recommended cell.

    Args:
        result: The run.
        facts: Facts that make it comparable, as they are at its end.
    """
    rows = list(query_rows(result))
    causes = [row.cause for row in rows if row.cause]
    incomplete = _incomplete(result, facts)
    metrics = {summary.metric: MetricEntry.of(summary) for summary in result.summaries}
    report = Report(
        schema_version=SCHEMA_VERSION,
        name=result.config.name,
        passed=not incomplete and all(gate.passed for gate in result.gates),
        incomplete=incomplete,
        settings=settings_line(result.config.retriever, facts),
        facts=facts,
        config=dump(result.config),
        metrics=metrics,
        headline=leading(
            [name for name, entry in metrics.items() if not _lacks_labels(name, entry, result)],
            {*result.config.metrics, *(gate.metric for gate in result.gates)},
        ),
        head=head(result, causes, incomplete, facts.collection.sparse_vectors if facts.collection else None),
        criteria=[Criterion.of(gate) for gate in result.gates],
        validation=Validation.of(result.validation),
        notes=list(result.notes),
        caches=cache_entries(result),
        judge=judge_section(result.judging, result.trust, facts.in_scope, result.summaries) if result.judging else None,
        queries=rows,
    )
    # a field that is not set is absent from the file, as that of a grid is for a single run
    grid = {"grid": grid_section(result)} if isinstance(result, GridResult) else {}
    return report.model_copy(update=grid)


def _lacks_labels(name: str, entry: MetricEntry, result: RunResult) -> bool:
    """Return True for a metric by labels of golden data without any, unless a criterion reads it."""
    wanted = any(gate.metric == name for gate in result.gates)
    return entry.value is None and "labels" in declared(name).needs and result.validation.unlabelled > 0 and not wanted


READ_BY = {"semantic": "", "best": " on the best {}", "final": " on the final score"}


def settings_line(retriever: RetrieverConfig, facts: Facts) -> str:
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
    if distance != "cosine" and retriever.threshold_on == "semantic":
        named = f" on the {distance} score"
    return f"threshold {threshold:g}{named}"


def _search(retriever: RetrieverConfig) -> list[str]:
    """Return the mode, and the fusion and the reranker that are in force; reranking by rrf is fusion by rrf."""
    fusion = [f"fusion {retriever.used_fusion}"] if retriever.mode == "hybrid" else []
    rerank = [f"rerank {retriever.rerank}"] if RERANKERS[retriever.rerank].make else []
    distance = [] if retriever.used_distance == "cosine" else [f"distance {retriever.used_distance}"]
    index = [f"{name} {str(v).lower()}" for name, v in flatten({"search_params": retriever.search_params or {}}) if v]
    return [retriever.mode, *distance, *fusion, *rerank, *index]


def _incomplete(result: RunResult, facts: Facts) -> str:
    """Return why some of the figures are over a part of the queries; empty when none is."""
    changed = facts.collection_changed
    reasons = (
        f"the collection changed during the run: {changed}" if changed else "",
        result.judging.incomplete if result.judging else "",
    )
    return "; ".join(filter(None, reasons))
