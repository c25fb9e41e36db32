"""The choice of a cell: the objective of each query, the cells that may be the best, the recommendation. Pure, seeded.

The choice makes two statements and never mixes them. *Of these queries*, it says how far the chosen cell is below the
best: as measured if all queries are judged, else as judging in rounds proved. *Of all that users may ask*, it says
which cells may be the best, and how far each cell may be below the best. Both hold at 95% for all cells together
(`evals.stats.best`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evals.config.experiment import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.objective import TOKENS, Ranking
from evals.metrics import metric_named
from evals.metrics.declaration import Context, QueryMetric
from evals.sampling.rounds import Rounds
from evals.stats import intervals as stats
from evals.stats.best import compare_with_best, with_unseen
from evals.stats.intervals import FEWEST, SAME, Bools, Floats, Integers, Interval, Pair

# Scores are compared to these decimals: ragas' perfect precision is 1 − 1e-10 / relevant, which must equal 1.
DECIMALS = 9
# A cell is cheaper if it costs at most so much of the other's tokens: less is no reason to give up quality.
CHEAPER = 0.95


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveScores:
    """The objective of each query in each cell. The mean of a column is the value of the cell.

    Attributes:
        values: [queries, cells], finite; more is better.
        strata: [queries], the number of each query's stratum. Queries of a stratum are exchangeable. The sizes of the
            strata are fixed, not drawn.
        bounds: Lowest and highest possible value of each query, [queries] each; None if no metric has bounds.
        judged: Number of queries that the judge saw, if it saw a sample of them; else None.
        ends: Ends of the intervals that runs of the cells have, [cells] each, if the objective is a single metric of
            which a sample was judged. Else None, and the intervals are those of the columns' means.
    """

    values: Floats
    strata: Integers
    bounds: Pair | None = None
    judged: int | None = None
    ends: Pair | None = None

    @property
    def span(self) -> float:
        """The largest possible difference of two cells on one query; without bounds, the largest that was seen."""
        if self.bounds is None:
            return float(np.ptp(self.values, axis=1).max())
        return float((self.bounds[1] - self.bounds[0]).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """What decides between cells besides the objective.

    Attributes:
        cost: [cells], mean context tokens.
        threshold: [cells], the threshold; 0 where none is in force.
        allowed: [cells], whether the cell meets the constraints.
        strict_is_good: False without out-of-scope queries. The gain of a stricter threshold is then not measured, so
            that the tokens which it saves are no reason to take it.
    """

    cost: Floats
    threshold: Floats
    allowed: Bools
    strict_is_good: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Value and bounds of a cell, or of several cells that scored the same on every query.

    Attributes:
        cell: Number of the cell in the grid. Of equal cells it is the preferred one.
        members: Numbers of all cells that scored the same on every query; `cell` is the first.
        cost: Mean context tokens of `cell`.
        value: Mean of the objective.
        interval: 95% interval of `value`, for this cell alone.
        in_set: True if the cell may be the best of all that users may ask (95%, for all cells together).
        lower: Lower bound on (this cell − the best of all that users may ask), at most 0; 95% for all cells together.
            None if not computable.
    """

    cell: int
    members: tuple[int, ...]
    cost: float = 0.0
    value: float
    interval: Interval = field(default_factory=Interval)
    in_set: bool
    lower: float | None = None

    def is_within(self, margin: float) -> bool:
        """Return True if the bound says that the cell is at most `margin` below the best."""
        return self.lower is not None and self.lower >= -margin


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Recommended cell, with the evidence for it.

    Attributes:
        margin: Largest loss against the best cell that the recommended one may have, in units of the objective.
        n: Number of queries with the objective.
        standings: The cells that meet the constraints. `best` comes first, then the higher value.
        recommended: The cheapest standing whose bound is within the margin, if it is cheaper than `best`; else `best`.
        note: Reason why the set and the bounds are not computable; empty if they are.
        judged: Number of queries that the judge saw, if it saw a sample of them; else None.
    """

    margin: float
    n: int = 0
    standings: tuple[Standing, ...]
    recommended: Standing
    note: str = ""
    judged: int | None = None

    @property
    def best(self) -> Standing:
        """The best cell as measured; for a judged sample, by corrected means."""
        return self.standings[0]

    @property
    def may_be_best(self) -> list[int]:
        """The 95% confidence set of best cells, in the order of `standings`; all of them if it is not computable."""
        return [cell for standing in self.standings if standing.in_set for cell in standing.members]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """The recommended cell on queries that had no part in the choice: the unbiased figure.

    Attributes:
        value: Mean of the objective on the held-out queries.
        n: Number of held-out queries.
        interval: 95% interval of `value`.
        chosen_on: Mean of the objective on the queries that the cell was chosen on.
        judged: Number of held-out queries that the judge saw, if it saw a sample of them; else None.
    """

    value: float
    n: int
    interval: Interval
    chosen_on: float
    judged: int | None = None


def decide(
    grid: Grid, ranking: Ranking, objective: ObjectiveConfig, context: Context, proof: Rounds | None
) -> Choice | None:
    """Choose a cell of a grid.

    Args:
        grid: The grid.
        ranking: The cells by the objective, and which of them meet the constraints.
        objective: Metrics to optimise, and the largest loss against the best that a cheaper cell may have.
        context: Inputs of the metrics, among them the verdicts. Its seed is that of the simulated deviations.
        proof: What the bought verdicts prove of these queries, if judging ended with a proof; else None. The proved
            cell is the best. A cheaper cell is recommended only if it is proved within the margin as well. A cell that
            judging dropped is not recommended, but may be the best for users.

    Returns:
        The choice; None if cells are not ranked.
    """
    if ranking.reason:
        return None
    cells = Cells(
        cost=grid.metrics[TOKENS].mean,
        threshold=grid.threshold_of,
        allowed=ranking.allowed,
        strict_is_good=not all(case.in_scope for case in grid.pool.cases),
    )
    scores = objective_scores(grid, objective, context)
    return choose(scores, cells, margin=objective.margin, seed=context.seed, proof=proof)


def choose(scores: ObjectiveScores, cells: Cells, *, margin: float, seed: int, proof: Rounds | None) -> Choice:
    """Choose the best cell, the confidence set of best cells, and the cheapest cell proved to be within the margin.

    Args:
        scores: The objective of every query in every cell.
        cells: Facts of the cells, in the order of the columns of `scores`; at least one cell is allowed.
        margin: Largest loss against the best that a cheaper cell may have, in units of the objective.
        seed: Seed of the simulated deviations.
        proof: As in `decide`. It decides which cells may be the best for users, each by the last look at the cell.
    """
    # Cells that miss a constraint are left out: as rivals they would only widen the set. Of equal cells the least
    # strict is preferred: a stricter threshold saved little on these queries, and leaves out more on others.
    preference = np.lexsort((cells.cost, cells.threshold))
    groups = _group_equal(scores.values, preference[cells.allowed[preference]])
    first = [group[0] for group in groups]
    ends = None if scores.ends is None else (scores.ends[0][first], scores.ends[1][first])
    distinct = replace(scores, values=np.take(scores.values, first, axis=1), ends=ends)

    # Means within SAME are equal: rounding must not override the preference.
    mean = distinct.values.mean(axis=0)
    best = int((mean >= mean.max() - SAME).argmax())
    if proof is not None:
        best = next((index for index, group in enumerate(groups) if proof.chosen in group), best)

    in_set, lower = np.ones(len(groups), dtype=np.bool_), np.full(len(groups), np.nan)
    queries = distinct.judged or len(distinct.values)
    note = f"not computable: {queries} queries are too few, {FEWEST} are needed" if queries < FEWEST else ""
    if not note:
        in_set, lower = _compare(distinct, np.array([len(group) > 1 for group in groups]), seed)
    if proof is not None:
        in_set = np.array([proof.users[list(group)].any() for group in groups])

    standings = [
        Standing(
            cell=group[0],
            members=group,
            cost=float(cells.cost[group[0]]),
            value=float(mean[index]),
            interval=interval,
            in_set=bool(in_set[index]),
            lower=None if note else float(lower[index]),
        )
        for index, (group, interval) in enumerate(zip(groups, _intervals(distinct), strict=True))
    ]
    # The preferred best stands first, even if another mean is larger by rounding.
    leader = standings.pop(best)
    standings.sort(key=lambda standing: -standing.value)
    return Choice(
        margin=margin,
        n=len(scores.values),
        standings=(leader, *standings),
        recommended=_recommend(leader, standings, cells, margin, proof),
        note=note,
        judged=scores.judged,
    )


def _compare(scores: ObjectiveScores, is_tied: Bools, seed: int) -> tuple[Bools, Floats]:
    """Return which cells may be the best of all that users may ask, and the lower bounds on (cell − best); [cells].

    Args:
        scores: The objective in cells that differ from each other.
        is_tied: [cells], whether further cells have the same scores as this one.
        seed: Seed of the simulated deviations.
    """
    span, values = scores.span, scores.values
    compared = compare_with_best(values, span=span, strata=scores.strata, judged=scores.judged, seed=seed)
    # Cells with equal scores on these queries may differ on others: their bound counts a query that was not seen.
    zeros = np.zeros(len(is_tied))
    difference, error = with_unseen(zeros, zeros, len(values), span, times=compared.unseen)
    lower_if_tied = np.where(is_tied & compared.members, difference - compared.quantiles * error, np.nan)
    # No cell can be further below another one than the objective reaches.
    least = -np.inf if scores.bounds is None else -float((scores.bounds[1] - scores.bounds[0]).mean())
    return compared.members, np.maximum(np.fmin(compared.lower, lower_if_tied), least)


def _recommend(
    best: Standing, others: Sequence[Standing], cells: Cells, margin: float, proof: Rounds | None
) -> Standing:
    """Return the cheapest cell within the margin, of equally cheap ones the better; the best if none is cheaper."""
    cheaper = [other for other in others if other.cost <= CHEAPER * best.cost and other.is_within(margin)]
    if not cells.strict_is_good:
        cheaper = [other for other in cheaper if cells.threshold[other.cell] <= cells.threshold[best.cell]]
    cheaper = [other for other in cheaper if _is_proved(other, proof)]
    return min(cheaper, key=lambda standing: (standing.cost, -standing.value), default=best)


def _is_proved(standing: Standing, proof: Rounds | None) -> bool:
    """Return True unless judging ended with a proof that leaves this standing out."""
    return proof is None or proof.chosen is None or bool((proof.within[list(standing.members)] <= proof.margin).any())


def held_out(choice: Choice, scores: ObjectiveScores) -> HeldOut:
    """Return the value of the recommended cell on held-out queries.

    On the queries that made a cell the best of many, its value is too high. On other queries it is unbiased.

    Args:
        choice: The choice, made on other queries (the split `dev`).
        scores: The objective of the held-out queries (the split `test`), in the recommended cell alone.
    """
    value, n, interval = float(scores.values.mean()), len(scores.values), _intervals(scores)[0]
    return HeldOut(value=value, n=n, interval=interval, chosen_on=choice.recommended.value, judged=scores.judged)


def objective_scores(grid: Grid, objective: ObjectiveConfig, context: Context) -> ObjectiveScores:
    """Return the objective of every query in every cell."""
    metrics = [metric for name in objective.metrics if isinstance(metric := metric_named(name), QueryMetric)]
    samples = {metric.name: sample for metric in metrics if (sample := grid.metrics[metric.name].sample)}
    values = {name: sample.comparable for name, sample in samples.items()}
    values |= {metric.name: grid.matrix(metric, context) for metric in metrics if metric.name not in samples}
    # What corrects a sample leaves the ranges.
    scores = combine(objective.metrics, values, ranges=() if samples else [metric.range for metric in metrics])
    if not samples:
        return scores
    [first, *_] = samples.values()
    ends = first.ends if [*objective.metrics.values()] == [1.0] else None
    return replace(scores, judged=min(grid.metrics[name].n_common for name in samples), ends=ends)


def combine(
    weights: Mapping[str, float], scores: Mapping[str, Floats], ranges: Sequence[tuple[float, float]]
) -> ObjectiveScores:
    """Return the weighted sum of metrics as a value for each query and cell.

    The mean of a column is the weighted sum of the metrics' means. Metrics may be over different queries (in scope, out
    of scope): a metric over n of all N queries counts N/n times its weight on each of the n. A query that some cells
    score and others do not is dropped, as it would favour the cells without a score. A query that no cell scores by a
    metric has no part in that metric.

    Args:
        weights: Metric to weight. A metric of which less is better has a negative weight.
        scores: Metric to scores [queries, cells], NaN where a query has none; all over the same queries and cells.
        ranges: The range of each metric; an end that is not finite is the least or largest score that was seen. Without
            ranges, or if none is finite, the sum has no bounds.
    """
    gaps = [np.isnan(scores[metric]) for metric in weights]
    is_partial = np.any([gap.any(axis=1) & ~gap.all(axis=1) for gap in gaps], axis=0)
    has_score = np.stack([~gap.all(axis=1) & ~is_partial for gap in gaps], axis=1)
    rows = np.asarray(has_score.any(axis=1))
    has_score = has_score[rows]
    # [queries, metrics], by what the score of a query is multiplied.
    factors = has_score * np.array([*weights.values()]) * len(has_score) / np.maximum(1, has_score.sum(axis=0))
    values = np.zeros((len(has_score), gaps[0].shape[1]))
    for metric, factor in zip(weights, factors.T[:, :, None], strict=True):
        values += np.where(factor == 0, 0.0, scores[metric][rows] * factor)
    bounds = None
    if any(np.isfinite(ends).all() for ends in ranges):
        seen = [(np.nanmin(scores[metric]), np.nanmax(scores[metric])) for metric in weights]
        lows, highs = (factors * ends for ends in np.where(np.isfinite(ranges), ranges, seen).T)
        bounds = np.minimum(lows, highs).sum(axis=1), np.maximum(lows, highs).sum(axis=1)
    return ObjectiveScores(values=values, strata=_strata(has_score), bounds=bounds)


def _strata(has_score: Bools) -> Integers:
    """Number queries by the metrics that score them, [queries]; a kind of fewer than ten joins the largest kind.

    Args:
        has_score: [queries, metrics].
    """
    _, numbers, counts = np.unique(has_score, axis=0, return_inverse=True, return_counts=True)
    strata = numbers.reshape(-1).astype(np.int64)
    return np.where(counts[strata] < FEWEST, counts.argmax(), strata)


def _group_equal(values: Floats, cells: Integers) -> list[tuple[int, ...]]:
    """Group some columns by equal values. Groups, and the columns within one, keep the order of `cells`."""
    groups: dict[bytes, list[int]] = {}
    for column, scores in zip(cells.tolist(), (np.round(values[:, cells], DECIMALS) + 0.0).T, strict=True):
        groups.setdefault(scores.tobytes(), []).append(column)
    return [tuple(group) for group in groups.values()]


def _intervals(scores: ObjectiveScores) -> list[Interval]:
    """Return the 95% interval of every column's mean.

    Strata are independent. The distances from their means to the ends of their intervals add in squares, each weighted
    by the stratum's share of the queries (MOVER, Zou & Donner, 2008).
    """
    mean, bounds = scores.values.mean(axis=0), scores.bounds
    squares = np.zeros((2, len(mean)))
    for stratum in np.unique(scores.strata):
        rows = scores.strata == stratum
        part = scores.values if rows.all() else scores.values[rows]
        floor, ceiling = (0.0, 0.0) if bounds is None else (float(bounds[0][rows].min()), float(bounds[1][rows].max()))
        low, high = stats.mean_intervals(part, shares=bounds is not None, floor=floor, ceiling=ceiling)
        squares += np.nan_to_num(rows.mean() * np.array([part.mean(axis=0) - low, high - part.mean(axis=0)])) ** 2
    below, above = np.sqrt(squares)
    # Where a small kind has joined another, its queries weigh more than their stratum: an end could leave the range.
    least, most = (-np.inf, np.inf) if bounds is None else (round(float(end.mean()), DECIMALS) for end in bounds)
    around = np.clip([mean - below, mean + above], least, most)
    ends = np.where(below + above > 0, around, np.nan) if scores.ends is None else scores.ends
    none = Interval(note=f"not computable: fewer than {FEWEST} values, or all of them are equal")
    return [Interval(low=low, high=high) if np.isfinite(low) else none for low, high in np.transpose(ends).tolist()]


def explain(choice: Choice, name: Callable[[int], str], proof: Rounds | None, *, is_set_told: bool) -> Iterator[str]:
    """Yield lines about a choice: the recommended cell, the best cell if it differs, the reason, the size of the set.

    Args:
        choice: The choice.
        name: Names a cell by its number in the grid, such as `top_k 5, threshold 0.3`.
        proof: As in `decide`.
        is_set_told: True to leave out how many cells may be the best.
    """
    judged = "" if choice.judged is None else f", {choice.judged} of them judged"
    yield f"Recommended: {_describe(choice.recommended, name)} (n={choice.n}{judged})"
    if choice.best is not choice.recommended:
        yield f"Best {_measured(choice)}: {_describe(choice.best, name)}"
    yield f"Reason: {reason(choice, proof)}"
    if not (is_set_told or choice.note):
        allowed = sum(len(standing.members) for standing in choice.standings)
        yield f"Of all that users may ask, {len(choice.may_be_best):,} of {allowed:,} cells may be the best (95%)"


def reason(choice: Choice, proof: Rounds | None) -> str:
    """Return the reason for the recommendation, as a sentence."""
    best, recommended = choice.best, choice.recommended
    if choice.note:
        return f"it is the best {_measured(choice)}; whether a cheaper one is as good is {choice.note}"
    if recommended is not best:
        by = "of these queries" if choice.judged is None else _measured(choice)
        return (
            f"it costs {recommended.cost:,.0f} context tokens instead of {best.cost:,.0f}; {by} it is "
            f"{best.value - recommended.value:.3f} below the best, of all that users may ask at most "
            f"{-(recommended.lower or 0.0):.3f} (95%)"
        )
    behind = f"it is at most {-best.lower:.3f} below the best" if best.lower else "no cell is better"
    is_best = f"it is the best {_measured(choice)} (of all that users may ask {behind}, 95%)"
    cheaper = [standing for standing in choice.standings if standing.cost <= CHEAPER * best.cost]
    if not cheaper:
        return f"{is_best}, and none saves {1 - CHEAPER:.0%} of its tokens"
    if within := [standing for standing in cheaper if standing.is_within(choice.margin)]:
        is_proved = any(_is_proved(standing, proof) for standing in within)
        unproved = "no cheaper one is proved within the margin on these queries"
        strict = "without out-of-scope queries, what a stricter threshold saves is no reason to take it"
        return f"{is_best}; {strict if is_proved else unproved}"
    if max(standing.value for standing in cheaper) <= best.value - choice.margin:
        return f"{is_best}, and every cheaper cell is behind it by {choice.margin:g} or more"
    return f"{is_best}; {choice.n} queries are not enough to prefer a cheaper one"


def _measured(choice: Choice) -> str:
    """Return by which figures the best cell is the best, and of which cells."""
    is_behind = max(standing.value for standing in choice.standings) > choice.best.value + SAME
    proved = " of those proved within the margin" * is_behind  # of judging in rounds
    return "as measured" if choice.judged is None else f"by corrected verdicts{proved}"


def _describe(standing: Standing, name: Callable[[int], str]) -> str:
    """Return a standing in a line: its cells, its value with interval, its cost."""
    more, interval = len(standing.members) - 1, standing.interval
    others = f", and {more:,} more cell{'s' * (more > 1)} with the same scores" if more else ""
    ends = "interval not computable" if interval.low is None else f"{interval.low:.3f} … {interval.high:.3f}"
    return f"{name(standing.cell)}{others} · objective {standing.value:.3f} ({ends}) · {standing.cost:,.0f} tokens"
