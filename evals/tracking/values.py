"""A run in MLflow's terms: parameters, metrics, tags, and the table of its queries. Pure."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from evals.config.experiment import ExperimentConfig
from evals.report.description import description, leading_first, most_telling
from evals.report.judge_lines import claim_lines, verdict_lines
from evals.report.model import MetricEntry, QueryRow, Report, SampledEntry, ScoreValue
from retrievers.config import dump
from retrievers.config.layers import flatten, tables
from retrievers.terminal.present import score_text

# Most metrics of a run; a grid has up to MOST_ALONG more, along top_k.
MOST_METRICS = 30
MOST_ALONG = 10
# First columns of MLflow's list of runs: metrics that every run has, whatever its top_k.
COLUMNS = ("queries/pass_rate", "scope/false_answer", "ranking/hit_rate_at_1", "ragas/id_context_recall")
DESCRIPTION_TAG = "mlflow.note.content"
USUAL = (
    "retriever.mode",
    "retriever.top_k",
    "retriever.threshold",
    "retriever.rerank",
    "retriever.embedding.model",
)
# Settings that are no parameters: the store of runs, whose address may carry credentials, and what a run demands.
ELSEWHERE = ("tracking.", "criteria", "reference")


def parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usual settings, then those that differ from the defaults, by their dotted names.

    The whole configuration is the artifact `experiment.yaml`; criteria stand in the run's description.
    """
    flat, defaults = _flat(settings), _flat(dump(ExperimentConfig.model_validate({})))
    changed = {key: value for key, value in flat.items() if key not in defaults or defaults[key] != value}
    usual = {key: flat[key] for key in USUAL if key in flat}
    return usual | {key: value for key, value in changed.items() if not key.startswith(ELSEWHERE)}


def metric_values(report: Report) -> dict[str, float]:
    """Return the values of a run's metrics: those that runs are compared by, then those that say most about it.

    MLflow's columns have the order of logging of the newest run. All metrics, exact and with interval and n, are in the
    table of `metrics_table`.
    """
    telling = most_telling(report)
    names = dict.fromkeys((*(name for name in COLUMNS if name in telling), *telling))
    return {name: six_digits(report.metrics[name].value or 0.0) for name in islice(names, MOST_METRICS)}


def cell_values(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the values of a cell's metrics: the objective, then those that say most; the grid's table has them all.

    MLflow's parallel coordinates open on the first.
    """
    names = dict.fromkeys((*islice(metrics, 2), *leading_first(metrics)))
    return {name: six_digits(metrics[name]) for name in islice(names, MOST_METRICS)}


def run_files(report: Report, text: str, page: str) -> dict[str, str]:
    """Return the artifacts of a run by name: its report, its page, its whole configuration."""
    settings = yaml.safe_dump(report.config, sort_keys=False)
    return {"report.json": text, "report.html": page, "experiment.yaml": settings}


def six_digits(value: float) -> float:
    """Return a value as short as MLflow's tables show it whole."""
    return float(f"{value:.6g}")


def metrics_table(report: Report) -> dict[str, list[Any]]:
    """Return every metric of a run by columns: value, interval, n, counts of missing scores, bounds, note, sample."""
    rows = [_metric_row(name, metric) for name, metric in report.metrics.items()]
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def tags(report: Report) -> dict[str, str]:
    """Return what runs are filtered by, and the text of the run's page."""
    facts = report.facts
    tags: dict[str, object] = {
        "mode": facts.retriever if report.config["retriever"].get("python") else report.config["retriever"]["mode"],
        "collection": facts.collection and facts.collection.name,
        "dataset": "/".join(Path(facts.dataset).parts[-2:]),
        "passed": report.passed,
        "role": "grid" if report.grid else "run",
        "criteria.failed": ", ".join(criterion.metric for criterion in report.criteria if not criterion.passed)
        or "none",
        "judge.model": facts.judge and facts.judge.model,
        "ragas": report.ragas_check and report.ragas_check.line,
        "code.commit": facts.commit,
        DESCRIPTION_TAG: description(report),
    }
    return {key: str(value) for key, value in tags.items() if value is not None}


def table(report: Report) -> dict[str, list[Any]]:
    """Return the queries by columns: one row a query, with what was retrieved and its score by every metric."""
    scored = {name for row in report.queries for name in row.scores}
    names = [name for name in report.metrics if name in scored]
    rows = [_columns(row, judged=report.judge is not None) for row in report.queries]
    columns = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
    return columns | {name: [_number(row.scores.get(name)) for row in report.queries] for name in names}


def _metric_row(name: str, metric: MetricEntry) -> dict[str, Any]:
    """Return a metric in columns of plain values; those of a sample are empty where all queries were judged."""
    plain = metric.model_dump()
    sampled = plain.pop("sampled") or dict.fromkeys(SampledEntry.model_fields)
    return {"metric": name, **plain, **{f"sampled.{key}": value for key, value in sampled.items()}}


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    # A user's own keys may not be names of parameters.
    return {key: value for key, value in flatten(settings, unopened=tables(ExperimentConfig)) if value is not None}


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
        columns["claims"] = "\n".join(claim_lines(row))
    return columns


def _number(score: ScoreValue | None) -> float | None:
    return score if isinstance(score, float | int) else None
