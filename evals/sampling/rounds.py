"""Judging in rounds: a growing beginning of the order of queries, until a cell is proved within a margin of the best.

Two statements, never mixed. *Of these queries*: by all verdicts on them the chosen cell would be at most so far below
the best; nothing but verdicts that were not bought makes that uncertain, and with all of them bought nothing does. The
looks are planned, so that one quantile serves all of them (`evals.stats.best`). *Of all that users may ask*: which
cells may be the best. A cell that is proved not the best of these queries ends being bought, no more: it leaves the set
for users only by the comparison for users, at its last look, over pseudo-values of all queries.

Scores are corrected by a proxy that every query has, with one weight λ for all cells (`evals.sampling.corrected`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from evals.sampling.corrected import Sample, corrected, shrunk_weight, weight_of_differences
from evals.stats.best import Bools, Floats, compare_with_best, planned_looks
from evals.stats.intervals import FEWEST, SAME

Integers = NDArray[np.int64]
Ask = Callable[[Integers, Bools], tuple[Floats, bool]]
"""Gets rows (numbers in the order of judging) and a mask [cells]; returns the scores [rows, cells of the mask], NaN
where a verdict failed, and whether all that was asked for was judged."""

# Under `judge.sample: auto` the standard error may be larger by this than that of judging all queries.
WIDER = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class Unjudged:
    """Proxy scores and results of N queries before any is judged, in the order of judging.

    Attributes:
        proxy: [N, cells], what foretells the scores, finite.
        results: [N, cells], which result a cell keeps of a query. Where all remaining cells keep the same of every
            further query, their scores differ by exactly 0 there.
        alone: [N queries, then those that are never judged; cells], the part of the objective that needs no judge. Its
            mean is added to that of the scores. None where the objective has no such part.
        span: The largest difference of two cells' scores on one query.
    """

    proxy: Floats
    results: Integers
    alone: Floats | None
    span: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounds:
    """Proof by the bought verdicts.

    Attributes:
        margin: Margin that was asked for.
        n: Number of queries that the remaining cells were judged on.
        remaining: [cells], those that may be the best of these queries.
        chosen: The cell that is proved; None where nothing could be compared.
        within: [cells], 95% upper bound of how far a cell is below the best of these queries, simultaneous over cells
            and looks; NaN of cells that are not in `remaining`.
        users: [cells], those that may be the best of all that users may ask (95%).
        judged_on: [cells], the number of queries, from the first, that a cell was judged on.
        looks: Number of planned looks at any of which judging may end.
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
    """Judge until a cell is proved within a margin of the best, or nothing is left to judge; yield it after each look.

    The same verdicts and seed go through the same looks, so that a run that was killed goes through them again.

    Args:
        ask: Gets scores; rows are numbered in the order of judging.
        queries: What is known of them.
        margin: The wanted bound, at least 0.
        most: Number of queries that are judged at most.
        seed: Seed of the simulated deviations.
    """
    cells, alone = queries.results.shape[1], queries.alone
    # Cells that keep the same of every query are one: a third are distinct in a usual grid, and pairs are compared.
    kept = queries.results if alone is None else np.vstack([queries.results, alone])
    _, first, alike = np.unique(kept, axis=1, return_index=True, return_inverse=True)
    order, first = first.argsort(), np.sort(first)
    alike = order.argsort()[alike.ravel()]
    distinct = replace(
        queries,
        proxy=queries.proxy[:, first],
        results=queries.results[:, first],
        alone=None if alone is None else alone[:, first],
    )

    def ask_distinct(rows: Integers, of: Bools) -> tuple[Floats, bool]:
        return ask(rows, np.isin(np.arange(cells), first[of]))

    for rounds in _judge_distinct(ask_distinct, distinct, margin=margin, most=most, seed=seed):
        yield replace(
            rounds,
            remaining=rounds.remaining[alike],
            chosen=None if rounds.chosen is None else int(first[rounds.chosen]),
            within=rounds.within[alike],
            users=rounds.users[alike],
            judged_on=rounds.judged_on[alike],
        )


def _judge_distinct(ask: Ask, queries: Unjudged, *, margin: float, most: int, seed: int) -> Iterator[Rounds]:
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
            return  # a part of a look is no random sample: what was bought of it stays in the store for the next run
        scores[rounds.n : n, rounds.remaining] = bought
        rounds = replace(rounds, n=n, judged_on=np.where(rounds.remaining, n, rounds.judged_on))
        proxy = queries.proxy[:n, rounds.remaining]
        judged = _filled(scores[:n, rounds.remaining], proxy)
        if judged is None or n < 2 or not is_complete:
            yield rounds
            return
        if weight is None:  # once: what all looks estimate rests on one proxy
            weight = weight_of_differences(judged, proxy)
        rounds = _look(rounds, queries, judged, weight, looks, seed)
        yield rounds
        if np.nanmin(rounds.within) <= margin:
            return


def _look(rounds: Rounds, queries: Unjudged, judged: Floats, weight: float, looks: Sequence[int], seed: int) -> Rounds:
    """Return what the scores of the remaining cells prove of these queries, and of all that users may ask.

    Args:
        rounds: What was proved before.
        queries: What is known of them.
        judged: [n, remaining cells], finite.
        weight: Weight of the correction by the proxy.
        looks: The planned numbers of judged queries, the last one all of them.
        seed: Seed of the simulated deviations.
    """
    total, n = len(queries.proxy), rounds.n
    left = np.flatnonzero(rounds.remaining)
    beside = np.zeros(len(left)) if queries.alone is None else queries.alone.mean(axis=0)[left]
    unseen = np.full((total - n, len(left)), np.nan)
    sample = corrected(np.vstack([judged, unseen]), queries.proxy[:, left], weight)
    values = sample.residuals + sample.foretold.mean(axis=0) + beside
    loss = _usual_loss(judged)
    # The largest difference seen on a query: on one not seen a cell loses no more, nor more than it could.
    widest = max(loss, float(np.ptp(values, axis=1).max()))
    if (queries.results[n:, left] == queries.results[n:, left[:1]]).all():
        # On the others all cells have the same score, so that only what was judged tells them apart.
        means = judged.sum(axis=0) / total + beside
        regret = means.max() - means
        members = regret <= SAME
    else:
        compared = compare_with_best(values, loss=loss, span=min(queries.span, widest), looks=looks, seed=seed)
        means, regret, members = values.mean(axis=0), -compared.lower, compared.members
    near = regret <= max(rounds.margin, float(regret.min()))
    chosen = left[np.where(near, means, -np.inf).argmax()]
    kept = members | (left == chosen)
    within = np.full_like(rounds.within, np.nan)
    within[left[kept]] = regret[kept]
    # What ends being bought is not thereby out for users: there the largest loss seen counts.
    users = rounds.users.copy()
    users[left] = _best_for_users(sample, queries, left, widest, seed)
    return replace(rounds, remaining=np.isfinite(within), chosen=int(chosen), within=within, users=users)


def _best_for_users(sample: Sample, queries: Unjudged, left: Integers, loss: float, seed: int) -> Bools:
    """Return which of some cells may be the best of all that users may ask, by the objective of all queries.

    What needs no judge is a mean over a sample of users' queries as well. A query that was not seen is as likely of
    each kind as those that were.
    """
    values, strata = sample.pseudo, None
    if queries.alone is not None:
        alone = queries.alone[:, left]
        total, everyone = sample.total, len(alone)
        values = alone.copy()
        values[:total] += sample.pseudo * everyone / total
        strata = np.where(np.arange(everyone) < total, 0, 1 if everyone - total >= FEWEST else 0)
        loss += float(np.ptp(alone, axis=1).mean())
    return compare_with_best(values, loss=loss, span=queries.span, strata=strata, judged=sample.n, seed=seed).members


def queries_needed(scores: Floats, proxy: Floats) -> int:
    """Return the number of judged queries at which the standard error is at most a quarter above that of judging all.

    The variance of a corrected mean is V/N + (1/n − 1/N) · R, with the variances V of judged scores and R of what the
    proxy leaves of them, both summed over cells. It is (1 + `WIDER`)² V/N at n = N R / (R + ((1 + `WIDER`)² − 1) V).

    Args:
        scores: [N, cells], NaN where a query was not judged, or failed.
        proxy: [N, cells].
    """
    sample = corrected(scores, proxy)
    variance, rest = (float(values.var(axis=0).sum()) for values in (sample.scores, sample.residuals))
    return ceil(sample.total * rest / (rest + ((1 + WIDER) ** 2 - 1) * variance)) if rest else 0


def _filled(scores: Floats, proxy: Floats) -> Floats | None:
    """Return judged scores, with what the proxy lets expect in place of failed ones; None where no query has all."""
    whole = ~np.isnan(scores).any(axis=1)
    if whole.all():
        return scores
    if not whole.any():
        return None
    weight = shrunk_weight(scores[whole], proxy[whole])
    expected = scores[whole].mean(axis=0) + weight * (proxy - proxy[whole].mean(axis=0))
    return np.where(np.isnan(scores), expected, scores)


def _usual_loss(scores: Floats) -> float:
    """Return what the leading cell usually loses on a query where it loses: its mean score where it scores."""
    leading = scores[:, int(scores.mean(axis=0).argmax())]
    gained = leading[np.abs(leading) > SAME]
    return float(np.abs(gained).mean()) if len(gained) else 1.0
