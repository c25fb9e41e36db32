"""A grid is judged in rounds of whole queries, until a cell is proved within a margin of the best of these queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evals.collect.observations import Observation
from evals.collect.pool import Bools, Floats, Integers
from evals.config.judged_sample import Sample
from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid, score_cells
from evals.judge.sampling import judging_order, sample_size
from evals.judge.tasks import tasks
from evals.judge.verdicts import Judging, Selected
from evals.metrics.declaration import Context, Metric, QueryMetric
from evals.metrics.llm import can_be_judged
from evals.sampling.rounds import judge_in_rounds

# Verdicts of which is said what they would buy.
NEXT = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class CellProof:
    """What the verdicts that were bought prove: how far cells are from the best by all verdicts on these queries.

    Attributes:
        margin: Margin that was asked for.
        judged: [queries, cells], the queries that a cell was judged on.
        remaining: [cells], those that were not dropped.
        within: [cells], 95% upper bound of how far a cell is below the best, simultaneous over cells and looks; NaN for
            a cell that was dropped, and for all where nothing could be compared.
        users: [cells], those that may be the best of all that users may ask (95%), each by its last look.
        chosen: The cell that is proved; None where nothing could be compared.
        queries: Number of queries that the remaining cells were judged on; `eligible`, of those that could be.
        questions: Number of distinct questions to the judge; `all_questions`, those about all cells and queries.
        next_within: The bound of the chosen cell that is expected after `NEXT` more verdicts; None where none are left.
    """

    margin: float
    judged: Bools
    remaining: Bools
    within: Floats
    users: Bools
    chosen: int | None
    queries: int
    eligible: int
    questions: int
    all_questions: int
    next_within: float | None


def judge_until_proved(
    ask: Callable[[Sequence[Observation]], Judging],
    margin: float,
    sample: Sample,
    metrics: Mapping[str, Metric],
    objective: ObjectiveConfig,
    grid: Grid,
    context: Context,
    cheaper: Judging | None = None,
) -> tuple[Judging, CellProof]:
    """Judge round by round until a cell is proved within a margin of the best, or nothing is left to judge.

    Args:
        ask: Gets the verdicts on some results.
        margin: Once a cell is proved at most so far below the best, judging ends.
        sample: The most queries that are judged, as `judge.sample` writes it; `auto` is all.
        metrics: Metrics of the run; those that need no judge are passed over.
        objective: What is optimised, with at least one judged metric.
        grid: The cells.
        context: Inputs of the metrics, without verdicts.
        cheaper: Of a cascade, the verdicts of the cheap judge on everything, which foretell those of `ask`.

    Raises:
        JudgeError: The very first call was refused for a reason that all others would share.
    """
    results, row_of = grid.laid_out()
    observations, places = list(results.observations()), {case.id: row for row, case in enumerate(grid.pool.cases)}
    rows_of = _Objective(metrics, objective, grid, context)
    order = [places[key] for key in judging_order(grid.pool.cases, context.seed)]
    order = [row for row in order if all(can_be_judged(name, grid.pool.cases[row]) for name in rows_of.judged)]
    kept = row_of[:, order].T
    labelled = rows_of.proxy[kept] + rows_of.known
    proxy = labelled
    if cheaper:
        by_judge = rows_of.scores(np.arange(len(results)), cheaper)[kept] + rows_of.known
        proxy = np.where(np.isnan(by_judge), labelled, by_judge)
    asked, bought = set[tuple[str, str, Selected]](), list[Judging]()

    def look(rows: Integers, cells: Bools) -> tuple[Floats, bool]:
        needed, which = np.unique(kept[rows][:, cells], return_inverse=True)
        wanted = [observations[row] for row in needed.tolist()]
        asked.update((task.metric, task.case_id, task.chunk_ids) for task in tasks(metrics, wanted))
        said = ask(wanted)
        bought.append(bought[-1].with_more(said) if bought else said)
        own = rows_of.scores(needed, bought[-1])[which.reshape(len(rows), -1)]
        return own + rows_of.known[cells], not bought[-1].incomplete

    total, most = len(order), sample_size("all" if sample == "auto" else sample, len(order))
    span = sum(abs(weight) for name, weight in objective.metrics.items() if name in rows_of.judged)
    rounds = judge_in_rounds(look, proxy, margin=margin, most=most, results=kept, span=span, seed=context.seed)
    judged = np.zeros((len(grid.pool.cases), len(grid)), dtype=np.bool_)
    judged[order] = np.arange(total)[:, None] < rounds.judged_on
    drawn = frozenset(grid.pool.cases[row].id for row in order[: rounds.n])
    left = np.unique(kept[rounds.n :][:, rounds.remaining])
    expected = None
    if rounds.chosen is not None and rounds.n < total:
        per_query = sum(1 for _ in tasks(metrics, [observations[row] for row in left.tolist()])) / (total - rounds.n)
        then = min(total, rounds.n + NEXT / max(1.0, per_query))
        shrink = (1 / then - 1 / total) / (1 / rounds.n - 1 / total)
        expected = float(rounds.within[rounds.chosen] * np.sqrt(shrink))
    return replace(bought[-1], drawn=drawn, below=cheaper), CellProof(
        margin=margin,
        judged=judged,
        remaining=rounds.remaining,
        within=rounds.within,
        users=rounds.users,
        chosen=rounds.chosen,
        queries=rounds.n,
        eligible=total,
        questions=len(asked),
        all_questions=sum(1 for _ in tasks(metrics, [observations[row] for row in np.unique(kept).tolist()])),
        next_within=expected,
    )


class _Objective:
    """The objective of results, in its part that a judge grades, by labels, and of cells in what needs no judge.

    Attributes:
        judged: The judged metrics by name.
        known: [cells], what needs no judge.
        proxy: [results], what the proxies say; 0 of a proxy that does not score every result.
    """

    def __init__(self, metrics: Mapping[str, Metric], objective: ObjectiveConfig, grid: Grid, context: Context) -> None:
        self._weights, self._context = objective.metrics, context
        self._results, _ = grid.laid_out()
        chosen = {name: m for name in objective.metrics if isinstance(m := metrics[name], QueryMetric)}
        self.judged = {name: metric for name, metric in chosen.items() if metric.proxy is not None}
        alone = score_cells(grid, {name: m for name, m in chosen.items() if m.proxy is None}, context)
        known = (self._weights[name] * scores.common for name, scores in alone.items())
        self.known: Floats = sum(known, start=np.zeros(len(grid)))
        self.proxy = np.zeros(len(self._results))
        eligible = self._results.by_case(lambda case: all(can_be_judged(name, case) for name in self.judged))
        for name, metric in self.judged.items():
            assert metric.proxy is not None
            values = metric.proxy.values(self._results, context).values
            if not np.isnan(values[eligible]).any():
                self.proxy += self._weights[name] * np.nan_to_num(values)

    def scores(self, rows: Integers, judging: Judging) -> Floats:
        """Return the judged part of some results by verdicts; NaN where one is missing."""
        context, part = replace(self._context, judging=judging), self._results.at(rows)
        values = np.zeros(len(rows))
        for name, metric in self.judged.items():
            values += self._weights[name] * metric.values(part, context).values
        return values
