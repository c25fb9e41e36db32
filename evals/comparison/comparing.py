"""The flow of a comparison: pair the queries, refuse what must not be compared, then metrics, tolerances, movers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evals.comparison.differences import adjust, choose, difference, score_of
from evals.comparison.mismatches import changes, judged, line, mismatches, other_judges
from evals.comparison.records import Comparison, Mismatch, Moved, Pairing, Run
from evals.comparison.regressions import Tolerance, check_names, judge
from evals.errors import ReportError
from evals.metrics import METRICS, declared
from evals.report.headline import deepest, headline
from evals.report.model import Difference, Report
from evals.stats.intervals import SAME

# Default order, at the largest K of both runs: one metric covers the queries in scope, the other those out of scope.
BY = ("ranking/ndcg_at_K", "scope/abstention")


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """Options of a comparison.

    Attributes:
        metrics: Names or patterns; empty for those that a run's terminal report shows.
        by: Metrics by which queries that moved are ordered; empty for those with a tolerance, or else the default.
        tolerances: Tolerated drops of metrics.
        common: True to compare runs of different golden data on the queries that are the same in both.
    """

    metrics: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    tolerances: tuple[Tolerance, ...] = ()
    common: bool = False


def compare(baseline: Run, others: Sequence[Run], wanted: ComparisonOptions) -> list[Comparison]:
    """Compare runs with a baseline; p values are adjusted over all metrics of all of them.

    Raises:
        ReportError: Runs must not be compared, or a metric does not exist.
        ExperimentError: A tolerance is of no metric that exists.
    """
    reports = [baseline.report, *(other.report for other in others)]
    by = choose(reports, wanted.by)
    check_names(wanted.tolerances, [name for report in reports for name in report.metrics], [*METRICS])
    tolerated = [entry.metric for entry in wanted.tolerances]
    shown = wanted.metrics or headline(*(report.metrics for report in reports))
    names = list(dict.fromkeys([*choose(reports, shown), *by, *tolerated]))
    started = [_begin(baseline, other, common=wanted.common) for other in others]
    adjusted = adjust([[_difference(entry, name) for name in names] for entry in started])
    return [
        replace(
            entry,
            differences=differences,
            moved=moved(entry.pairing, movers(by or tolerated, differences)),
            regressions=judge(wanted.tolerances, differences),
        )
        for entry, differences in zip(started, adjusted, strict=True)
    ]


def pair(baseline: Report, other: Report) -> Pairing:
    """Match the queries of two runs by id; those that are the same in both are paired, in the baseline's order.

    With another golden dataset a query is the same when all of its case is that a score can depend on.
    """
    same = baseline.facts.dataset_fingerprint == other.facts.dataset_fingerprint
    mine, theirs = list(baseline.queries), {row.id: row for row in other.queries}
    shared = [(row, theirs[row.id]) for row in mine if row.id in theirs]
    paired = [(a, b) for a, b in shared if same or (a.fingerprint and a.fingerprint == b.fingerprint)]
    ids = {a.id for a, _ in paired}
    ours = {row.id for row in mine}
    return Pairing(
        rows=tuple(paired),
        only_baseline=tuple(row.id for row in mine if row.id not in theirs),
        only_other=tuple(query_id for query_id in theirs if query_id not in ours),
        changed=tuple(a.id for a, _ in shared if a.id not in ids),
    )


def movers(metrics: Sequence[str], differences: Sequence[Difference]) -> list[str]:
    """Return the metrics that queries are ordered by: those given, or the default ones where a query moved by them.

    By the first metric that a query moved by otherwise.

    Args:
        metrics: Names; empty for the default.
        differences: The metrics that were compared.
    """
    paired = [difference for difference in differences if difference.paired]
    names = {difference.metric for difference in paired}
    chosen = [name for name in metrics or [deepest(pattern, names) for pattern in BY] if name in names]
    changed = [difference.metric for difference in paired if difference.wins + difference.losses]
    return chosen if metrics or not changed or not set(chosen).isdisjoint(changed) else changed[:1]


def moved(pairing: Pairing, metrics: Sequence[str]) -> list[Moved]:
    """Return the queries whose score changed, by the metric by which it changed most; of equal ones the worse first.

    Args:
        pairing: The queries of both runs.
        metrics: Names of metrics that score queries.
    """
    largest = [max(moves, key=lambda move: abs(move.gain)) for moves in _moves(pairing, metrics) if moves]
    return sorted(largest, key=lambda move: (-abs(move.gain), move.gain, move.baseline.id))


def _begin(baseline: Run, other: Run, *, common: bool) -> Comparison:
    pairing = pair(baseline.report, other.report)
    faults = mismatches(baseline.report, other.report, pairing)
    if any(fault.grade == "forbids" for fault in faults):
        _refuse(baseline, other, pairing, faults, common=common)
    return Comparison(
        baseline=baseline,
        other=other,
        pairing=pairing,
        mismatches=faults,
        changes=changes(baseline.report.config, other.report.config),
        restricted=not pairing.complete,
    )


def _refuse(baseline: Run, other: Run, pairing: Pairing, faults: Sequence[Mismatch], *, common: bool) -> None:
    """Raise unless the runs may be compared on what they have in common."""
    if common and pairing.rows:
        return
    remedy = (
        f"--common compares on the {len(pairing.rows)} queries that are the same in both"
        if pairing.rows
        else "no query is the same in both, so there is nothing to compare"
    )
    message = f"{other.reference!r} must not be compared with {baseline.reference!r}:"
    raise ReportError(message, [*map(line, faults), remedy])


def _difference(comparison: Comparison, metric: str) -> Difference:
    reports = comparison.baseline.report, comparison.other.report
    if judged(metric) and other_judges(reports[0].facts, reports[1].facts):
        return Difference(
            metric=metric, better=declared(metric).direction, note="given by different judges, so not compared"
        )
    seed = reports[0].facts.seed
    return difference(metric, *reports, comparison.pairing, restricted=comparison.restricted, seed=seed)


def _moves(pairing: Pairing, metrics: Sequence[str]) -> Iterator[list[Moved]]:
    for baseline, other in pairing.rows:
        moves = []
        for metric in metrics:
            before, after = score_of(baseline, metric), score_of(other, metric)
            if not isinstance(before, float | int) or not isinstance(after, float | int):
                continue
            gain = before - after if declared(metric).direction == "lower" else after - before
            if abs(gain) > SAME:
                move = Moved(metric=metric, gain=gain, before=before, after=after, baseline=baseline, other=other)
                moves.append(move)
        yield moves
