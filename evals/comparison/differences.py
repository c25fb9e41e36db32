"""The difference of a metric between two runs, also where a judge saw a sample of the queries. Pure and seeded."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from math import isfinite

import numpy as np

from evals.collect.observations import VERDICT_METRIC, Failure, Unscored
from evals.comparison.mismatches import REDECLARED, other_judges, redeclared
from evals.comparison.records import Difference, Pairing
from evals.errors import ReportError
from evals.judge.trust import CORRECTED
from evals.metrics import DEPTH, METRICS, declared
from evals.metrics.declaration import Declaration, summarise
from evals.metrics.ranking import OF_GRADES, GradedLists
from evals.report.head import deepest
from evals.report.model import QueryRow, Report, ScoreValue, of_row
from evals.sampling.corrected import difference as sampled_difference
from evals.sampling.order import NOT_DRAWN
from evals.stats import paired
from evals.stats.intervals import SAME, Bools, Floats
from evals.stats.paired import Paired
from retrievers.errors import nearest
from retrievers.search.candidates import laid_out

WHOLE_RUN = "a statistic of the whole run, not paired by query"
OF_A_PAIR = ("baseline", "other", "n", "ties", "p")
# The scores of each query in both runs; None if the metric does not score the query.
Pairs = Sequence[tuple[ScoreValue | None, ScoreValue | None]]


def metrics_named(reports: Sequence[Report], patterns: Sequence[str]) -> list[str]:
    """Return the metrics of the reports that names or patterns match, in the order of the table of metrics.

    Raises:
        ReportError: A pattern matches no metric. The message has the nearest names.
    """
    measured = dict.fromkeys(name for report in reports for name in report.metrics)
    places = {name: place for place, name in enumerate(METRICS)}
    names = sorted(measured, key=lambda name: places.get(name, places.get(DEPTH.sub("_at_10", name), len(places))))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ReportError(f"no metric {pattern!r} in these runs{nearest(pattern, names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def deepened(reports: Sequence[Report]) -> list[Report]:
    """Return the reports with further metrics, so that runs of different `top_k` can be compared.

    Each report gets the `ranking/…_at_K` of all reports. If the `top_k` differ, it also gets those at the largest one:
    at a smaller depth, a run with a larger `top_k` would gain nothing. A result is scored as if no chunk followed it.
    """
    metrics = dict.fromkeys(name for report in reports for name in report.metrics)
    top_ks = {report.config.get("retriever", {}).get("top_k") for report in reports} - {None}
    if len(top_ks) > 1:
        metrics |= dict.fromkeys(re.sub(r"^(ranking/.+_at_)\d+$", rf"\g<1>{max(top_ks)}", name) for name in metrics)
    return [_at_all_depths(report, metrics) for report in reports]


def _at_all_depths(report: Report, metrics: Iterable[str]) -> Report:
    """Return the report with those of the metrics that its results at another depth allow to compute."""
    rows = report.queries
    columns: dict[str, list[ScoreValue | None]] = {}
    grades = [[*{hit.chunk_id: hit.grade for hit in row.retrieved}.values()] for row in rows]
    ideal = [sorted(row.relevant.values(), reverse=True) for row in rows]
    graded = GradedLists(
        grades=laid_out(grades, 0, least=1),
        relevant=np.array([len(row.relevant) for row in rows]),
        ideal=laid_out(ideal, 0),
    )
    for name in metrics:
        stem, _, depth = name.rpartition("_at_")
        measured = deepest(f"{stem}_at_K", report.metrics)
        if name in report.metrics or measured not in report.metrics:
            continue
        scores = [row.scores.get(measured) for row in rows]
        measured_depth = int(measured.rpartition("_at_")[2])
        if measure := OF_GRADES.get(stem.removeprefix("ranking/")):
            recomputed, deeper = (measure(graded, k).tolist() for k in (measured_depth, int(depth)))
            triples = list(zip(scores, recomputed, deeper, strict=True))
            # A report that was shortened for a repository may lack returned chunks. Its scores cannot be recomputed.
            if all(abs(score - again) < SAME for score, again, _ in triples if isinstance(score, float | int)):
                columns[name] = [new if isinstance(score, float | int) else score for score, _, new in triples]
        elif stem == "ranking/evidence_recall" and graded.grades.shape[1] <= measured_depth:
            columns[name] = scores
    queries = [row.model_copy(update={"scores": row.scores | of_row(columns, place)}) for place, row in enumerate(rows)]
    values = {name: summarise(declared(name), column) for name, column in columns.items()}
    return report.model_copy(update={"queries": queries, "metrics": {**report.metrics, **values}})


def difference(metric: str, baseline: Report, other: Report, pairing: Pairing) -> Difference:
    """Compare a metric of two runs: paired over the queries scored in both, or as statistics of the whole runs.

    Args:
        metric: Name of the metric.
        baseline: Report of the baseline.
        other: Report of the other run.
        pairing: The queries of both.
    """
    runs = {"baseline": baseline, "other run": other}
    declaration = baseline.declared(metric)
    entry = partial(Difference, metric=metric, better=declaration.direction)
    is_redeclared = metric in {change.what for change in redeclared(baseline, other)}
    if is_redeclared or ("judge" in declaration.needs and other_judges(baseline.facts, other.facts)):
        return entry(note=REDECLARED if is_redeclared else "given by different judges, so not compared")
    if metric == CORRECTED and baseline.facts.dataset_fingerprint != other.facts.dataset_fingerprint:
        return entry(note="people's verdicts may differ, so not compared")
    if absent := [name for name, report in runs.items() if metric not in report.metrics]:
        return entry(note=f"not measured in the {' nor in the '.join(absent)}")
    pairs = [(score_of(a, metric), score_of(b, metric)) for a, b in pairing.rows]
    if any(score is not None for pair in pairs for score in pair):
        return _paired(declaration, pairs, pairing, baseline.config.get("seed", 0))
    if pairing.left:
        return entry(note=f"{WHOLE_RUN}, which cannot be restricted to the common queries")
    means = {name: report.metrics[metric] for name, report in runs.items()}
    missing = [f"no value in the {name}: {mean.note}" for name, mean in means.items() if mean.value is None]
    before, after = (mean.value for mean in means.values())
    return entry(baseline=before, other=after, note="; ".join(missing) or WHOLE_RUN)


def adjust(families: Sequence[Sequence[Difference]]) -> list[list[Difference]]:
    """Return the differences of several comparisons, their p values adjusted by Holm over all comparisons together."""
    adjusted = iter(paired.holm([entry.p for family in families for entry in family if entry.p is not None]))
    return [[entry if entry.p is None else entry.adjusted(next(adjusted)) for entry in family] for family in families]


def score_of(row: QueryRow, metric: str) -> ScoreValue | None:
    """Return a query's score; None if the metric does not score the query."""
    return row.passed if metric == VERDICT_METRIC else row.scores.get(metric)


def _paired(declaration: Declaration, pairs: Pairs, pairing: Pairing, seed: int) -> Difference:
    """Compare the scores of the queries that are scored in both runs."""

    def ids(is_chosen: Bools) -> tuple[str, ...]:
        return tuple(row.id for (row, _), chosen in zip(pairing.rows, is_chosen.tolist(), strict=True) if chosen)

    # Arrays of shape [queries, runs]. A missing score is NaN. `not_drawn`: the judge was not asked.
    scores = np.array([[s if isinstance(s, float | int) else np.nan for s in pair] for pair in pairs], dtype=float)
    failed = np.array([[isinstance(score, Failure) for score in pair] for pair in pairs])
    not_drawn = np.array([[isinstance(s, Unscored) and s.reason == NOT_DRAWN.reason for s in pair] for pair in pairs])
    scored = np.isfinite(scores)
    alone = scored & ~(scored | not_drawn)[:, ::-1]
    metric, direction = declaration.name, declaration.direction
    entry = partial(Difference, metric=metric, better=direction, failed=ids(failed[:, 0] | failed[:, 1]))
    entry = partial(entry, only_baseline=ids(alone[:, 0]), only_other=ids(alone[:, 1]))
    in_both = scored.all(axis=1)
    if not in_both.any():
        reasons = (getattr(pair[run], "reason", getattr(pair[run], "failed", "")) for run in (0, 1) for pair in pairs)
        return entry(note=f"no query is scored in both: {next(filter(None, reasons), 'they are over other queries')}")
    # Each failed score becomes the end of the metric's range that is worst for the other run.
    low, high = declaration.range
    at_worst = np.where(failed, (low, high) if direction == "lower" else (high, low), scores)
    if not_drawn.any():
        # The queries that the means stand for are scored, failed, or not drawn.
        in_means = (scored | failed | not_drawn).all(axis=1)
        rows = [pair for pair, is_in in zip(pairing.rows, in_means.tolist(), strict=True) if is_in]
        result, note = _of_samples(metric, scores[in_means], rows, seed)
        worst = _of_samples(metric, at_worst[in_means], rows, seed)[0].difference if failed.any() else None
    else:
        before, after = scores[in_both].T.tolist()
        result, note = paired.compare(before, after, seed, high - low), ""
        worst = float(np.nanmean(np.diff(at_worst))) if failed.any() else None
    better, worse = (result.falls, result.rises) if direction == "lower" else (result.rises, result.falls)
    entry = partial(entry, **{name: getattr(result, name) for name in OF_A_PAIR}, wins=better, losses=worse)
    entry = partial(entry, low=result.interval.low, high=result.interval.high)
    worst = None if worst is None or not isfinite(worst) else worst
    return entry(worst=worst, note="; ".join(filter(None, (note, result.interval.note))))


def _of_samples(
    metric: str, scores: Floats, rows: Sequence[tuple[QueryRow, QueryRow]], seed: int
) -> tuple[Paired, str]:
    """Compare a judged metric of which at least one run judged a sample. If both reports hold its proxy, correct by it.

    Returns:
        The comparison, and a note: how many queries were judged, and how the difference was corrected.
    """
    proxies = np.array([[row.proxies.get(metric, np.nan) for row in pair] for pair in rows], dtype=float)
    result, weight = sampled_difference((scores[:, 0], scores[:, 1]), (proxies[:, 0], proxies[:, 1]), seed)
    basis = f"corrected by what foretells the judge, weight {weight:.2f}" if weight else "the judged queries alone"
    return result, f"judged in both: {result.n} of {len(rows)} queries, {basis}"
