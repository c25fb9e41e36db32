"""What MLflow is told of a run: parameters, metrics, tags, and the table of its queries. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.collect.observations import Summary
from evals.config.experiment import ExperimentConfig
from evals.metrics.run_result import RunResult
from evals.report.document import rows
from evals.report.judge import chunk_claim_lines, claim_lines, verdict_lines
from evals.report.terminal import description
from retrievers.config.layers import flatten, tables
from retrievers.terminal.present import score_text


def parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are set, by their dotted names."""
    flat = flatten(settings, unopened=tables(ExperimentConfig))  # a user's own keys may not be names of parameters
    hidden = {"tracking.uri"}  # where runs are kept is no parameter of them, and may carry credentials
    return {key: value for key, value in flat if key not in hidden and value is not None}


def metric_values(summaries: Sequence[Summary]) -> dict[str, float]:
    """Every metric that has a value, with `.ci_low`, `.ci_high`, `.n` beside it, and `.n_failed` where any failed."""
    values: dict[str, float] = {}
    for summary in summaries:
        if summary.value is None:
            continue
        values[summary.metric] = summary.value
        values[f"{summary.metric}.n"] = float(summary.n)
        if summary.ci_low is not None and summary.ci_high is not None:
            values[f"{summary.metric}.ci_low"] = summary.ci_low
            values[f"{summary.metric}.ci_high"] = summary.ci_high
        if summary.n_failed:
            values[f"{summary.metric}.n_failed"] = float(summary.n_failed)
    return values


def tags(result: RunResult) -> dict[str, str]:
    """What makes runs comparable, whether the criteria are met, and the text of the run's page."""
    facts, collection = result.facts, result.facts["collection"] or {}
    tags = {
        "dataset.fingerprint": facts["dataset_fingerprint"],
        "collection.fingerprint": collection.get("fingerprint"),
        "collection.points": collection.get("points"),
        "code.commit": facts["commit"],
        "passed": result.passed,
        "criteria.failed": ", ".join(gate.metric for gate in result.gates if not gate.passed) or "none",
    }
    tags["mlflow.note.content"] = description(result)
    tags |= {"retriever": facts["retriever"], "relevance": facts["relevance"]}
    judge = facts.get("judge") or {}
    tags |= {f"judge.{name}": judge.get(name) for name in ("provider", "model", "fingerprint")}
    tags |= {f"version.{name}": value for name, value in facts["versions"].items()}
    return {key: str(value) for key, value in tags.items() if value is not None}


def table(result: RunResult) -> dict[str, list[Any]]:
    """The queries by columns: one row a query, with what was retrieved and its score by every metric."""
    columns: dict[str, list[Any]] = {}
    names = list(result.scores)
    for row in rows(result):
        flat = {
            "id": row["id"],
            "query": row["query"],
            "in_scope": row["in_scope"],
            "query_type": row["query_type"] or "",
            "outcome": row["outcome"],
            "reasons": "; ".join(row["reasons"]),
            "top_score": row["top_score"],
            "retrieved": "\n".join(f"{h['rank']}. {score_text(h['score'])} {h['source']}" for h in row["retrieved"]),
            "time_ms": row["time_ms"],
        }
        if result.judging:
            flat |= {
                "judge": "\n".join(verdict_lines(row)),
                "claims": "\n".join(claim_lines(row) + chunk_claim_lines(row)),
            }
        flat |= {name: _cell(row["scores"].get(name)) for name in names}
        for key, value in flat.items():
            columns.setdefault(key, []).append(value)
    return columns


def _cell(score: Any) -> float | None:
    return score if isinstance(score, float | int) else None
