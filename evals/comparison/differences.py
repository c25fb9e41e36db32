"""Metrics of two runs side by side, of judged samples too. Pure and seeded."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from statistics import fmean
from typing import TypeGuard

import numpy as np

from evals.collect.observations import VERDICT_METRIC, Unscored
from evals.comparison.records import Pairing
from evals.errors import ReportError
from evals.metrics import declared
from evals.report.model import Difference, FailedValue, QueryRow, Report, ScoreValue
from evals.sampling.corrected import difference as sampled_difference
from evals.sampling.order import NOT_DRAWN
from evals.stats import paired
from evals.stats.intervals import SAME, Floats
from evals.stats.paired import Paired
from retrievers.errors import nearest

WHOLE_RUN = "a statistic of the whole run, not paired by query"


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


def difference(
    metric: str, baseline: Report, other: Report, pairing: Pairing, *, restricted: bool, seed: int
) -> Difference:
    """Compare a metric of two runs: paired over the queries scored in both, or as statistics of the whole runs.

    Args:
        metric: Name of the metric.
        baseline: The first run.
        other: The run compared with it.
        pairing: Their queries.
        restricted: True if only a part of the queries is compared, to which a statistic of the run does not apply.
        seed: Seed of the resampling.
    """
    absent = [name for name, report in (("baseline", baseline), ("other run", other)) if metric not in report.metrics]
    empty = Difference(metric=metric, better=declared(metric).direction)
    if absent:
        return replace(empty, note=f"not measured in the {' nor in the '.join(absent)}")
    pairs = [(score_of(a, metric), score_of(b, metric)) for a, b in pairing.rows]
    if any(score is not None for both in pairs for score in both):
        return _paired(empty, pairs, pairing, seed)
    first, second = baseline.metrics[metric], other.metrics[metric]
    if restricted:
        return replace(empty, note=f"{WHOLE_RUN}, which cannot be restricted to the common queries")
    missing = [f"no value in the {name}: {entry.note}" for name, entry in (("baseline", first), ("other run", second))
               if entry.value is None]  # fmt: skip
    return replace(empty, baseline=first.value, other=second.value, note="; ".join(missing) or WHOLE_RUN)


def adjust(families: Sequence[Sequence[Difference]]) -> list[list[Difference]]:
    """Return the differences of several comparisons, with p values adjusted by Holm over all of them together."""
    tested = [difference.paired.p for family in families for difference in family if difference.paired]
    adjusted = iter(paired.holm(tested))
    return [
        [replace(difference, p_adjusted=next(adjusted)) if difference.paired else difference for difference in family]
        for family in families
    ]


def score_of(row: QueryRow, metric: str) -> ScoreValue | None:
    """Return a query's score; None where the metric is not over it."""
    if metric == VERDICT_METRIC:
        return None if row.outcome == "UNLABELLED" else float(row.outcome == "SUCCESS")
    return row.scores.get(metric)


def _paired(empty: Difference, pairs: Pairs, pairing: Pairing, seed: int) -> Difference:
    rows = [(row.id, a, b) for (row, _), (a, b) in zip(pairing.rows, pairs, strict=True)]
    dropped = replace(
        empty,
        only_baseline=tuple(i for i, a, b in rows if _is_number(a) and not _is_number(b) and not _not_drawn(b)),
        only_other=tuple(i for i, a, b in rows if _is_number(b) and not _is_number(a) and not _not_drawn(a)),
        failed=tuple(i for i, a, b in rows if isinstance(a, FailedValue) or isinstance(b, FailedValue)),
    )
    numbers, note = _numbers(pairs), ""
    if not numbers:
        reasons = [_reason(both[run]) for run in (0, 1) for both in pairs]
        reason = next(filter(None, reasons), "they are over other queries")
        return replace(dropped, note=f"no query is scored in both: {reason}")
    if any(_not_drawn(score) for both in pairs for score in both):
        result, note = _of_samples(empty.metric, pairs, pairing, seed)
        filled = _filled(dropped, pairs)
        worst = _of_samples(empty.metric, filled, pairing, seed)[0].difference if dropped.failed else None
    else:
        result = paired.compare([a for a, _ in numbers], [b for _, b in numbers], seed)
        worst = _worst(dropped, pairs)
    return replace(
        dropped,
        baseline=result.baseline,
        other=result.other,
        paired=result,
        worst=worst,
        note="; ".join(filter(None, (note, result.interval.note))),
    )


def _filled(difference: Difference, pairs: Pairs) -> Pairs:
    """Return both runs' scores, every failed one at its end of [0, 1] that is worst for the other run."""
    best, worst = (0.0, 1.0) if difference.better == "lower" else (1.0, 0.0)
    return [(best if isinstance(a, FailedValue) else a, worst if isinstance(b, FailedValue) else b) for a, b in pairs]


def _worst(difference: Difference, pairs: Pairs) -> float | None:
    """Return the mean difference with every failed score at its end of [0, 1] that is worst for the other run.

    None when none failed, and for scores that may lie beyond these ends.
    """
    numbers = [score for both in pairs for score in both if _is_number(score)]
    if not difference.failed or min(numbers) < -SAME or max(numbers) > 1 + SAME:
        return None
    return fmean(b - a for a, b in _numbers(_filled(difference, pairs)))


def _is_number(score: ScoreValue | None) -> TypeGuard[float]:
    return isinstance(score, float | int)


def _numbers(pairs: Pairs) -> list[tuple[float, float]]:
    return [(a, b) for a, b in pairs if _is_number(a) and _is_number(b)]


def _reason(score: ScoreValue | None) -> str:
    """Return why a query has no score; empty where it has one, or is none of the metric's."""
    return score.reason if isinstance(score, Unscored) else score.failed if isinstance(score, FailedValue) else ""


def _not_drawn(score: ScoreValue | None) -> bool:
    """Return True for a query that a run left out of the sample that it judged."""
    return isinstance(score, Unscored) and score.reason == NOT_DRAWN.reason


def _of_samples(metric: str, pairs: Pairs, pairing: Pairing, seed: int) -> tuple[Paired, str]:
    """Compare a metric of which a run judged a sample, corrected by what foretells it where both reports hold that.

    Args:
        metric: Name of the metric.
        pairs: Scores of the paired queries; at least one is scored in both.
        pairing: The queries.
        seed: Seed of the drawn signs.

    Returns:
        The comparison, and how many queries were judged and how the difference was corrected.
    """
    kept = [(both, rows) for both, rows in zip(pairs, pairing.rows, strict=True) if all(map(_counts, both))]
    judged = _column([a for (a, _), _ in kept]), _column([b for (_, b), _ in kept])
    proxies = [_column([rows[run].proxies.get(metric) for _, rows in kept]) for run in (0, 1)]
    result, weight = sampled_difference(judged, (proxies[0], proxies[1]), seed)
    how = f"corrected by what foretells the judge, weight {weight:.2f}" if weight else "the judged queries alone"
    return result, f"judged in both: {result.n} of {len(kept)} queries, {how}"


def _counts(score: ScoreValue | None) -> bool:
    """Return True for a query that the mean stands for: it is scored, failed, or was not drawn."""
    return isinstance(score, float | int | FailedValue) or _not_drawn(score)


def _column(scores: Sequence[ScoreValue | None]) -> Floats:
    return np.array([score if _is_number(score) else np.nan for score in scores], dtype=float)
