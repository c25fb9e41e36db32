"""Judging in rounds: more and more queries in their order, until a cell is proved within a margin of the best.

Each look makes two statements and never mixes them. *Of these queries*, it bounds how far the chosen cell would be
below the best by all verdicts. Only verdicts that were not bought make this uncertain; with all of them bought, it is
exact. The looks are planned, so that one quantile serves all of them (`evals.stats.best`). *Of all that users may ask*,
it says which cells may be the best. If a cell is proved not to be the best of these queries, no further verdict on it
is bought. It leaves the set for users only by the comparison for users, over pseudo-values of all queries, at the last
look at the cell.

Scores are corrected by a proxy that every query has, with one weight λ for all cells (`evals.sampling.corrected`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from evals.sampling.corrected import Sample, corrected, shrunk_weight, weight_of_differences
from evals.stats.best import compare_with_best, planned_looks
from evals.stats.intervals import FEWEST, SAME, Bools, Floats, Integers

Ask = Callable[[Integers, Bools], tuple[Floats, bool]]
"""Buys verdicts. It gets rows (numbers in the order of judging) and a mask [cells]. It returns the scores [rows, cells
of the mask], NaN where a verdict failed, and whether everything was judged."""

# Share by which, under `judge.sample: auto`, the standard error may exceed that of judging all queries.
WIDER = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class Unjudged:
    """Facts of N queries that are known before any is judged, in the order of judging.

    Attributes:
        proxy: [N, cells], proxy scores, finite.
        results: [N, cells], number of the result that a cell keeps of a query. Equal results have equal scores: if the
            remaining cells have equal results on all further queries, they do not differ there.
        alone: [queries, cells], the part of the objective that needs no judge; first the N queries, then those that no
            judge can score. Its mean is added to the mean of the scores. None if the objective has no such part.
        span: The largest possible difference of two cells' scores on one query.
    """

    proxy: Floats
    results: Integers
    alone: Floats | None
    span: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounds:
    """Proof by the bought verdicts.

    Attributes:
        margin: The margin that was asked for.
        n: Number of queries that the remaining cells were judged on.
        remaining: [cells], whether a cell may be the best of these queries.
        chosen: The cell with the proof; None if nothing could be compared.
        within: [cells], upper bound of how far a cell is below the best of these queries, 95% for all cells and looks
            together; NaN for cells that do not remain.
        users: [cells], whether a cell may be the best of all that users may ask (95%).
        judged_on: [cells], number of queries that a cell was judged on, from the first query.
        looks: Number of planned looks. Judging may end at any of them.
    """

    margin: float
    n: int
    remaining: Bools
    chosen: int | None
    within: Floats
    users: Bools
    judged_on: Integers
    looks: int


def judge_in_rounds(ask: Ask, queries: Unjudged, *, margin: float, most: int, seed: int) -> Iterator[Rounds]:
    """Judge until a cell is proved within a margin of the best, or nothing is left to judge; yield each look.

    The same verdicts and the same seed lead through the same looks, so that a killed run repeats them.

    Args:
        ask: Buys verdicts.
        queries: What is known of the queries before any is judged.
        margin: The wanted bound, at least 0.
        most: Largest number of queries to judge.
        seed: Seed of the simulated deviations.
    """
    cells, alone = queries.results.shape[1], queries.alone
    # Cells with equal results on every query are one. In a usual grid a third of the cells are distinct, and the time
    # to compare them grows with the number of pairs.
    columns = queries.results if alone is None else np.vstack([queries.results, alone])
    _, first, group = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    order, first = first.argsort(), np.sort(first)
    group = order.argsort()[group.ravel()]
    distinct = replace(
        queries,
        proxy=queries.proxy[:, first],
        results=queries.results[:, first],
        alone=None if alone is None else alone[:, first],
    )

    def ask_distinct(rows: Integers, remaining: Bools) -> tuple[Floats, bool]:
        return ask(rows, np.isin(np.arange(cells), first[remaining]))

    for rounds in _judge_distinct(ask_distinct, distinct, margin=margin, most=most, seed=seed):
        by_cell = {name: getattr(rounds, name)[group] for name in ("remaining", "within", "users", "judged_on")}
        yield replace(rounds, **by_cell, chosen=None if rounds.chosen is None else int(first[rounds.chosen]))


def _judge_distinct(ask: Ask, queries: Unjudged, *, margin: float, most: int, seed: int) -> Iterator[Rounds]:
    """Judge as `judge_in_rounds` does, where no two cells have equal results on every query."""
    total, cells = queries.proxy.shape
    most = min(most, total)
    looks = sorted({look for look in planned_looks(total) if look < most} | {most, total})
    scores = np.full((total, cells), np.nan)
    weight = None
    rounds = Rounds(
        margin=margin,
        n=0,
        remaining=np.ones(cells, dtype=np.bool_),
        chosen=None,
        within=np.full(cells, np.nan),
        users=np.ones(cells, dtype=np.bool_),
        judged_on=np.zeros(cells, dtype=np.int64),
        looks=sum(look <= most for look in looks),
    )
    for n in looks[: rounds.looks]:
        bought, is_complete = ask(np.arange(rounds.n, n), rounds.remaining)
        if rounds.n and not is_complete:
            return  # a part of a look is no random sample; its verdicts stay in the store for the next run
        scores[rounds.n : n, rounds.remaining] = bought
        rounds = replace(rounds, n=n, judged_on=np.where(rounds.remaining, n, rounds.judged_on))
        proxy = queries.proxy[:n, rounds.remaining]
        judged = _fill(scores[:n, rounds.remaining], proxy)
        if judged is None or n < 2 or not is_complete:
            yield rounds
            return
        if weight is None:  # estimated once, so that all looks are corrected by the same proxy
            weight = weight_of_differences(judged, proxy)
        rounds = _look(rounds, queries, judged, weight, looks, seed)
        yield rounds
        if np.nanmin(rounds.within) <= margin:
            return


def _look(rounds: Rounds, queries: Unjudged, judged: Floats, weight: float, looks: Sequence[int], seed: int) -> Rounds:
    """Return what the scores of the remaining cells prove of these queries, and of all that users may ask.

    Args:
        rounds: The state after the look before.
        queries: What is known of the queries before any is judged.
        judged: [n, remaining cells], the scores of the judged queries, finite.
        weight: Weight of the correction by the proxy.
        looks: The planned numbers of judged queries; the last one is their total.
        seed: Seed of the simulated deviations.
    """
    total, n = len(queries.proxy), rounds.n
    left = np.flatnonzero(rounds.remaining)
    unjudged_part = np.zeros(len(left)) if queries.alone is None else queries.alone.mean(axis=0)[left]
    unseen = np.full((total - n, len(left)), np.nan)
    sample = corrected(np.vstack([judged, unseen]), queries.proxy[:, left], weight)
    values = sample.residuals + sample.foretold.mean(axis=0) + unjudged_part
    if (queries.results[n:, left] == queries.results[n:, left[:1]]).all():
        # On all further queries the cells have equal scores, so that only the judged queries tell them apart.
        means = judged.sum(axis=0) / total + unjudged_part
        regret = means.max() - means
        members = regret <= SAME
    else:
        compared = compare_with_best(values, span=queries.span, looks=looks, seed=seed)
        means, regret, members = values.mean(axis=0), -compared.lower, compared.members
    near = regret <= max(rounds.margin, float(regret.min()))
    chosen = left[np.where(near, means, -np.inf).argmax()]
    stays = members | (left == chosen)
    within = np.full_like(rounds.within, np.nan)
    within[left[stays]] = regret[stays]
    # For users every cell of this look is compared, also one that leaves.
    users = rounds.users.copy()
    users[left] = _best_for_users(sample, queries, left, seed)
    return replace(rounds, remaining=np.isfinite(within), chosen=int(chosen), within=within, users=users)


def _best_for_users(sample: Sample, queries: Unjudged, left: Integers, seed: int) -> Bools:
    """Return which of some cells may be the best of all that users may ask, [cells left].

    The part of the objective that needs no judge is a mean over a sample of users' queries, too, and its variance
    counts. An unseen query may be of either kind, judged or not: the leading cell loses what counts more.
    """
    values, strata, span = sample.pseudo, None, queries.span
    if queries.alone is not None:
        alone = queries.alone[:, left]
        total, everyone = sample.total, len(alone)
        values = alone.copy()
        values[:total] += sample.pseudo * everyone / total
        strata = np.where(np.arange(everyone) < total, 0, 1 if everyone - total >= FEWEST else 0)
        widest = np.ptp(alone, axis=1)
        widest[:total] += span * everyone / total
        span = float(widest.max())
    return compare_with_best(values, span=span, strata=strata, judged=sample.n, seed=seed).members


def queries_needed(scores: Floats, proxy: Floats) -> int:
    """Return the number of judged queries at which the standard error is at most a quarter above that of judging all.

    Let V be the variance of judged scores, and R that of their residuals from the proxy, both summed over cells. The
    variance of a corrected mean is V/N + (1/n − 1/N) · R. It is (1 + `WIDER`)² V/N at
    n = N R / (R + ((1 + `WIDER`)² − 1) V).

    As in the interval, an unseen query counts in both where the proxy agrees with the judge: twenty equal scores do not
    prove that all are.

    Args:
        scores: [N, cells], NaN where a query was not judged, or failed.
        proxy: [N, cells], the proxy scores.
    """
    sample = corrected(scores, proxy)
    unseen = float((sample.agreement**2).sum()) / sample.n
    v, r = (float(values.var(axis=0).sum()) + unseen for values in (sample.scores, sample.residuals))
    return ceil(sample.total * r / (r + ((1 + WIDER) ** 2 - 1) * v)) if r else 0


def _fill(scores: Floats, proxy: Floats) -> Floats | None:
    """Return judged scores, with predictions by the proxy in place of failed ones; None if no query has all scores."""
    is_whole = ~np.isnan(scores).any(axis=1)
    if is_whole.all():
        return scores
    if not is_whole.any():
        return None
    weight = shrunk_weight(scores[is_whole], proxy[is_whole])
    expected = scores[is_whole].mean(axis=0) + weight * (proxy - proxy[is_whole].mean(axis=0))
    return np.where(np.isnan(scores), expected, scores)
