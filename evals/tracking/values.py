"""A run in MLflow's terms: parameters, metrics, tags, and the table of its queries. Pure."""

from collections.abc import Mapping
from typing import Any

from evals.config.experiment import ExperimentConfig
from evals.report.judge_lines import chunk_claim_lines, claim_lines, verdict_lines
from evals.report.model import MetricEntry, QueryRow, Report, ScoreValue
from evals.report.terminal import description
from retrievers.config.layers import flatten, tables
from retrievers.terminal.present import score_text


def parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are set, by their dotted names."""
    # A user's own keys may not be names of parameters.
    flat = flatten(settings, unopened=tables(ExperimentConfig))
    # The address of the tracking store is not a parameter, and may carry credentials.
    hidden = {"tracking.uri"}
    return {key: value for key, value in flat if key not in hidden and value is not None}


def metric_values(metrics: Mapping[str, MetricEntry]) -> dict[str, float]:
    """Return each metric that has a value, with `.ci_low`, `.ci_high`, `.n` beside it, `.n_failed` where any failed."""
    values: dict[str, float] = {}
    for name, metric in metrics.items():
        if metric.value is None:
            continue
        values[name] = metric.value
        values[f"{name}.n"] = float(metric.n)
        if metric.ci_low is not None and metric.ci_high is not None:
            values[f"{name}.ci_low"] = metric.ci_low
            values[f"{name}.ci_high"] = metric.ci_high
        if metric.n_failed:
            values[f"{name}.n_failed"] = float(metric.n_failed)
    return values


def tags(report: Report) -> dict[str, str]:
    """Return what makes runs comparable, the criteria that failed, and the text of the run's page."""
    facts, collection, judge = report.facts, report.facts.collection, report.facts.judge
    tags: dict[str, object] = {
        "dataset.fingerprint": facts.dataset_fingerprint,
        "collection.fingerprint": collection and collection.fingerprint,
        "collection.points": collection and collection.points,
        "code.commit": facts.commit,
        "passed": report.passed,
        "criteria.failed": ", ".join(criterion.metric for criterion in report.criteria if not criterion.passed)
        or "none",
        "mlflow.note.content": description(report),
        "retriever": facts.retriever,
        "relevance": facts.relevance,
        "judge.provider": judge and judge.provider,
        "judge.model": judge and judge.model,
        "judge.fingerprint": judge and judge.fingerprint,
    }
    tags |= {f"version.{name}": value for name, value in facts.versions.items()}
    return {key: str(value) for key, value in tags.items() if value is not None}


def table(report: Report) -> dict[str, list[Any]]:
    """Return the queries by columns: one row a query, with what was retrieved and its score by every metric."""
    scored = {name for row in report.queries for name in row.scores}
    names = [name for name in report.metrics if name in scored]
    rows = [_columns(row, judged=report.judge is not None) for row in report.queries]
    columns = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
    return columns | {name: [_number(row.scores.get(name)) for row in report.queries] for name in names}


def _columns(row: QueryRow, *, judged: bool) -> dict[str, Any]:
    columns = {
        "id": row.id,
        "query": row.query,
        "in_scope": row.in_scope,
        "query_type": row.query_type or "",
        "outcome": row.outcome,
        "reasons": "; ".join(row.reasons),
        "top_score": row.top_score,
        "retrieved": "\n".join(f"{hit.rank}. {score_text(hit.score)} {hit.source}" for hit in row.retrieved),
        "time_ms": row.time_ms,
    }
    if judged:
        columns["judge"] = "\n".join(verdict_lines(row))
        columns["claims"] = "\n".join(claim_lines(row) + chunk_claim_lines(row))
    return columns


def _number(score: ScoreValue | None) -> float | None:
    return score if isinstance(score, float | int) else None
