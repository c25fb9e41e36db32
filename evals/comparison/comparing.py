"""The flow of a comparison: pair the queries, refuse what must not be compared, then metrics, tolerances, movers.

The rule of tolerances. The drop of a metric is how much worse the other run is, in the direction of the metric. A mean
is taken over the queries scored in both runs. Every failed score counts against the other run as much as the range of
the metric allows. A drop is a regression if it is greater than the tolerance; that the interval of the difference
includes 0 is reported, and excuses nothing. An unknown drop is a regression, too. The drop is unknown if the metric is
absent or has no value in one of the runs, or if over 5% of the queries scored in either run are scored in one alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from evals.collect.observations import VERDICT_METRIC
from evals.comparison.differences import adjust, deepened, difference, metrics_named, score_of
from evals.comparison.mismatches import changes, line, mismatches
from evals.comparison.records import Difference, Moved, Pairing, Regression, Run
from evals.comparison.sections import Comparison
from evals.errors import ExperimentError, ReportError
from evals.metrics import METRICS
from evals.metrics.criteria import TOLERANCE as ROUNDING
from evals.metrics.declaration import Direction
from evals.report.head import deepest, headline, ranked
from evals.report.model import QueryRow, Report
from evals.report.parsing import FOUND
from evals.stats.intervals import SAME
from retrievers.errors import nearest
from retrievers.text.shown import quoted

# Metrics that say how far a query moved: the first at the largest K of both runs; the second is that of a grid's cells.
MOVED_BY = ("ranking/ndcg_at_K", FOUND, "scope/abstention")
FLAG = "--fail-on-regression"
# Largest share of scored queries that may be scored in one run alone.
MOST_UNPAIRED = 0.05


def compare(
    baseline: Run,
    others: Sequence[Run],
    *,
    metrics: Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
    common: bool = False,
) -> list[Comparison]:
    """Compare runs with a baseline. p values are adjusted over all metrics of all comparisons.

    Args:
        baseline: The run that the others are compared with.
        others: At least one run.
        metrics: Names or patterns of metrics; empty for the metrics that the report of a run shows on a terminal.
        tolerances: Metric to its largest drop that is no regression.
        common: True to compare runs of different golden data on the queries that are the same in both.

    Raises:
        ReportError: Runs must not be compared, or a metric does not exist.
        ExperimentError: A tolerance is no number of 0 or more, or names a metric that does not exist.
    """
    reports = deepened([run.report for run in (baseline, *others)])
    first, *rest = (replace(run, report=report) for run, report in zip((baseline, *others), reports, strict=True))
    tolerances = tolerances or {}
    _check(tolerances, reports)
    shown = metrics or headline(*(report.metrics for report in reports))
    names = list(dict.fromkeys([*metrics_named(reports, shown), *tolerances]))
    comparisons = [_comparison(first, run, common=common) for run in rest]
    families = [[difference(name, first.report, c.other.report, c.pairing) for name in names] for c in comparisons]
    return [
        replace(
            comparison,
            differences=differences,
            moved=moved(comparison.pairing, _movers([*tolerances], differences)),
            regressions=[_regression(d, tolerances[d.metric]) for d in differences if d.metric in tolerances],
        )
        for comparison, differences in zip(comparisons, adjust(families), strict=True)
    ]


def pair(baseline: Report, other: Report) -> Pairing:
    """Match the queries of two runs by id, and pair those that are the same in both, in the order of the baseline.

    If the golden data differ, a query is the same if every field of its case that a score can depend on is the same.
    """
    same_data = baseline.facts.dataset_fingerprint == other.facts.dataset_fingerprint
    before, after = ({row.id: row for row in report.queries} for report in (baseline, other))
    shared = [(row, after[query_id]) for query_id, row in before.items() if query_id in after]
    paired = [(a, b) for a, b in shared if same_data or (a.fingerprint and a.fingerprint == b.fingerprint)]
    ids = {row.id for row, _ in paired}
    return Pairing(
        rows=tuple(paired),
        only_baseline=tuple(query_id for query_id in before if query_id not in after),
        only_other=tuple(query_id for query_id in after if query_id not in before),
        changed=tuple(row.id for row, _ in shared if row.id not in ids),
    )


def moved(pairing: Pairing, metrics: Mapping[str, Direction]) -> list[Moved]:
    """Return the lost queries, the gained ones, then those whose score changed; of each kind the largest change first.

    Args:
        pairing: The queries of both runs.
        metrics: Metrics that score queries, with their better direction. Each query is shown with the one that changed
            most.
    """
    moves = []
    for row, other in pairing.rows:
        flip = _change(VERDICT_METRIC, "higher", row, other)
        scored = filter(None, [_change(metric, better, row, other) for metric, better in metrics.items()])
        if most := max(scored, key=lambda move: abs(move.gain), default=flip):
            moves.append(most._replace(kind="lost" if flip.gain < 0 else "gained") if flip else most)
    places = {"lost": 0, "gained": 1}
    return sorted(moves, key=lambda move: (places.get(move.kind, 2), -abs(move.gain), move.gain, move.baseline.id))


def _change(metric: str, better: Direction, row: QueryRow, other: QueryRow) -> Moved | None:
    """Return the change of a query's score; None if it is not scored in both runs, or has not changed."""
    before, after = score_of(row, metric), score_of(other, metric)
    if not isinstance(before, float | int) or not isinstance(after, float | int) or abs(after - before) <= SAME:
        return None
    gain = after - before if better != "lower" else before - after
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


def _check(tolerances: Mapping[str, float], reports: Sequence[Report]) -> None:
    """Make sure that every tolerance is a number of 0 or more, of a metric that exists and has a direction."""
    names = [*METRICS, *(name for report in reports for name in report.metrics)]
    for metric, drop in tolerances.items():
        if not (isfinite(drop) and drop >= 0):
            raise ExperimentError(f"{FLAG}: {metric}: expected a number of 0 or more, got {drop!r}")
        if metric not in names:
            raise ExperimentError(f"{FLAG}: no metric {metric!r}{nearest(metric, names)}")
        if reports[0].declared(metric).direction == "neither":
            raise ExperimentError(f"{FLAG}: no direction of {metric} is better than the other")


def _comparison(baseline: Run, other: Run, *, common: bool) -> Comparison:
    """Return a comparison without its figures.

    Raises:
        ReportError: The golden data differ, and `common` is not set; or no query is the same in both runs.
    """
    pairing = pair(baseline.report, other.report)
    faults = mismatches(baseline.report, other.report, pairing)
    count = len(pairing.rows)
    if pairing.left and not (common and count):
        remedy = f"--common compares on the {count} queries that are the same in both"
        nothing = "no query is the same in both, so there is nothing to compare"
        message = f"{other.reference!r} must not be compared with {baseline.reference!r}:"
        raise ReportError(message, [*map(line, faults), remedy if count else nothing])
    settings = changes(baseline.report.config, other.report.config)
    return Comparison(baseline=baseline, other=other, pairing=pairing, mismatches=faults, changes=settings)


def _movers(tolerated: Sequence[str], differences: Sequence[Difference]) -> dict[str, Direction]:
    """Return the metrics that say how far a query moved: those with a tolerance, and the usual ones."""
    paired = {entry.metric: entry.better for entry in differences if entry.n}
    usual = [*tolerated, *(deepest(pattern, paired) for pattern in MOVED_BY)]
    return {name: paired[name] for name in [name for name in usual if name in paired] or ranked(paired)[:1]}


def _regression(entry: Difference, tolerance: float) -> Regression:
    """Compare a difference with its tolerance, by the rule at the head of this file."""
    drop = entry.worst if entry.failed else entry.difference
    if drop is not None and entry.better != "lower":
        drop = 0 - drop  # -drop would be -0 for equal values
    unpaired = len(entry.only_baseline) + len(entry.only_other)
    scored = unpaired + entry.n
    unknown = ""
    if entry.difference is None:
        unknown = entry.note
    elif drop is None:
        unknown = f"{len(entry.failed)} failed scores leave it open"
    elif unpaired > MOST_UNPAIRED * scored:
        unknown = f"{unpaired} of {scored} queries are scored in one of the runs only, more than {MOST_UNPAIRED:.0%}"
    reason = "there is no interval"
    if entry.low is not None and entry.high is not None:
        reason = f"the 95% interval {'includes' if entry.low <= 0 <= entry.high else 'excludes'} 0"
    worst = f", if all {len(entry.failed)} failed scores had come out badly" if entry.failed else ""
    passed = not unknown and drop is not None and drop <= tolerance + ROUNDING
    return Regression(entry.metric, tolerance, drop, passed, unknown or reason + worst)
