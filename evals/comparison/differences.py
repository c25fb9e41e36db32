"""Metrics of two runs side by side, of judged samples too. Pure and seeded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from statistics import fmean

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


@dataclass(frozen=True, kw_only=True)
class _Scores:
    """A metric's scores of the same queries in both runs; None where a run does not have the metric for a query."""

    ids: tuple[str, ...]
    baseline: tuple[ScoreValue | None, ...]
    other: tuple[ScoreValue | None, ...]


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
    scores = _scores(metric, pairing)
    if any(score is not None for score in (*scores.baseline, *scores.other)):
        return _paired(empty, scores, pairing, seed)
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


def _scores(metric: str, pairing: Pairing) -> _Scores:
    return _Scores(
        ids=tuple(a.id for a, _ in pairing.rows),
        baseline=tuple(score_of(a, metric) for a, _ in pairing.rows),
        other=tuple(score_of(b, metric) for _, b in pairing.rows),
    )


def _paired(empty: Difference, scores: _Scores, pairing: Pairing, seed: int) -> Difference:
    both = [(a, b) for a, b in zip(scores.baseline, scores.other, strict=True) if _number(a) and _number(b)]
    rows = list(zip(scores.ids, scores.baseline, scores.other, strict=True))
    dropped = replace(
        empty,
        only_baseline=tuple(i for i, a, b in rows if _number(a) and not _number(b) and not _not_drawn(b)),
        only_other=tuple(i for i, a, b in rows if _number(b) and not _number(a) and not _not_drawn(a)),
        failed=tuple(i for i, a, b in rows if isinstance(a, FailedValue) or isinstance(b, FailedValue)),
    )
    if not both:
        reasons = [*_reasons(scores.baseline), *_reasons(scores.other), "they are over other queries"]
        return replace(dropped, note=f"no query is scored in both: {reasons[0]}")
    if any(map(_not_drawn, (*scores.baseline, *scores.other))):
        return _of_samples(dropped, scores, pairing, seed)
    result = paired.compare([a for a, _ in both], [b for _, b in both], seed)  # type: ignore[misc]
    return replace(
        dropped,
        baseline=result.baseline,
        other=result.other,
        paired=result,
        worst=_worst(dropped, scores),
        note=result.interval.note,
    )


def _of_samples(dropped: Difference, scores: _Scores, pairing: Pairing, seed: int) -> Difference:
    """Compare a judged metric of which a run judged a sample of the queries."""
    result, note = _sampled_difference(dropped.metric, scores.baseline, scores.other, pairing, seed)
    worst = None
    if dropped.failed:
        first, second = zip(*_filled(dropped, scores), strict=True)
        worst = _sampled_difference(dropped.metric, first, second, pairing, seed)[0].difference
    return replace(
        dropped,
        baseline=result.baseline,
        other=result.other,
        paired=result,
        worst=worst,
        note="; ".join(filter(None, (note, result.interval.note))),
    )


def _filled(difference: Difference, scores: _Scores) -> list[tuple[ScoreValue | None, ScoreValue | None]]:
    """Return both runs' scores, every failed one at its end of [0, 1] that is worst for the other run."""
    best, worst = (0.0, 1.0) if difference.better == "lower" else (1.0, 0.0)
    return [
        (best if isinstance(a, FailedValue) else a, worst if isinstance(b, FailedValue) else b)
        for a, b in zip(scores.baseline, scores.other, strict=True)
    ]


def _worst(difference: Difference, scores: _Scores) -> float | None:
    """Return the mean difference with every failed score at its end of [0, 1] that is worst for the other run.

    None when none failed, and for scores that may lie beyond these ends.
    """
    numbers = [score for score in (*scores.baseline, *scores.other) if isinstance(score, float | int)]
    if not difference.failed or min(numbers) < -SAME or max(numbers) > 1 + SAME:
        return None
    filled = _filled(difference, scores)
    values = [(a, b) for a, b in filled if isinstance(a, float | int) and isinstance(b, float | int)]
    return fmean(b - a for a, b in values)


def _number(score: ScoreValue | None) -> bool:
    return isinstance(score, float | int)


def _reasons(scores: Sequence[ScoreValue | None]) -> list[str]:
    return [
        score.reason if isinstance(score, Unscored) else score.failed
        for score in scores
        if isinstance(score, Unscored | FailedValue)
    ]


def _not_drawn(score: ScoreValue | None) -> bool:
    """Return True for a query that a run left out of the sample that it judged."""
    return isinstance(score, Unscored) and score.reason == NOT_DRAWN.reason


def _sampled_difference(
    metric: str,
    baseline: Sequence[ScoreValue | None],
    other: Sequence[ScoreValue | None],
    pairing: Pairing,
    seed: int,
) -> tuple[Paired, str]:
    """Compare a metric on the queries scored in both runs, corrected by what foretells it where both reports hold that.

    Args:
        metric: Name of the metric.
        baseline: Scores of the paired queries in the first run.
        other: Scores of the same queries in the other; at least one is scored in both.
        pairing: The queries.
        seed: Seed of the drawn signs.

    Returns:
        The comparison, and how many queries were judged and how the difference was corrected.
    """
    kept = [(a, b, rows) for a, b, rows in zip(baseline, other, pairing.rows, strict=True) if _counts(a) and _counts(b)]
    judged = _column([a for a, _, _ in kept]), _column([b for _, b, _ in kept])
    rows = [pair for _, _, pair in kept]
    first, second = ([run.proxies.get(metric) for run in runs] for runs in zip(*rows, strict=True))
    result, weight = sampled_difference(judged, (_column(first), _column(second)), seed)
    how = f"corrected by what foretells the judge, weight {weight:.2f}" if weight else "the judged queries alone"
    return result, f"judged in both: {result.n} of {len(kept)} queries, {how}"


def _counts(score: ScoreValue | None) -> bool:
    """Return True for a query that the mean stands for: it is scored, failed, or was not drawn."""
    return isinstance(score, float | int | FailedValue) or _not_drawn(score)


def _column(scores: Sequence[ScoreValue | None]) -> Floats:
    return np.array([score if isinstance(score, float | int) else np.nan for score in scores], dtype=float)
