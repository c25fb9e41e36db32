"""Metrics of two runs side by side, of judged samples too. Pure and seeded."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from statistics import fmean
from typing import Any

import numpy as np

from evals.collect.observations import VERDICT_METRIC, Unscored
from evals.comparison.mismatches import other_judges
from evals.comparison.records import Comparison, Difference, Pairing
from evals.errors import ReportError
from evals.metrics import declared
from evals.report.model import FailedValue, QueryRow, Report, ScoreValue
from evals.sampling.corrected import difference as sampled_difference
from evals.sampling.order import NOT_DRAWN
from evals.stats import paired
from evals.stats.intervals import SAME, Floats
from evals.stats.paired import Paired
from retrievers.errors import nearest

WHOLE_RUN = "a statistic of the whole run, not paired by query"
OF_A_PAIR = ("baseline", "other", "n", "ties", "p", "p_test", "test")
# A query's scores in both runs; None where a run does not have the metric for it.
Pairs = Sequence[tuple[ScoreValue | None, ScoreValue | None]]


def choose(reports: Sequence[Report], patterns: Sequence[str]) -> list[str]:
    """Return the metrics of any of the reports that names or patterns choose, in the reports' order.

    Raises:
        ReportError: A pattern chooses nothing; the nearest names are given.
    """
    names = list(dict.fromkeys(name for report in reports for name in report.metrics))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ReportError(f"no metric {pattern!r} in these runs{nearest(pattern, names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def difference(metric: str, comparison: Comparison) -> Difference:
    """Compare a metric of two runs: paired over the queries scored in both, or as statistics of the whole runs.

    Args:
        metric: Name of the metric.
        comparison: The runs, with their queries paired.
    """
    runs = {"baseline": comparison.baseline.report, "other run": comparison.other.report}
    pairing, empty = comparison.pairing, Difference(metric=metric, better=declared(metric).direction)
    facts = [report.facts for report in runs.values()]
    if "judge" in declared(metric).needs and other_judges(*facts):
        return replace(empty, note="given by different judges, so not compared")
    if absent := [name for name, report in runs.items() if metric not in report.metrics]:
        return replace(empty, note=f"not measured in the {' nor in the '.join(absent)}")
    pairs = [(score_of(a, metric), score_of(b, metric)) for a, b in pairing.rows]
    if any(score is not None for both in pairs for score in both):
        return _paired(empty, pairs, pairing, facts[0].seed)
    if pairing.left:
        return replace(empty, note=f"{WHOLE_RUN}, which cannot be restricted to the common queries")
    found = {name: report.metrics[metric] for name, report in runs.items()}
    missing = [f"no value in the {name}: {one.note}" for name, one in found.items() if one.value is None]
    first, second = (one.value for one in found.values())
    return replace(empty, baseline=first, other=second, note="; ".join(missing) or WHOLE_RUN)


def adjust(families: Sequence[Sequence[Difference]]) -> list[list[Difference]]:
    """Return the differences of several comparisons, with p values adjusted by Holm over all of them together."""
    adjusted = iter(paired.holm([each.p for family in families for each in family if each.p is not None]))
    return [[each if each.p is None else replace(each, p_adjusted=next(adjusted)) for each in one] for one in families]


def score_of(row: QueryRow, metric: str) -> ScoreValue | None:
    """Return a query's score; None where the metric is not over it."""
    if metric == VERDICT_METRIC:
        return None if row.outcome == "UNLABELLED" else float(row.outcome == "SUCCESS")
    return row.scores.get(metric)


def _paired(empty: Difference, pairs: Pairs, pairing: Pairing, seed: int) -> Difference:
    def ids(holds: Callable[[Any, Any], bool]) -> tuple[str, ...]:
        return tuple(row.id for (row, _), both in zip(pairing.rows, pairs, strict=True) if holds(*both))

    known = replace(
        empty,
        only_baseline=ids(lambda a, b: _is_number(a) and not _is_number(b) and not _is_not_drawn(b)),
        only_other=ids(lambda a, b: _is_number(b) and not _is_number(a) and not _is_not_drawn(a)),
        failed=ids(lambda a, b: isinstance(a, FailedValue) or isinstance(b, FailedValue)),
    )
    numbers, note, worst = _numbers(pairs), "", None
    if not numbers:
        reasons = (getattr(both[run], "reason", getattr(both[run], "failed", "")) for run in (0, 1) for both in pairs)
        reason = next(filter(None, reasons), "they are over other queries")
        return replace(known, note=f"no query is scored in both: {reason}")
    # Every failed score at its end of [0, 1] that is worst for the other run.
    best, least = (0.0, 1.0) if empty.better == "lower" else (1.0, 0.0)
    filled = [(best if isinstance(a, FailedValue) else a, least if isinstance(b, FailedValue) else b) for a, b in pairs]
    if any(_is_not_drawn(score) for both in pairs for score in both):
        result, note = _of_samples(empty.metric, pairs, pairing, seed)
        worst = _of_samples(empty.metric, filled, pairing, seed)[0].difference if known.failed else None
    else:
        first, second = zip(*numbers, strict=True)
        result, every = paired.compare(first, second, seed), (*first, *second)
        if known.failed and min(every) >= -SAME and max(every) <= 1 + SAME:
            worst = fmean(b - a for a, b in _numbers(filled))
    better, worse = (result.falls, result.rises) if empty.better == "lower" else (result.rises, result.falls)
    values: dict[str, Any] = {name: getattr(result, name) for name in OF_A_PAIR}
    values |= {"low": result.interval.low, "high": result.interval.high, "wins": better, "losses": worse}
    return replace(known, **values, worst=worst, note="; ".join(filter(None, (note, result.interval.note))))


def _of_samples(metric: str, pairs: Pairs, pairing: Pairing, seed: int) -> tuple[Paired, str]:
    """Compare a metric of which a run judged a sample, corrected by what foretells it where both reports hold that.

    Returns:
        The comparison, and how many queries were judged and how the difference was corrected.
    """
    # The queries that the means stand for: scored, failed, or not drawn.
    kept = [
        (both, rows)
        for both, rows in zip(pairs, pairing.rows, strict=True)
        if all(_is_number(score) or isinstance(score, FailedValue) or _is_not_drawn(score) for score in both)
    ]
    judged = _column([a for (a, _), _ in kept]), _column([b for (_, b), _ in kept])
    before, after = (_column([rows[run].proxies.get(metric) for _, rows in kept]) for run in (0, 1))
    result, weight = sampled_difference(judged, (before, after), seed)
    how = f"corrected by what foretells the judge, weight {weight:.2f}" if weight else "the judged queries alone"
    return result, f"judged in both: {result.n} of {len(kept)} queries, {how}"


def _is_number(score: object) -> bool:
    return isinstance(score, float | int)


def _numbers(pairs: Pairs) -> list[tuple[float, float]]:
    return [(a, b) for a, b in pairs if isinstance(a, float | int) and isinstance(b, float | int)]


def _is_not_drawn(score: object) -> bool:
    """Return True for a query that a run left out of the sample that it judged."""
    return isinstance(score, Unscored) and score.reason == NOT_DRAWN.reason


def _column(scores: Sequence[object]) -> Floats:
    return np.array([score if isinstance(score, float | int) else np.nan for score in scores], dtype=float)
