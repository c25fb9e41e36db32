"""A run as one JSON document. Its schema is in schema.json and docs/report.md."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.golden.loading import case_fingerprint
from evals.judge.verdicts import Judging
from evals.metrics.run_result import RunResult
from evals.report.judge import chunk_claims, chunk_verdict, claims, judge_section
from evals.report.schema import SCHEMA_VERSION
from retrievers.records import RetrievedChunk


def document(result: RunResult) -> dict[str, Any]:
    """The whole run as plain JSON values: configuration, facts, metrics, gates, verdicts, per-query rows."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": result.name,
        "passed": result.passed,
        "incomplete": result.incomplete,
        "facts": dict(result.facts),
        "config": dict(result.config),
        "metrics": {summary.metric: _without(asdict(summary), "metric") for summary in result.summaries},
        "criteria": [asdict(gate) for gate in result.gates],
        "validation": _without(asdict(result.validation), "verdicts"),
        "notes": list(result.notes),
        "judge": judge_section(result.judging, result.trust) if result.judging else None,
        "queries": rows(result),
    }


def rows(result: RunResult) -> list[dict[str, Any]]:
    """One row a query: what was asked, expected and returned, every score, the verdict and its reasons."""
    verdicts = {verdict.query_id: verdict for verdict in result.validation.verdicts}
    return [
        _row(o, result.scores, result.judging) | _verdict(asdict(verdicts[o.case.id]))
        for o in result.observed.observations
    ]


def plain_score(score: Score) -> float | dict[str, str]:
    """A score as JSON: the number, or why there is none."""
    if isinstance(score, Unscored):
        return {"unscored": score.reason}
    if isinstance(score, Failure):
        return {"failed": f"{score.type}: {score.message}"}
    return score


def _row(
    observation: Observation, scores: Mapping[str, Mapping[str, Score]], judging: Judging | None
) -> dict[str, Any]:
    case = observation.case
    return {
        "id": case.id,
        "query": case.query,
        "fingerprint": case_fingerprint(case),
        "in_scope": case.in_scope,
        "query_type": case.query_type,
        "tags": list(case.tags),
        "reference_answer": case.reference_answer,
        "relevant": dict(observation.relevance.grades),
        "irrelevant": sorted(observation.relevance.irrelevant),
        "missing": sorted(observation.relevance.missing),
        "relevant_complete": not observation.relevance.incomplete,
        "top_score": observation.top_score,
        "retrieved": [_hit(found, observation, judging) for found in observation.selection],
        "best_below_threshold": [_hit(found, observation) for found in _below(observation)],
        "claims": claims(judging, observation) if judging else [],
        "scores": {name: plain_score(values[case.id]) for name, values in scores.items() if case.id in values},
    }


def _hit(found: RetrievedChunk, observation: Observation, judging: Judging | None = None) -> dict[str, Any]:
    return {
        "rank": found.rank,
        "score": found.score,
        "chunk_id": found.chunk.chunk_id,
        "source": found.source,
        "breadcrumb": found.breadcrumb,
        "grade": observation.relevance.grades.get(found.chunk.chunk_id, 0),
        "preview": found.chunk.chunk_text_preview,
        "judge": chunk_verdict(judging, observation.case.id, found.chunk.chunk_id) if judging else None,
        "claims": chunk_claims(judging, observation.case.id, found.chunk.chunk_id) if judging else None,
    }


def _below(observation: Observation) -> list[RetrievedChunk]:
    returned = {found.chunk.chunk_id for found in observation.selection}
    limit = 0 if returned else 3
    return list(observation.candidates.chunks[:limit])


def _verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    return {**_without(verdict, "query_id", "reasons"), "reasons": list(verdict["reasons"])}


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}
