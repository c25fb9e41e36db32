"""A comparison as one JSON document. Its fields are described in docs/compare.md."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evals.report.comparison.records import Comparison, Difference, Moved, Run
from evals.report.schema import QueryRow

SCHEMA_VERSION = 1


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """All comparisons with one baseline as plain JSON values, without rounding.

    Args:
        comparisons: At least one.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": all(one.passed for comparison in comparisons for one in comparison.regressions),
        "baseline": _run(comparisons[0].baseline),
        "tested": tested(comparisons),
        "comparisons": [_comparison(one) for one in comparisons],
    }


def tested(comparisons: Sequence[Comparison]) -> int:
    """How many p values were adjusted together."""
    return sum(one.paired is not None for comparison in comparisons for one in comparison.differences)


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
        "mismatches": [asdict(one) for one in comparison.mismatches],
        "settings": [asdict(one) for one in comparison.changes],
        "metrics": {one.metric: _metric(one) for one in comparison.differences},
        "moved": [_moved(one) for one in comparison.moved],
        "regressions": [asdict(one) for one in comparison.regressions],
    }


def _run(run: Run) -> dict[str, Any]:
    facts = run.report.facts
    return {"name": run.name, "origin": run.origin, "started_at": facts.started_at, "cases": facts.cases}


def _metric(found: Difference) -> dict[str, Any]:
    paired = found.paired
    return {
        "better": found.better,
        "baseline": found.baseline,
        "other": found.other,
        "difference": found.difference,
        "ci_low": paired.interval.low if paired else None,
        "ci_high": paired.interval.high if paired else None,
        "p": paired.p if paired else None,
        "p_adjusted": found.p_adjusted,
        "p_test": paired.p_test if paired else None,
        "test": paired.test if paired else None,
        "n": paired.n if paired else 0,
        "wins": found.wins,
        "ties": paired.ties if paired else 0,
        "losses": found.losses,
        "only_baseline": list(found.only_baseline),
        "only_other": list(found.only_other),
        "failed": list(found.failed),
        "worst": found.worst,
        "note": found.note,
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
    return row.model_dump(include={"outcome", "reasons", "retrieved", "best_below_threshold"})
