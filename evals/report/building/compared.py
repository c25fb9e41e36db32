"""A comparison as a section of the report. Pure."""

from collections.abc import Collection, Sequence
from pathlib import Path

from evals.report.comparison.comparing import moved
from evals.report.comparison.differences import verdict
from evals.report.comparison.records import Comparison, Difference, Moved
from evals.report.headline import LEADING, deepest
from evals.report.model.report import ComparedSection, DifferenceEntry, FlipEntry

# Chunks of a result that are kept, and queries.
FIRST = 3
MOST_FLIPS = 20
# A metric that tells more of a query than whether it was answered.
GRADED = "ranking/ndcg_at_K"


def compared_section(comparison: Comparison) -> ComparedSection:
    """Return this run (`other` of the comparison) beside another one (its baseline)."""
    run, facts = comparison.baseline, comparison.baseline.report.facts
    return ComparedSection(
        name=Path(run.origin).name if run.origin.endswith(".json") else run.name,
        settings=run.report.settings,
        started_at=facts.started_at,
        commit=facts.commit,
        changed=[f"{entry.setting} {_value(entry.baseline)} → {_value(entry.other)}" for entry in comparison.changes],
        differences=[_difference(entry) for entry in comparison.differences if entry.difference is not None],
        flipped=[_flip(entry) for entry in _flips(comparison)],
        by_query=_by_query(comparison),
    )


def _by_query(comparison: Comparison) -> dict[str, dict[str, float]]:
    metric = _first(
        (GRADED, *LEADING), [difference.metric for difference in comparison.differences if difference.paired]
    )
    moves = moved(comparison.pairing, [metric]) if metric else []
    return {metric: {move.other.id: move.after - move.before for move in moves}} if metric else {}


def _flips(comparison: Comparison) -> list[Moved]:
    """Return the queries that moved by the leading metric, those in the direction of the mean first."""
    paired = {difference.metric: difference for difference in comparison.differences if difference.paired}
    metric = _first(LEADING, paired)
    if metric is None:
        return []
    better = paired[metric].wins >= paired[metric].losses
    moves = moved(comparison.pairing, [metric])
    # A query with two results shows more than one that returned nothing.
    return sorted(moves, key=lambda move: ((move.gain > 0) != better, _is_empty(move), -abs(move.gain)))[:MOST_FLIPS]


def _first(patterns: Sequence[str], names: Collection[str]) -> str | None:
    return next((name for pattern in patterns if (name := deepest(pattern, names)) in names), None)


def _is_empty(move: Moved) -> bool:
    return not (move.baseline.retrieved and move.other.retrieved)


def _flip(move: Moved) -> FlipEntry:
    return FlipEntry(
        id=move.baseline.id,
        query=move.baseline.query,
        metric=move.metric,
        other=move.before,
        this=move.after,
        other_retrieved=move.baseline.retrieved[:FIRST],
        this_retrieved=move.other.retrieved[:FIRST],
    )


def _difference(difference: Difference) -> DifferenceEntry:
    paired = difference.paired
    return DifferenceEntry(
        metric=difference.metric,
        other=difference.baseline,
        this=difference.other,
        difference=difference.difference,
        ci_low=paired.interval.low if paired else None,
        ci_high=paired.interval.high if paired else None,
        p_adjusted=difference.p_adjusted,
        n=paired.n if paired else 0,
        wins=difference.wins,
        ties=paired.ties if paired else 0,
        losses=difference.losses,
        verdict=verdict(difference),
    )


def _value(value: object) -> str:
    return "not set" if value is None else str(value)
