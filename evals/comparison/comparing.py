"""The flow of a comparison: pair the queries, refuse what must not be compared, then metrics, tolerances, movers.

The rule of tolerances. The drop of a metric is how much worse the other run is, in the metric's own direction. A mean
is taken over the queries scored in both runs; where scores failed, every failed one counts as badly against the other
run as it can. It is a regression when the drop is greater than the tolerance, whether or not the interval of the
difference excludes 0 (which is reported), or when the drop is unknown: the metric is absent or has no value in one of
the runs, or over 5% of the queries scored in one of them are not scored in the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from evals.collect.observations import VERDICT_METRIC
from evals.comparison.differences import adjust, deepened, difference, metrics_named, score_of
from evals.comparison.mismatches import changes, line, mismatches
from evals.comparison.records import Comparison, Difference, Moved, Pairing, Regression, Run
from evals.errors import ExperimentError, ReportError
from evals.metrics import METRICS, declared
from evals.metrics.criteria import TOLERANCE as ROUNDING
from evals.report.head import deepest, headline, ranked
from evals.report.model import QueryRow, Report
from evals.report.parsing import FOUND
from evals.stats.intervals import SAME
from retrievers.errors import nearest
from retrievers.text.shown import quoted

# What a query moved by, at the largest K of both runs: in scope, of cells of a grid what they find; out of scope.
BY = ("ranking/ndcg_at_K", FOUND, "scope/abstention")
FLAG = "--fail-on-regression"
MOST_DROPPED = 0.05


def compare(
    baseline: Run,
    others: Sequence[Run],
    *,
    metrics: Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
    common: bool = False,
) -> list[Comparison]:
    """Compare runs with a baseline; p values are adjusted over all metrics of all of them.

    Args:
        baseline: The run that the others are compared with.
        others: At least one.
        metrics: Names or patterns; empty for those that a run's terminal report shows.
        tolerances: Metric to its largest drop that is no regression.
        common: True to compare runs of different golden data on the queries that are the same in both.

    Raises:
        ReportError: Runs must not be compared, or a metric does not exist.
        ExperimentError: A tolerance is of no metric that exists, or no tolerance.
    """
    reports = deepened([run.report for run in (baseline, *others)])
    runs = [replace(run, report=report) for run, report in zip((baseline, *others), reports, strict=True)]
    tolerances = tolerances or {}
    _check(tolerances, [*METRICS, *(name for report in reports for name in report.metrics)])
    shown = metrics or headline(*(report.metrics for report in reports))
    names = list(dict.fromkeys([*metrics_named(reports, shown), *tolerances]))
    started = [_begun(runs[0], other, common=common) for other in runs[1:]]
    adjusted = adjust([[difference(name, comparison) for name in names] for comparison in started])
    return [
        replace(
            comparison,
            differences=differences,
            moved=moved(comparison.pairing, _movers([*tolerances], differences)),
            regressions=[_judged(entry, tolerances) for entry in differences if entry.metric in tolerances],
        )
        for comparison, differences in zip(started, adjusted, strict=True)
    ]


def pair(baseline: Report, other: Report) -> Pairing:
    """Match the queries of two runs by id; those that are the same in both are paired, in the baseline's order.

    With another golden dataset a query is the same when all of its case is that a score can depend on.
    """
    same = baseline.facts.dataset_fingerprint == other.facts.dataset_fingerprint
    mine, theirs = ({row.id: row for row in report.queries} for report in (baseline, other))
    shared = [(row, theirs[row.id]) for row in mine.values() if row.id in theirs]
    paired = [(a, b) for a, b in shared if same or (a.fingerprint and a.fingerprint == b.fingerprint)]
    ids = {a.id for a, _ in paired}
    return Pairing(
        rows=tuple(paired),
        only_baseline=tuple(query_id for query_id in mine if query_id not in theirs),
        only_other=tuple(query_id for query_id in theirs if query_id not in mine),
        changed=tuple(a.id for a, _ in shared if a.id not in ids),
    )


def moved(pairing: Pairing, metrics: Sequence[str]) -> list[Moved]:
    """Return the queries that are lost, those gained, then those whose score changed; of each kind most first.

    Args:
        pairing: The queries of both runs.
        metrics: Names of metrics that score queries; each query is told by the one that changed most.
    """
    moves = []
    for row, other in pairing.rows:
        flip = _change(VERDICT_METRIC, row, other)
        changes = filter(None, [_change(metric, row, other) for metric in metrics])
        if most := max(changes, key=lambda move: abs(move.gain), default=flip):
            moves.append(most._replace(kind="lost" if flip.gain < 0 else "gained") if flip else most)
    places = {"lost": 0, "gained": 1}
    return sorted(moves, key=lambda move: (places.get(move.kind, 2), -abs(move.gain), move.gain, move.baseline.id))


def _change(metric: str, row: QueryRow, other: QueryRow) -> Moved | None:
    """Return the change of a query's score; None where it is scored in one run only, or equal."""
    before, after = score_of(row, metric), score_of(other, metric)
    if not isinstance(before, float | int) or not isinstance(after, float | int) or abs(after - before) <= SAME:
        return None
    gain = after - before if declared(metric).direction != "lower" else before - after
    return Moved("worse" if gain < 0 else "better", metric, gain, before, after, row, other)


def parse(texts: Sequence[str]) -> dict[str, float]:
    """Read tolerances such as `ranking/ndcg_at_10:0.02`.

    Raises:
        ExperimentError: One is malformed, or its metric was named before.
    """
    drops: dict[str, float] = {}
    for text in texts:
        metric, _, number = text.rpartition(":")
        expected = f"{FLAG}: expected METRIC:TOLERANCE such as ranking/ndcg_at_10:0.02, once a metric"
        if metric in drops:
            raise ExperimentError(f"{expected}, got {quoted(text)} besides")
        try:
            drops[metric] = float(number)
        except ValueError:
            raise ExperimentError(f"{expected}, got {quoted(text)}") from None
    return drops


def _check(tolerances: Mapping[str, float], names: Sequence[str]) -> None:
    """Make sure that every tolerance is a number, of a metric that exists and has a direction."""
    for metric, drop in tolerances.items():
        if not (isfinite(drop) and drop >= 0):
            raise ExperimentError(f"{FLAG}: {metric}: expected a number of 0 or more, got {drop!r}")
        if metric not in names:
            raise ExperimentError(f"{FLAG}: no metric {metric!r}{nearest(metric, names)}")
        if declared(metric).direction == "neither":
            raise ExperimentError(f"{FLAG}: no direction of {metric} is better than the other")


def _begun(baseline: Run, other: Run, *, common: bool) -> Comparison:
    """Return a comparison without its figures; raise where the runs must not be compared on what they share."""
    pairing = pair(baseline.report, other.report)
    faults, count = mismatches(baseline.report, other.report, pairing), len(pairing.rows)
    if pairing.left and not (common and count):
        remedy = f"--common compares on the {count} queries that are the same in both"
        nothing = "no query is the same in both, so there is nothing to compare"
        message = f"{other.reference!r} must not be compared with {baseline.reference!r}:"
        raise ReportError(message, [*map(line, faults), remedy if count else nothing])
    settings = changes(baseline.report.config, other.report.config)
    return Comparison(baseline=baseline, other=other, pairing=pairing, mismatches=faults, changes=settings)


def _movers(tolerated: Sequence[str], differences: Sequence[Difference]) -> list[str]:
    """Return the metrics that tell a query's change: the tolerated and the usual ones."""
    paired = [entry.metric for entry in differences if entry.n]
    usual = [*tolerated, *(deepest(pattern, paired) for pattern in BY)]
    return [name for name in usual if name in paired] or ranked(paired)[:1]


def _judged(entry: Difference, tolerances: Mapping[str, float]) -> Regression:
    """Compare a difference with its tolerance, by the rule at the head of this file."""
    limit, change = tolerances[entry.metric], entry.difference
    dropped = len(entry.only_baseline) + len(entry.only_other)
    drop, scored = entry.worst if entry.failed else change, dropped + entry.n
    if drop is not None and entry.better != "lower":
        drop = 0 - drop  # of an equal metric not -0
    unknown = ""
    if change is None:
        unknown = entry.note
    elif drop is None:
        unknown = f"{len(entry.failed)} failed scores leave it open"
    elif dropped > MOST_DROPPED * scored:
        unknown = f"{dropped} of {scored} queries are scored in one of the runs only, more than {MOST_DROPPED:.0%}"
    reason = "there is no interval"
    if entry.low is not None and entry.high is not None:
        reason = f"the 95% interval {'includes' if entry.low <= 0 <= entry.high else 'excludes'} 0"
    worst = f", if all {len(entry.failed)} failed scores had come out badly" if entry.failed else ""
    passed = not unknown and drop is not None and drop <= limit + ROUNDING
    return Regression(entry.metric, limit, drop, passed, unknown or reason + worst)
