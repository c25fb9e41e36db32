"""A grid is judged in rounds, until a cell is proved within a margin of the best.

What is proved is what all verdicts on these golden queries would say (`evals.stats.proved_choice`): after each round
cells that are proved worse than another are dropped, and the next queries are drawn where the remaining cells differ
and judged only for what these return, and of that for what decides (`evals.grid.drawn_within`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation
from evals.config.judged_sample import Sample
from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.drawn_within import DrawnWithin
from evals.grid.round_scores import RoundScores
from evals.judge.sampling import judging_order, sample_size
from evals.judge.tasks import tasks
from evals.judge.verdicts import Judging, Selected
from evals.metrics.base import Context, Metric, QueryMetric
from evals.stats.proved_choice import FIRST, Proof, begin, expected_bound, look, next_queries
from evals.stats.weighted_draws import Draws, draw_weights

Floats = NDArray[np.float64]
# A round adds this share to the queries that are judged, at least so many.
GROWTH, FEWEST_MORE = 0.15, 3
# Verdicts of which is said what they would buy.
NEXT = 100


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When to end judging in rounds.

    Attributes:
        margin: Once a cell is proved at most so far below the best.
        sample: The most queries that are judged, as `judge.sample` writes it; `auto` is all.
        within: True to draw verdicts within queries, too.
    """

    margin: float
    sample: Sample = "all"
    within: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class CellProof:
    """What the verdicts that were bought prove: how far cells are from the best by all verdicts on these queries.

    Attributes:
        margin: Margin that was asked for.
        draws: [queries, cells], weight of the draw of each query that a cell was judged on, else 0.
        estimated: [queries, cells], of a query of which only a part of what a cell needs was bought, the unbiased
            estimate of the judged metric (`evals.stats.drawn_verdicts`), which may leave 0 to 1; NaN elsewhere.
        remaining: [cells], those that were not dropped.
        within: [cells], 95% upper bound of how far a cell is below the best, simultaneous over cells and looks; NaN for
            a cell that was dropped, and for all where nothing could be compared.
        chosen: The cell that is proved; None where nothing could be compared.
        queries: Number of queries that the remaining cells were judged on; `eligible`, of those that could be.
        questions: Number of distinct questions to the judge; `all_questions`, those about all cells and queries.
        next_within: The bound of the chosen cell that is expected after `NEXT` more verdicts; None where none are left.
    """

    margin: float
    draws: Floats
    estimated: Floats
    remaining: NDArray[np.bool_]
    within: Floats
    chosen: int | None
    queries: int
    eligible: int
    questions: int
    all_questions: int
    next_within: float | None

    @property
    def partly(self) -> int:
        """Number of queries on which estimates stand for the scores of some cells."""
        return int(np.isfinite(self.estimated).any(axis=1).sum())

    @property
    def is_by_verdicts(self) -> bool:
        """True if no estimate stands for a score of the chosen cell."""
        return self.chosen is not None and not np.isfinite(self.estimated[:, self.chosen]).any()


def judge_until_proved(
    ask: Callable[[Sequence[Observation]], Judging],
    stop: Stop,
    metrics: Mapping[str, Metric],
    objective: ObjectiveConfig,
    grid: Grid,
    context: Context,
    cheaper: Judging | None = None,
) -> tuple[Judging, CellProof]:
    """Judge round by round until a cell is proved within a margin of the best, or nothing is left to judge.

    Args:
        ask: Gets the verdicts on some results.
        stop: When to end.
        metrics: Metrics of the run; those that need no judge are passed over.
        objective: What is optimised, with at least one judged metric.
        grid: The cells, scored by the metrics of the objective that need no judge and the proxies of those that do.
        context: Inputs of the metrics, without verdicts.
        cheaper: Of a cascade, the verdicts of the other tiers on everything, which foretell those of `ask`.

    Raises:
        JudgeError: The very first call was refused for a reason that all others would share.
    """
    seed = context.seed
    order = judging_order((o.case for o in grid.configurations[0].observed.observations), seed)
    scores = RoundScores(metrics, objective, grid, context, order, cheaper)
    total, everyone = len(scores.rows), np.ones(len(grid), dtype=np.bool_)
    most = sample_size("all" if stop.sample == "auto" else stop.sample, total)
    rounds = begin(tuple(range(min(FIRST, most))), total, len(grid))
    judging, proof, judged_on = None, None, np.zeros(len(grid), dtype=np.int64)
    within, first, asked = (
        DrawnWithin(scores, metrics, seed, allowed=stop.within),
        rounds.draws.queries,
        set[tuple[str, str, Selected]](),
    )
    done, whole = 0, False
    while True:
        drawn, alive = np.array(rounds.draws.queries, dtype=np.int64), _mask(rounds.remaining, len(grid))
        results = within.results(drawn[done:], alive, whole=whole)
        asked |= {(task.metric, task.case_id, task.chunk_ids) for task in tasks(metrics, results)}
        judged = ask(results)
        judging = judged if judging is None else judging.with_more(judged)
        if judging.incomplete and done:
            # A part of a round is no random sample: what was bought of it stays in the store for the next run.
            rounds = replace(rounds, draws=rounds.draws.beginning(done))
            break
        within.add(drawn if whole else drawn[done:], alive, judging, first, whole=whole)
        if not done:
            scores.weigh(drawn)
        done = len(drawn)
        judged_on[alive] = done
        if judging.incomplete:
            break
        rounds, proof = look(
            rounds,
            scores.judged(rounds),
            scores.proxy,
            scores.returned,
            margin=stop.margin,
            seed=seed,
            errors=within.errors,
        )
        own = scores.returned.of(np.array(rounds.remaining))
        decided = done >= most or not own.decides[rounds.draws.left].any()
        if proof.bound <= stop.margin or (decided and not within.is_partial):
            break
        if not decided:
            within.plan(rounds, proof, stop.margin, first, judging)
            favoured = within.buying.favoured if within.buying else None
            more = min(most - done, max(FEWEST_MORE, ceil(GROWTH * done)))
            rounds = next_queries(rounds, scores.returned, more, seed, favoured)
        # In the end what was left of the drawn queries is bought: then nothing but other queries is uncertain.
        whole = decided or len(rounds.draws.queries) >= most
    if proof is not None and within.is_partial and not judging.incomplete:
        # The chosen cell is reported by verdicts alone.
        rest = within.left_of(proof.chosen)
        asked |= {(task.metric, task.case_id, task.chunk_ids) for task in tasks(metrics, rest)}
        judging = judging.with_more(ask(rest))
    bounds = np.full(len(grid), np.nan)
    if proof is not None:
        bounds[list(proof.cells)] = proof.regret
        bounds[~_mask(rounds.remaining, len(grid))] = np.nan
    weights = _weights(rounds.draws, judged_on)
    sample = frozenset(key for key, drawn_for in zip(scores.case_ids, weights, strict=True) if drawn_for.any())
    return replace(judging, drawn=sample, below=cheaper), CellProof(
        margin=stop.margin,
        draws=_of_all(weights, scores.rows, grid, 0.0),
        estimated=_of_all(_estimated(scores, within, judging, proof), scores.rows, grid, np.nan),
        remaining=_mask(rounds.remaining, len(grid)),
        within=bounds,
        chosen=None if proof is None else proof.chosen,
        queries=done,
        eligible=total,
        questions=len(asked),
        all_questions=count_questions(metrics, scores.results(np.arange(total), everyone)),
        next_within=None if proof is None or done == total else expected_bound(rounds, proof, scores.returned, NEXT),
    )


def known_without_a_judge(metrics: Mapping[str, Metric], objective: ObjectiveConfig) -> dict[str, Metric]:
    """Return what rounds of judging read besides verdicts: proxies, and metrics of the objective without a judge."""
    chosen = [metrics[name] for name in objective.metrics]
    proxies = [m.proxy for m in chosen if isinstance(m, QueryMetric) and m.proxy is not None]
    return {metric.name: metric for metric in (*chosen, *proxies) if not metric.is_judged}


def count_questions(metrics: Mapping[str, Metric], results: Sequence[Observation]) -> int:
    """Return the number of distinct questions to the judge about results."""
    return sum(1 for _ in tasks(metrics, results))


def _mask(cells: Sequence[int], count: int) -> NDArray[np.bool_]:
    mask = np.zeros(count, dtype=np.bool_)
    mask[list(cells)] = True
    return mask


def _weights(draws: Draws, judged_on: NDArray[np.int64]) -> Floats:
    """Return the weights of the draws [N, cells], 1 on average over the queries that a cell was judged on.

    Args:
        draws: All of them.
        judged_on: [cells], the number of draws until a cell was dropped.
    """
    weights = np.zeros((draws.total, len(judged_on)))
    for n in np.unique(judged_on).tolist():
        beginning, cells = draws.beginning(n), judged_on == n
        own = draw_weights(beginning)
        # By their own sum (Hájek, 1971): weights that are all alike then are 1, as those of a plain sample.
        weights[np.ix_(list(beginning.queries), cells)] = (own / own.mean())[:, None]
    return weights


def _estimated(scores: RoundScores, within: DrawnWithin, judging: Judging, proof: Proof | None) -> Floats:
    """Return the estimates [N, cells] of the judged metric that are still needed, NaN elsewhere.

    A cell needs none if all its verdicts were bought, as are those of the chosen one unless the budget ended before.
    """
    estimated = within.estimated.copy()
    rows = np.flatnonzero(~np.isnan(estimated).all(axis=1))
    by_verdicts = scores.scored(rows, np.ones(scores.proxy.shape[1], dtype=np.bool_), judging)
    whole = ~(np.isnan(by_verdicts) & ~np.isnan(estimated[rows])).any(axis=0)
    if proof is not None and not judging.incomplete:
        whole[proof.chosen] = True
    estimated[:, whole] = np.nan
    return scores.of_the_judge(estimated)


def _of_all(values: Floats, rows: NDArray[np.int64], grid: Grid, other: float) -> Floats:
    """Return values [rows, cells] as values [all queries, cells]."""
    every = np.full((len(grid.query_ids), len(grid)), other)
    every[rows] = values
    return every
