"""The choice of a cell: objective query by query, cells that may be the best, the one recommended. Pure and seeded.

Two statements, never mixed. *Of these queries*: how far the chosen cell is below the best; where all are judged that is
what was measured, else what judging in rounds proved. *Of all that users may ask*: which cells may be the best, and how
far each may be below it, both at 95% for all cells together (`evals.stats.best`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from evals.collect.pool import Bools, Floats, Integers
from evals.config.experiment import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.objective import TOKENS, Ranking, over_all
from evals.metrics import metric_named
from evals.metrics.declaration import SHARE, Context, QueryMetric
from evals.sampling.rounds import Rounds
from evals.stats import intervals as stats
from evals.stats.best import compare_with_best, with_unseen
from evals.stats.intervals import FEWEST, SAME, Interval

Bounds = tuple[Floats, Floats]
# ragas' perfect precision is 1 − 1e-10 / relevant: no difference.
DECIMALS = 9


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveScores:
    """Score to maximise: a column for every cell, whose mean is the cell's value.

    Attributes:
        values: [queries, cells], finite; more is better.
        strata: [queries]; queries of one number are exchangeable, and how many there are of each is no chance.
        bounds: The lowest and the highest possible value of each query; None where there are none.
        dropped: Queries left out because some cells score them and others do not.
        judged: Number of queries that a judge saw, where it saw a sample of them; else None.
        ends: The intervals [cells] that runs of the cells have, where the objective is a single metric of which a
            sample was judged; else None, and intervals are those of the values' means.
    """

    values: Floats
    strata: Integers
    bounds: Bounds | None = None
    dropped: int = 0
    judged: int | None = None
    ends: Bounds | None = None

    @property
    def span(self) -> float:
        """The largest difference of two cells on one query; the largest seen where there are no bounds."""
        if self.bounds is None:
            return float(np.ptp(self.values, axis=1).max())
        return float((self.bounds[1] - self.bounds[0]).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cells of a grid.

    Attributes:
        cost: [cells], mean context tokens.
        threshold: [cells], below which a chunk is left out; 0 where none is in force.
        allowed: [cells], whether it meets the constraints.
        strict_is_good: False without out-of-scope queries: what a stricter threshold is good for is not seen, so that
            the tokens that it saves are no reason to take it.
    """

    cost: Floats
    threshold: Floats
    allowed: Bools
    strict_is_good: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Rank and bounds of a cell. Cells that scored the same on every query are one, for which the preferred stands.

    Attributes:
        cell: Its place in the grid.
        members: The places of all cells that scored the same on every query, the preferred first, which is `cell`.
        cost: Mean context tokens of `cell`.
        value: Mean of the objective.
        interval: 95% interval of `value`, for this cell alone.
        in_set: True if it may be the best of all that users may ask (95%, for all cells together).
        lower: Simultaneous 95% lower bound on (this cell − the best of all that users may ask), at most 0; None if not
            computable.
    """

    cell: int
    members: tuple[int, ...]
    cost: float
    value: float
    interval: Interval
    in_set: bool
    lower: float | None

    def is_within(self, margin: float) -> bool:
        """Return True if the bound says that it is at most that far below the best."""
        return self.lower is not None and self.lower >= -margin


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Recommended cell, with the evidence for it.

    Attributes:
        margin: Largest loss against the best cell that the recommended one may have, in units of the objective.
        n: Queries it is over.
        dropped: Queries left out because some cells score them and others do not.
        standings: Of the cells that meet the constraints, the highest value first, the preferred first among equals.
        recommended: The cheapest standing whose bound is within the margin, if it is cheaper than `best`; or `best`.
        note: Reason why the set and the bounds are not computable, or empty.
        judged: Number of the queries that the judge saw, None where it saw all or there is none.
    """

    margin: float
    n: int
    dropped: int
    standings: tuple[Standing, ...]
    recommended: Standing
    note: str = ""
    judged: int | None = None

    @property
    def best(self) -> Standing:
        """The best as measured, or by corrected verdicts."""
        return self.standings[0]

    @property
    def best_set(self) -> tuple[Standing, ...]:
        """The 95% confidence set of best cells, the highest value first; all where it is not computable."""
        return tuple(standing for standing in self.standings if standing.in_set)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """The recommended cell on queries that had no part in the choice: the unbiased figure.

    Attributes:
        value: Mean of the objective on the held-out queries.
        n: Number of held-out queries.
        interval: Its 95% interval.
        chosen_on: Its value on the queries it was chosen on.
        judged: Number of these queries that a judge saw, where it saw a sample of them.
    """

    value: float
    n: int
    interval: Interval
    chosen_on: float
    judged: int | None = None


def decide(
    grid: Grid, ranking: Ranking, objective: ObjectiveConfig, context: Context, proof: Rounds | None
) -> Choice | None:
    """Choose a cell.

    Args:
        grid: The grid.
        ranking: Its cells by the objective, and which of them meet the constraints.
        objective: Metrics to optimise, and the largest loss against the best that a cheaper cell may have.
        context: Inputs of the metrics, among them the verdicts; its seed is that of the simulated deviations.
        proof: What verdicts prove of the cells *of these queries*, where judging ended with a proof: its cell is the
            best, and a cheaper one is recommended only if it is proved within the margin as well. Cells that it dropped
            are not recommended, but may be the best for users.

    Returns:
        None where cells are not ranked.
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
        cells: Cells in the order of the columns of `scores`, at least one of them allowed.
        margin: Largest loss against the best that a cheaper cell may have, in units of the objective.
        seed: Seed of the simulated deviations.
        proof: What verdicts prove, as in `decide`: which cells may be the best for users each told at its last look.
    """
    # Cells that miss a constraint are no rivals: they would only widen the set. A threshold that cost nothing so far
    # saves little and leaves out more among other queries, so of equal cells the least strict is preferred.
    preference = np.lexsort((cells.cost, cells.threshold))
    groups = _alike(scores.values, preference[cells.allowed[preference]])
    first = [group[0] for group in groups]
    ends = None if scores.ends is None else (scores.ends[0][first], scores.ends[1][first])
    distinct = replace(scores, values=np.take(scores.values, first, axis=1), ends=ends)
    mean = distinct.values.mean(axis=0)
    # Within SAME means are equal: rounding must not override the preference.
    best = int((mean >= mean.max() - SAME).argmax())
    if proof is not None:
        best = next((index for index, group in enumerate(groups) if proof.chosen in group), best)
    queries = distinct.judged or len(distinct.values)
    note = f"not computable: {queries} queries are too few, {FEWEST} are needed" if queries < FEWEST else ""
    members, lower = np.ones(len(groups), dtype=np.bool_), np.full(len(groups), np.nan)
    if not note:
        members, lower = _compared(distinct, best, np.array([len(group) > 1 for group in groups]), seed)
    if proof is not None:
        members = np.array([proof.users[list(group)].any() for group in groups])
    standings = [
        Standing(
            cell=group[0],
            members=group,
            cost=float(cells.cost[group[0]]),
            value=float(mean[index]),
            interval=interval,
            in_set=bool(members[index]),
            lower=None if note else float(lower[index]),
        )
        for index, (group, interval) in enumerate(zip(groups, _intervals(distinct), strict=True))
    ]
    # The best by preference stands first, even if another mean is larger by rounding.
    leader = standings.pop(best)
    standings.sort(key=lambda standing: -standing.value)
    return Choice(
        margin=margin,
        n=len(scores.values),
        dropped=scores.dropped,
        standings=(leader, *standings),
        recommended=_recommended(leader, standings, cells, margin, proof),
        note=note,
        judged=scores.judged,
    )


def _compared(scores: ObjectiveScores, best: int, is_tied: Bools, seed: int) -> tuple[Bools, Floats]:
    """Return which cells may be the best of all that users may ask, and the lower bounds on (cell − best).

    Args:
        scores: Of cells that differ.
        best: The best as measured.
        is_tied: [cells], whether further cells have the same scores.
        seed: Seed of the simulated deviations.
    """
    loss, values = _usual_loss(scores, best), scores.values
    compared = compare_with_best(
        values, loss=loss, span=scores.span, strata=scores.strata, judged=scores.judged, seed=seed
    )
    # Cells with equal scores here may differ on other queries: their bound is that of a query more, not seen.
    nothing = np.zeros(len(is_tied))
    moved, error = with_unseen(nothing, nothing, len(values), scores.span, times=compared.unseen)
    alike = np.where(is_tied & compared.members, moved - compared.quantiles * error, np.nan)
    return compared.members, np.fmin(compared.lower, alike)


def _recommended(
    best: Standing, others: Sequence[Standing], cells: Cells, margin: float, proof: Rounds | None
) -> Standing:
    """Return the cheapest cell within the margin, of equally cheap ones the better; the best where none is cheaper."""
    cheaper = [other for other in others if other.cost < best.cost and other.is_within(margin)]
    if not cells.strict_is_good:
        cheaper = [other for other in cheaper if cells.threshold[other.cell] <= cells.threshold[best.cell]]
    if proof is not None and proof.chosen is not None:
        cheaper = [other for other in cheaper if (proof.within[list(other.members)] <= proof.margin).any()]
    return min(cheaper, key=lambda standing: (standing.cost, -standing.value), default=best)


def held_out(choice: Choice, scores: ObjectiveScores) -> HeldOut:
    """Return the recommended cell on held-out queries.

    The value of the best of many cells on the queries that made it the best is too high; on others it is not.

    Args:
        choice: Made on other queries (the split `dev`).
        scores: The same objective on the held-out queries (the split `test`), of the recommended cell alone.
    """
    value, n, interval = float(scores.values.mean()), len(scores.values), _intervals(scores)[0]
    return HeldOut(value=value, n=n, interval=interval, chosen_on=choice.recommended.value, judged=scores.judged)


def objective_scores(grid: Grid, objective: ObjectiveConfig, context: Context) -> ObjectiveScores:
    """Return the objective of every query in every cell."""
    metrics = [metric for name in objective.metrics if isinstance(metric := metric_named(name), QueryMetric)]
    samples = {metric.name: sample for metric in metrics if (sample := grid.metrics[metric.name].sample)}
    values = dict[str, Floats]()
    for metric in metrics:
        sample = samples.get(metric.name)
        values[metric.name] = over_all(grid, metric, sample.comparable if sample else grid.matrix(metric, context))
    is_bounded = not samples and all(metric.range == SHARE for metric in metrics)
    scores = combine(objective.metrics, values, is_bounded=is_bounded)
    if not samples:
        return scores
    [first, *_] = samples.values()
    ends = first.ends if [*objective.metrics.values()] == [1.0] else None
    return replace(scores, judged=min(grid.metrics[name].n_common for name in samples), ends=ends)


def combine(weights: Mapping[str, float], scores: Mapping[str, Floats], *, is_bounded: bool) -> ObjectiveScores:
    """Return the weighted sum of the metrics' means as a column of per-query values for every cell.

    Metrics may be over different queries (in scope, out of scope): a metric over n of all N queries counts N/n times
    its weight on these, so that a column's mean is the weighted sum of the means. A query that some cells score and
    others do not is dropped, as it would favour cells that drop it; one that no cell scores is not of that metric.

    Args:
        weights: Metric to weight; one of which less is better has a negative weight.
        scores: Metric to scores [queries, cells], NaN where a query has none; all over the same queries and cells.
        is_bounded: True if each score lies within 0 and 1.
    """
    gaps = {metric: np.isnan(scores[metric]) for metric in weights}
    partial = np.any([gap.any(axis=1) & ~gap.all(axis=1) for gap in gaps.values()], axis=0)
    scored = np.stack([~gap.all(axis=1) & ~partial for gap in gaps.values()], axis=1)
    kept = np.asarray(scored.any(axis=1))
    scored = scored[kept]
    factors = scored * np.array([*weights.values()]) * len(scored) / np.maximum(1, scored.sum(axis=0))
    columns = zip(weights, factors.T[:, :, None], strict=True)
    parts = (np.where(on == 0, 0.0, scores[metric][kept] * on) for metric, on in columns)
    return ObjectiveScores(
        values=reduce(np.add, parts),
        strata=_strata(scored),
        bounds=(np.minimum(factors, 0).sum(axis=1), np.maximum(factors, 0).sum(axis=1)) if is_bounded else None,
        dropped=int(partial.sum()),
    )


def _strata(scored: Bools) -> Integers:
    """Group queries by the metrics that score them; fewer than ten of a kind go with the most numerous kind."""
    _, numbers, counts = np.unique(scored, axis=0, return_inverse=True, return_counts=True)
    strata = numbers.reshape(-1).astype(np.int64)
    return np.where(counts[strata] < FEWEST, counts.argmax(), strata)


def _alike(values: Floats, cells: Integers) -> list[tuple[int, ...]]:
    """Group these columns by identical values, in their order; the groups in the order of their first."""
    groups: dict[bytes, list[int]] = {}
    for column, scores in zip(cells.tolist(), (np.round(values[:, cells], DECIMALS) + 0.0).T, strict=True):
        groups.setdefault(scores.tobytes(), []).append(column)
    return [tuple(group) for group in groups.values()]


def _usual_loss(scores: ObjectiveScores, best: int) -> float:
    """Return the best cell's mean score above the floor where it scores or, if higher, where some cell does not.

    Of several kinds of queries it is that of the kind with the highest: one of a rare kind counts more than others.
    """
    if scores.bounds is None:
        return scores.span
    gained = scores.values[:, best] - scores.bounds[0]
    scored = gained > SAME
    lost = scored & (scores.values.min(axis=1) - scores.bounds[0] <= SAME)
    weight = np.round(scores.bounds[1] - scores.bounds[0], DECIMALS)
    parts = [rows & (weight == kind) for rows in (scored, lost) for kind in np.unique(weight)]
    return max((float(gained[rows].mean()) for rows in parts if rows.any()), default=scores.span)


def _intervals(scores: ObjectiveScores) -> list[Interval]:
    """Return the 95% interval of every column's mean.

    Strata are independent: the distances from their means to their ends add up in squares, each by its share (MOVER,
    Zou & Donner, 2008).
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
    # A few queries of a kind that go with others count more each: by theirs alone the sum could leave its range.
    least, most = (-np.inf, np.inf) if bounds is None else (round(float(end.mean()), DECIMALS) for end in bounds)
    around = np.clip([mean - below, mean + above], least, most)
    ends = np.where(below + above > 0, around, np.nan) if scores.ends is None else scores.ends
    none = Interval(note=f"not computable: fewer than {FEWEST} values, or all of them are equal")
    return [Interval(low=low, high=high) if np.isfinite(low) else none for low, high in np.transpose(ends).tolist()]


def explain(choice: Choice, name: Callable[[int], str], *, is_set_told: bool) -> Iterator[str]:
    """Yield the recommended cell, the best one where it is another, the reason, and how many may be the best.

    Args:
        choice: The choice.
        name: Names a cell by its place in the grid, such as `top_k 5, threshold 0.3`.
        is_set_told: Another place says which cells may be the best.
    """
    judged = "" if choice.judged is None else f", {choice.judged} of them judged"
    dropped = f", {choice.dropped} not scored in all cells" if choice.dropped else ""
    yield f"Recommended: {_described(choice.recommended, name)} (n={choice.n}{judged}{dropped})"
    if choice.best is not choice.recommended:
        yield f"Best {_measured(choice)}: {_described(choice.best, name)}"
    yield f"Reason: {reason(choice)}"
    if not (is_set_told or choice.note):
        allowed, count = (sum(len(standing.members) for standing in of) for of in (choice.standings, choice.best_set))
        yield f"Of all that users may ask, {count:,} of {allowed:,} cells may be the best (95%)"


def reason(choice: Choice) -> str:
    """Return the reason for the recommendation, a sentence."""
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
    cheaper = [standing for standing in choice.standings if standing.cost < best.cost]
    if not cheaper:
        return f"{is_best}, and none is cheaper"
    if any(standing.is_within(choice.margin) for standing in cheaper):
        return f"{is_best}; without out-of-scope queries, what a stricter threshold saves is no reason to take it"
    if max(standing.value for standing in cheaper) <= best.value - choice.margin:
        return f"{is_best}, and every cheaper cell is behind it by {choice.margin:g} or more"
    return f"{is_best}; {choice.n} queries are not enough to prefer a cheaper one"


def _measured(choice: Choice) -> str:
    """Return by what the best cell is the best."""
    return "as measured" if choice.judged is None else "by corrected verdicts"


def _described(standing: Standing, name: Callable[[int], str]) -> str:
    more, interval = len(standing.members) - 1, standing.interval
    others = f", and {more:,} more cell{'s' * (more > 1)} with the same scores" if more else ""
    ends = "(interval not computable)"
    if interval.low is not None and interval.high is not None:
        ends = f"({interval.low:.3f} … {interval.high:.3f})"
    return f"{name(standing.cell)}{others} · objective {standing.value:.3f} {ends} · {standing.cost:,.0f} tokens"
