"""A comparison as one JSON document. Its fields are described in docs/compare.md."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evals.report.comparison.records import Comparison, Moved, Run
from evals.report.model import Difference, QueryRow

SCHEMA_VERSION = 1


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return all comparisons with one baseline as plain JSON values, without rounding.

    Args:
        comparisons: At least one.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": all(item.passed for comparison in comparisons for item in comparison.regressions),
        "baseline": _run(comparisons[0].baseline),
        "tested": tested(comparisons),
        "comparisons": [_comparison(item) for item in comparisons],
    }


def tested(comparisons: Sequence[Comparison]) -> int:
    """Return the number of p values that were adjusted together."""
    return sum(item.paired is not None for comparison in comparisons for item in comparison.differences)


def _comparison(comparison: Comparison) -> dict[str, Any]:
    pairing = comparison.pairing
    return {
        "run": _run(comparison.other),
        "restricted": comparison.restricted,
        "queries": {
            "compared": len(pairing.rows),
            "only_baseline": list(pairing.only_baseline),
            "only_other": list(pairing.only_other),
            "changed": list(pairing.changed),
        },
        "mismatches": [asdict(item) for item in comparison.mismatches],
        "settings": [asdict(item) for item in comparison.changes],
        "metrics": {item.metric: _metric(item) for item in comparison.differences},
        "moved": [_moved(item) for item in comparison.moved],
        "regressions": [asdict(item) for item in comparison.regressions],
    }


def _run(run: Run) -> dict[str, Any]:
    facts = run.report.facts
    return {"name": run.name, "origin": run.origin, "started_at": facts.started_at, "cases": facts.cases}


def _metric(difference: Difference) -> dict[str, Any]:
    paired = difference.paired
    return {
        "better": difference.better,
        "baseline": difference.baseline,
        "other": difference.other,
        "difference": difference.difference,
        "ci_low": paired.interval.low if paired else None,
        "ci_high": paired.interval.high if paired else None,
        "p": paired.p if paired else None,
        "p_adjusted": difference.p_adjusted,
        "p_test": paired.p_test if paired else None,
        "test": paired.test if paired else None,
        "n": paired.n if paired else 0,
        "wins": difference.wins,
        "ties": paired.ties if paired else 0,
        "losses": difference.losses,
        "only_baseline": list(difference.only_baseline),
        "only_other": list(difference.only_other),
        "failed": list(difference.failed),
        "worst": difference.worst,
        "note": difference.note,
    }


def _moved(move: Moved) -> dict[str, Any]:
    return {
        "id": move.baseline.id,
        "query": move.baseline.query,
        "in_scope": move.baseline.in_scope,
        "metric": move.metric,
        "before": move.before,
        "after": move.after,
        "gain": move.gain,
        "baseline": _result(move.baseline),
        "other": _result(move.other),
    }


def _result(row: QueryRow) -> dict[str, Any]:
    shown: dict[str, Any] = {"outcome": row.outcome, "reasons": row.reasons}
    for name in ("retrieved", "best_below_threshold"):
        shown[name] = [
            {**hit.model_dump(mode="json"), **hit.chunk.model_dump(exclude={"text"}), "preview": hit.preview}
            for hit in getattr(row, name)
        ]
    return shown
