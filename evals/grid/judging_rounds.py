"""A grid is judged in rounds, until a cell is proved within a margin of the best.

What is proved is what all verdicts on these golden queries would say: the only error is in verdicts that were not
bought, and with all of them bought it is 0. After each round of queries every cell's mean is corrected by the golden
labels, cells are compared with the best (`evals.stats.compared_with_best`), those that cannot be the best are dropped,
and the next queries are judged only where the remaining cells return something. Looking several times spends the 5%
that a bound may fail: each look gets the same share (Bonferroni), so the bounds hold over all looks together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation
from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.round_scores import RoundScores
from evals.judge.judge import Judge
from evals.judge.sampling import judging_order, sample_size
from evals.judge.tasks import tasks
from evals.judge.verdicts import Judging
from evals.metrics.base import Context, Metric, QueryMetric

Floats = NDArray[np.float64]
# Queries of the first round: a covariance of fewer says little. A later round has a twentieth of all, or five.
FIRST_ROUND, ROUND, FEWEST_MORE = 20, 0.05, 5
ALPHA = 0.05
# Questions of which is said what they would buy.
NEXT = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof:
    """What the verdicts that were bought prove: how far cells are from the best by all verdicts on these queries.

    Attributes:
        margin: Margin that was asked for.
        queries: [cells], number of queries that a cell was judged on.
        drawn: [queries, cells], which queries these are.
        remaining: [cells], those that were not dropped.
        within: [cells], 95% upper bound of how far a cell is below the best, simultaneous over cells and looks; NaN for
            a cell that was dropped, and for all where nothing could be compared.
        eligible: Number of queries that a judge can score.
        questions: Number of distinct questions to the judge; `all_questions`, those about all cells and queries.
        next_within: The least of the bounds that is expected after `NEXT` more questions; None where none are left.
    """

    margin: float
    queries: NDArray[np.int64]
    drawn: NDArray[np.bool_]
    remaining: NDArray[np.bool_]
    within: NDArray[np.float64]
    eligible: int
    questions: int
    all_questions: int
    next_within: float | None


def judge_until_proved(
    judge: Judge, metrics: Mapping[str, Metric], objective: ObjectiveConfig, grid: Grid, context: Context
) -> tuple[Judging, Proof]:
    """Judge round by round until a cell is proved within `judge.stop.margin` of the best, or nothing is left to judge.

    Args:
        judge: Judge with its settings.
        metrics: Metrics of the run; those that need no judge are passed over.
        objective: What is optimised, with at least one judged metric.
        grid: The cells, scored by the metrics of the objective that need no judge and the proxies of those that do.
        context: Inputs of the metrics, without verdicts.

    Raises:
        JudgeError: The very first call was refused for a reason that all others would share.
    """
    margin, seed = judge.config.stop.margin, context.seed
    assert margin is not None
    scores = RoundScores(metrics, objective, grid, context)
    order = judging_order((observation.case for observation in scores.observations), seed)
    row_of = {query_id: row for row, query_id in enumerate(grid.query_ids)}
    rows = np.array([row_of[case_id] for case_id in order], dtype=np.int64)
    ends = round_ends(sample_size("all" if judge.config.sample == "auto" else judge.config.sample, len(order)))
    queries, rng = np.zeros(len(grid), dtype=np.int64), np.random.default_rng(seed)
    remaining, within = np.ones(len(grid), dtype=np.bool_), np.full(len(grid), np.nan)
    judging, questions = None, 0
    for start, end in zip([0, *ends], ends, strict=False):
        results = scores.results(rows[start:end], remaining)
        questions += _count(metrics, results)
        judged = judge.judge(metrics, results, seed)
        judging = judged if judging is None else judging.with_more(judged)
        scores.add(rows[start:end], remaining, judging)
        queries[remaining] = end
        compared = scores.compare(remaining, ALPHA / len(ends), rng)
        if compared is not None:
            within[:] = np.nan
            within[np.flatnonzero(remaining)[compared.candidates]] = compared.regret[compared.candidates]
            remaining[np.flatnonzero(remaining)[~compared.candidates]] = False
        if judging.incomplete or _least(within) <= margin:
            break
    assert judging is not None
    places = np.full(len(grid.query_ids), len(grid.query_ids))
    places[rows] = np.arange(len(rows))
    every = _count(metrics, scores.results(rows, np.ones(len(grid), dtype=np.bool_)))
    further = round(NEXT / max(1.0, questions / queries.max()))
    later = scores.compare(remaining, ALPHA / len(ends), rng, further) if queries.max() < len(order) else None
    return replace(judging, drawn=frozenset(order[: queries.max()])), Proof(
        margin=margin,
        queries=queries,
        drawn=places[:, None] < queries,
        remaining=remaining,
        within=within,
        eligible=int(scores.eligible.sum()),
        questions=questions,
        all_questions=every,
        next_within=None if later is None else float(later.regret.min()),
    )


def known_without_a_judge(metrics: Mapping[str, Metric], objective: ObjectiveConfig) -> dict[str, Metric]:
    """Return what rounds of judging read besides verdicts: proxies, and metrics of the objective without a judge."""
    chosen = [metrics[name] for name in objective.metrics]
    proxies = [m.proxy for m in chosen if isinstance(m, QueryMetric) and m.proxy is not None]
    return {metric.name: metric for metric in (*chosen, *proxies) if not metric.is_judged}


def round_ends(queries: int) -> list[int]:
    """Return after how many of so many queries cells are compared; the last time after all."""
    step = max(FEWEST_MORE, round(ROUND * queries))
    return [*range(min(FIRST_ROUND, queries), queries, step), queries]


def _count(metrics: Mapping[str, Metric], results: Sequence[Observation]) -> int:
    """Return the number of distinct questions to the judge about results."""
    return sum(1 for _ in tasks(metrics, results))


def _least(bounds: Floats) -> float:
    return float(np.nanmin(bounds)) if np.isfinite(bounds).any() else np.inf
