"""A grid is judged in rounds, until a cell is proved within a margin of the best.

What is proved is what all verdicts on these golden queries would say (`evals.stats.proved_choice`). The judged queries
are a beginning of the random order of all, the same for every cell: after each round cells that are proved worse than
another are dropped, and the next queries of that order are judged for what the remaining cells return.
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
from evals.grid.round_scores import RoundScores
from evals.judge.sampling import judging_order, sample_size
from evals.judge.tasks import tasks
from evals.judge.verdicts import Judging, Selected
from evals.metrics.declaration import Context, Metric
from evals.stats.proved_choice import FIRST, Rounds, expected_bound, look

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
    """

    margin: float
    sample: Sample = "all"


@dataclass(frozen=True, kw_only=True, eq=False)
class CellProof:
    """What the verdicts that were bought prove: how far cells are from the best by all verdicts on these queries.

    Attributes:
        margin: Margin that was asked for.
        judged: [queries, cells], the queries that a cell was judged on.
        remaining: [cells], those that were not dropped.
        within: [cells], 95% upper bound of how far a cell is below the best, simultaneous over cells and looks; NaN for
            a cell that was dropped, and for all where nothing could be compared.
        chosen: The cell that is proved; None where nothing could be compared.
        queries: Number of queries that the remaining cells were judged on; `eligible`, of those that could be.
        questions: Number of distinct questions to the judge; `all_questions`, those about all cells and queries.
        next_within: The bound of the chosen cell that is expected after `NEXT` more verdicts; None where none are left.
    """

    margin: float
    judged: NDArray[np.bool_]
    remaining: NDArray[np.bool_]
    within: Floats
    chosen: int | None
    queries: int
    eligible: int
    questions: int
    all_questions: int
    next_within: float | None


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
        grid: The cells.
        context: Inputs of the metrics, without verdicts.
        cheaper: Of a cascade, the verdicts of the other tiers on everything, which foretell those of `ask`.

    Raises:
        JudgeError: The very first call was refused for a reason that all others would share.
    """
    order = judging_order(grid.pool.cases, context.seed)
    scores = RoundScores(metrics, objective, grid, context, order, cheaper)
    total, everyone = len(scores.rows), np.ones(len(grid), dtype=np.bool_)
    most = sample_size("all" if stop.sample == "auto" else stop.sample, total)
    rounds = Rounds(total=total, judged=min(FIRST, most), remaining=tuple(range(len(grid))))
    judging, proof, done = None, None, 0
    judged_on, asked = np.zeros(len(grid), dtype=np.int64), set[tuple[str, str, Selected]]()
    while True:
        more, alive = np.arange(done, rounds.judged), _mask(rounds.remaining, len(grid))
        results = scores.results(more, alive)
        asked |= {(task.metric, task.case_id, task.chunk_ids) for task in tasks(metrics, results)}
        judged = ask(results)
        judging = judged if judging is None else judging.with_more(judged)
        if judging.incomplete and done:
            # A part of a round is no random sample: what was bought of it stays in the store for the next run.
            rounds = replace(rounds, judged=done)
            break
        scores.add(more, alive, judging)
        if not done:
            scores.weigh(more)
        done = rounds.judged
        judged_on[alive] = done
        if judging.incomplete:
            break
        rounds, proof = look(
            rounds, scores.judged(rounds), scores.proxy, scores.returned, margin=stop.margin, seed=context.seed
        )
        own = scores.returned.of(np.array(rounds.remaining))
        if proof.bound <= stop.margin or done >= most or not own.decides[done:].any():
            break
        rounds = replace(rounds, judged=min(most, done + max(FEWEST_MORE, ceil(GROWTH * done))))
    bounds = np.full(len(grid), np.nan)
    if proof is not None:
        bounds[list(proof.cells)] = proof.regret
        bounds[~_mask(rounds.remaining, len(grid))] = np.nan
    judged_rows = np.zeros((len(grid.pool.cases), len(grid)), dtype=np.bool_)
    judged_rows[scores.rows] = np.arange(total)[:, None] < judged_on
    return replace(judging, drawn=frozenset(scores.case_ids[:done]), below=cheaper), CellProof(
        margin=stop.margin,
        judged=judged_rows,
        remaining=_mask(rounds.remaining, len(grid)),
        within=bounds,
        chosen=None if proof is None else proof.chosen,
        queries=done,
        eligible=total,
        questions=len(asked),
        all_questions=count_questions(metrics, scores.results(np.arange(total), everyone)),
        next_within=None if proof is None or done == total else expected_bound(rounds, proof, scores.returned, NEXT),
    )


def count_questions(metrics: Mapping[str, Metric], results: Sequence[Observation]) -> int:
    """Return the number of distinct questions to the judge about results."""
    return sum(1 for _ in tasks(metrics, results))


def _mask(cells: Sequence[int], count: int) -> NDArray[np.bool_]:
    mask = np.zeros(count, dtype=np.bool_)
    mask[list(cells)] = True
    return mask
