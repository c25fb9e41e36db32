"""Which queries are judged: all, a sample, as many as intervals need, or as many as prove a cell near the best.

Queries are judged as a whole, in one random order that is the same for every cell (`evals.sampling.order`). So the
queries that are judged first are a random sample. If a cheap judge stands below the one that counts, it judges
everything first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evals.collect.observations import Failure, Unscored
from evals.config.experiment import ObjectiveConfig
from evals.grid.cells import Grid
from evals.judge.judge import Judge
from evals.judge.tasks import tasks
from evals.judge.verdicts import Judging
from evals.metrics.declaration import Context, Metric, QueryMetric
from evals.metrics.llm import can_be_judged
from evals.metrics.proxies import foretelling
from evals.sampling.order import among, judging_order, sample_size
from evals.sampling.rounds import Rounds, Unjudged, judge_in_rounds, queries_needed
from evals.stats.best import planned_looks
from evals.stats.intervals import Bools, Floats, Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class CellProof(Rounds):
    """Proof by the bought verdicts, with their number: bounds on how far each cell is below the best of these queries.

    Attributes:
        judge: The model that judged.
        judged: [queries, cells], whether a cell was judged on a query.
        verdicts: Number of distinct verdicts that the judge gave.
        failed: Number of distinct verdicts that failed.
        all_questions: Number of distinct questions about all cells and queries.
        stopped: Reason why the judge was asked no further, such as a spent budget; empty if there is none.
    """

    judge: str
    judged: Bools
    verdicts: int
    failed: int
    all_questions: int
    stopped: str


def judge_sample(judge: Judge, metrics: Mapping[str, Metric], grid: Grid, context: Context) -> Judging:
    """Judge all results of the queries that `judge.sample` asks for.

    Args:
        judge: The judge with its settings.
        metrics: Metrics of the run. Those that need no judge are skipped.
        grid: The cells.
        context: Inputs of the metrics, without verdicts.

    Raises:
        JudgeError: The very first call was refused for a reason that all others would share.
    """
    results, _ = grid.laid_out()
    observations, sample = list(results.observations()), judge.config.sample
    order = judging_order(grid.pool.cases, context.seed)
    size = sample_size(sample, len(order))
    if size == len(order):
        return judge.judge(metrics, observations, context.seed)
    ask = partial(judge.judge, metrics, seed=context.seed)
    done, judging = size, ask(among(order[:size], observations))
    # The cheap judge comes second: if the budget ends, its verdicts are missing, and labels stand in for them.
    below = judge.below.judge(metrics, observations, context.seed) if judge.below else None
    for n in planned_looks(len(order))[1:] if sample == "auto" else ():
        drawn = replace(judging, drawn=frozenset(order[:done]), below=below)
        if drawn.incomplete or _needed(metrics, grid, replace(context, judging=drawn)) <= done:
            break
        judging = judging.with_more(ask(among(order[done:n], observations)))
        done = n
    return replace(judging, drawn=frozenset(order[:done]), below=below)


def _needed(metrics: Mapping[str, Metric], grid: Grid, context: Context) -> int:
    """Return the number of judged queries that `auto` needs for the metric that needs most."""
    below = context.judging.below if context.judging else None
    needed = 0
    for name, metric in metrics.items():
        if isinstance(metric, QueryMetric) and metric.proxy is not None:
            eligible = [can_be_judged(name, case) for case in grid.pool.cases]
            scores, proxy_scores = (grid.matrix(m, context)[eligible] for m in (metric, foretelling(metric, below)))
            if np.isfinite(scores).all(axis=1).any():
                needed = max(needed, queries_needed(scores, proxy_scores))
    return needed


def judge_until_proved(
    judge: Judge, metrics: Mapping[str, Metric], objective: ObjectiveConfig, grid: Grid, context: Context
) -> tuple[Judging, CellProof]:
    """Judge round by round until a cell is proved within a margin of the best, or nothing is left to judge.

    Args:
        judge: The judge with its settings: the margin, and the largest number of queries to judge (`auto` is all).
        metrics: Metrics of the run. Those that need no judge are skipped.
        objective: The objective, with at least one judged metric.
        grid: The cells.
        context: Inputs of the metrics, without verdicts.

    Raises:
        JudgeError: The very first call was refused for a reason that all others would share.
    """
    results, row_of = grid.laid_out()
    observations = list(results.observations())
    below = judge.below.judge(metrics, observations, context.seed) if judge.below else None
    cases, weights = grid.pool.cases, objective.metrics
    optimised = {name: metric for name in weights if isinstance(metric := metrics[name], QueryMetric)}
    judged = {name: metric for name, metric in optimised.items() if metric.proxy is not None}
    unjudged = {name: metric for name, metric in optimised.items() if metric.proxy is None}
    # The queries that can be judged, in the order of judging, and the row of the result that each cell keeps of them.
    judgeable = [case for case in cases if all(can_be_judged(name, case) for name in judged)]
    case_ids = judging_order(judgeable, context.seed)
    places = {case.id: place for place, case in enumerate(cases)}
    order = [places[case_id] for case_id in case_ids]
    result_of = row_of[:, order].T
    judging = Judging(model=judge.chat.label, verdicts={}, scores={}, claims={})

    def buy(rows: Integers, cells: Bools) -> tuple[Floats, bool]:
        nonlocal judging
        distinct, places = np.unique(result_of[rows][:, cells], return_inverse=True)
        judging = judging.with_more(judge.judge(metrics, [observations[r] for r in distinct.tolist()], context.seed))
        asked, with_verdicts = results.at(distinct), replace(context, judging=judging)
        scores = np.sum([weights[name] * m.values(asked, with_verdicts).values for name, m in judged.items()], axis=0)
        return scores[places.reshape(len(rows), -1)], not judging.incomplete

    # The proxy of the objective: of each metric whose proxy scores all results.
    proxy = np.zeros_like(result_of, dtype=float)
    for name, metric in judged.items():
        proxy_scores = foretelling(metric, below).values(results, context).values[result_of]
        if np.isfinite(proxy_scores).all():
            proxy += weights[name] * proxy_scores
    others = np.delete(np.arange(len(cases)), order).tolist()
    alone = _without_judge(grid, unjudged, weights, context)[order + others] if unjudged else None
    span = sum(abs(weights[name]) for name in judged)
    margin, sample = judge.config.stop.margin or 0.0, judge.config.sample
    most = sample_size("all" if sample == "auto" else sample, len(order))
    queries = Unjudged(proxy=proxy, results=result_of, alone=alone, span=span)
    *_, rounds = judge_in_rounds(buy, queries, margin=margin, most=most, seed=context.seed)
    judged_on = np.zeros((len(cases), len(grid)), dtype=np.bool_)
    judged_on[order] = np.arange(len(order))[:, None] < rounds.judged_on
    # A budget may leave questions without an answer; these are no verdicts.
    outcomes: dict[tuple[Any, ...], Any] = {**judging.verdicts, **judging.scores}
    answers = {key: outcome for key, outcome in outcomes.items() if not isinstance(outcome, Unscored)}
    failed = sum(isinstance(answer, Failure) for answer in answers.values())
    proof = CellProof(
        **vars(rounds),
        judge=judging.model,
        judged=judged_on,
        verdicts=len(answers) - failed,
        failed=failed,
        all_questions=sum(1 for _ in tasks(metrics, [observations[row] for row in np.unique(result_of).tolist()])),
        stopped=judging.incomplete,
    )
    return replace(judging, drawn=frozenset(case_ids[: rounds.n]), below=below), proof


def _without_judge(
    grid: Grid, metrics: Mapping[str, QueryMetric], weights: Mapping[str, float], context: Context
) -> Floats:
    """Return the part of the objective that needs no judge, [queries, cells]; its column means add to the value."""
    cases = len(grid.pool.cases)
    part = np.zeros((cases, len(grid)))
    for name, metric in metrics.items():
        scores = grid.matrix(metric, context)
        in_all = np.isfinite(scores).all(axis=1)
        part[in_all] += weights[name] * cases / max(1, in_all.sum()) * scores[in_all]
    return part
