"""Judging in rounds: a growing beginning of the order of queries, until a cell is proved within a margin of the best.

Two statements, never mixed. *Of these queries*: by all verdicts on them the chosen cell would be at most so far below
the best; nothing but verdicts that were not bought makes that uncertain, and with all of them bought nothing does. The
looks are planned, so that one quantile serves all of them (`evals.stats.best`). *Of all that users may ask*: which
cells may be the best. A cell that is proved not the best of these queries ends being bought, no more: it leaves the set
for users only by the comparison for users, at its last look, over pseudo-values of all queries.

Scores are corrected by a proxy that every query has, with one weight λ for all cells (`evals.sampling.corrected`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.sampling.corrected import corrected, shrunk_weight, weight_of_differences
from evals.stats.best import Bools, Floats, compare_with_best, planned_looks
from evals.stats.intervals import FEWEST, SAME

Integers = NDArray[np.int64]
Ask = Callable[[Integers, Bools], tuple[Floats, bool]]
"""Gets rows (numbers in the order of judging) and a mask [cells]; returns the scores [rows, cells of the mask], NaN
where a verdict failed, and whether all that was asked for was judged."""

# Under `judge.sample: auto` the interval may be wider by this than that of judging all queries.
WIDER = 0.25


class Look(NamedTuple):
    """One look: of these queries, the chosen cell is at most `within` below the best by all verdicts."""

    n: int
    chosen: int
    within: float


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
        looks: What each look said.
    """

    margin: float
    n: int
    remaining: Bools
    chosen: int | None
    within: Floats
    users: Bools
    judged_on: Integers
    looks: tuple[Look, ...]


def judge_in_rounds(
    ask: Ask,
    proxy: Floats,
    *,
    margin: float,
    most: int | None = None,
    results: Integers | None = None,
    span: float = 1.0,
    alone: Floats | None = None,
    seed: int = 0,
) -> Rounds:
    """Judge until a cell is proved within a margin of the best, or nothing is left to judge.

    The same verdicts and seed go through the same looks, so that a run that was killed goes through them again.

    Args:
        ask: Gets scores; rows are numbered in the order of judging.
        proxy: [N, cells], finite.
        margin: The wanted bound, at least 0.
        most: Number of queries that are judged at most; all when left out.
        results: [N, cells], which result a cell keeps of a query. Where all remaining cells keep the same of every
            further query, their scores differ by exactly 0 there. None where that is not known.
        span: The largest difference of two cells on one query.
        alone: [queries, cells], what an objective has besides, which needs no judge: its mean is added to that of the
            scores. The N queries come first. None where there is nothing else.
        seed: Seed of the simulated deviations.
    """
    total, count = proxy.shape
    known = np.zeros(count) if alone is None else alone.mean(axis=0)
    most = total if most is None else min(most, total)
    looks = sorted({look for look in planned_looks(total) if look < most} | {most, total})
    scores, left = np.full(proxy.shape, np.nan), np.arange(count)
    users, judged_on = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.int64)
    within, chosen, done, weight, said = np.full(count, np.nan), None, 0, None, list[Look]()
    for n in (look for look in looks if look <= most):
        alive = np.isin(np.arange(count), left)
        given, complete = ask(np.arange(done, n), alive)
        if not complete and done:
            break  # a part of a look is no random sample: what was bought of it stays in the store for the next run
        scores[done:n, alive], judged_on[alive], done = given, n, n
        own, foretold = _filled(scores[:n, left], proxy[:n, left]), proxy[:, left]
        if not complete or n < 2 or own is None:
            break
        decided = n == total or (results is not None and bool((results[n:, left] == results[n:, left[:1]]).all()))
        if weight is None:  # once: what all looks estimate rests on one proxy
            weight = weight_of_differences(own, foretold[:n])
        sample = corrected(np.vstack([own, np.full((total - n, len(left)), np.nan)]), foretold, weight)
        values = sample.residuals + sample.foretold.mean(axis=0) + known[left]
        loss = _usual_loss(own)
        # The largest difference seen on a query: on one not seen a cell loses no more, nor more than it could.
        widest = max(loss, float(np.ptp(values, axis=1).max()))
        if decided:
            # On the others all cells have the same score, so that only what was judged tells them apart.
            means = own.sum(axis=0) / total + known[left]
            regret, members = means.max() - means, means >= means.max() - SAME
        else:
            here = compare_with_best(values, loss=loss, span=min(span, widest), looks=looks, seed=seed)
            means, regret, members = values.mean(axis=0), -here.bounds.lower, here.members
        # What ends being bought is not thereby out for users: there the largest loss seen counts.
        everything, strata, lost = _with_alone(sample.pseudo, None if alone is None else alone[:, left], widest)
        users[left] = compare_with_best(everything, loss=lost, span=span, strata=strata, judged=n, seed=seed).members
        near = regret <= max(margin, float(regret.min()))
        chosen = int(left[np.where(near, means, -np.inf).argmax()])
        within = np.full(count, np.nan)
        within[left[members]] = regret[members]
        within[chosen] = regret[left == chosen][0]
        said.append(Look(n, chosen, float(within[chosen])))
        left = left[members | (left == chosen)]
        if within[chosen] <= margin or decided:
            break
    return Rounds(
        margin=margin,
        n=done,
        remaining=np.isin(np.arange(count), left),
        chosen=chosen,
        within=within,
        users=users,
        judged_on=judged_on,
        looks=tuple(said),
    )


def queries_needed(scores: Floats, proxy: Floats) -> int:
    """Return the number of judged queries at which the interval is at most a quarter wider than that of judging all.

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


def _with_alone(pseudo: Floats, alone: Floats | None, widest: float) -> tuple[Floats, Integers | None, float]:
    """Return the objective of all queries in the unit of its mean, their strata, and what a cell loses on one unseen.

    What needs no judge is a mean over a sample of users' queries as well. A query that was not seen is as likely of
    each kind as those that were.
    """
    if alone is None:
        return pseudo, None, widest
    values, total, count = alone.copy(), len(pseudo), len(alone)
    values[:total] += pseudo * count / total
    strata = np.where(np.arange(count) < total, 0, 1 if count - total >= FEWEST else 0)
    return values, strata, widest + float(np.ptp(alone, axis=1).mean())


def _usual_loss(scores: Floats) -> float:
    """Return what the leading cell usually loses on a query where it loses: its mean score where it scores."""
    leading = scores[:, int(scores.mean(axis=0).argmax())]
    gained = leading[np.abs(leading) > SAME]
    return float(np.abs(gained).mean()) if len(gained) else 1.0
