"""Judging in rounds until the choice of a cell is proved: which cells remain, and what is proved. Pure.

The judged queries are a beginning of a random order of all, the same for every cell: a simple random sample that grows.
After each round `look` says what the verdicts prove. The same verdicts and seed give the same rounds, so that a run
that was killed goes through them again. The target are the means that all verdicts on these very queries would give:
nothing but verdicts that were not bought makes them uncertain, and with all of them bought nothing does.

What is proved: the chosen cell is within `bound` of the best, by multiple comparisons with the best over all cells
(`compared_with_best`), of means corrected by a proxy (`corrected_mean`). Cells that another is proved to be ahead of
leave; no verdict is bought for them alone, and later rounds compare those that are left.

Looks share the error probability: after a share f of the queries 5% · √f is spent, in all looks together (alpha
spending, Lan & DeMets, 1983), each look at what it adds (Bonferroni, whatever looks have in common). Judging pays if it
ends early, and with all judged nothing can fail: so √f spends early, where Pocock's function spends half as much and
O'Brien's and Fleming's nearly nothing.

Differences of cells that return nearly the same are 0 on most judged queries, and then their variance looks smaller
than it is. So the covariance is that of the sample and, as if of two further queries, that of verdicts that are wrong
by chance, each by as much as the observed residuals say. Where all the remaining cells return the same on every query
that is left, their scores differ by exactly 0: the choice is certain.
"""

from dataclasses import dataclass, replace

import numpy as np

from evals.stats.compared_with_best import ComparedWithBest, compare_with_best
from evals.stats.corrected_mean import Floats
from evals.stats.returned_chunks import Places, Returned
from evals.stats.shrunk_means import shrunk_residuals, weight_of_differences

ALPHA = 0.05
# Queries to judge before the first look: fewer say too little of a variance.
FIRST = 20
# Queries that chance disagreement counts for.
VIRTUAL = 2.0
RESAMPLES = 2_000


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """State between rounds.

    Attributes:
        total: Number of queries, which are numbered in the order of judging.
        judged: Number of those that are judged before the next look.
        remaining: The cells that may be the best, by number.
        leading: The one that was ahead at the last look; None before the first.
        spent: Error probability of the looks so far.
    """

    total: int
    judged: int
    remaining: tuple[int, ...]
    leading: int | None = None
    spent: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimated:
    """Means over all queries, estimated from a beginning of their random order.

    Attributes:
        values: [cells].
        covariance: [cells, cells], 0 where all queries were judged.
        freedom: Its degrees of freedom.
        weight: λ, of the proxy.
    """

    values: Floats
    covariance: Floats
    freedom: float
    weight: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof:
    """What the verdicts so far prove.

    Attributes:
        chosen: The cell, by number.
        bound: It is below the best by no more, with 95% over all looks; 0 where it is proved the best.
        cells: [k], those compared: the remaining before this look.
        regret: [k], the bound of each of them.
        estimated: Their means and covariance.
        judged: Number of queries; `total`, of all.
        quantile: Of the comparison that decides `bound`, in standard errors; `lead`, that rival's lead.
        error: Its standard error.
    """

    chosen: int
    bound: float
    cells: tuple[int, ...]
    regret: Floats
    estimated: Estimated
    judged: int
    total: int
    quantile: float
    lead: float
    error: float

    def expected(self, judged: float) -> float:
        """Return the bound that is expected once so many queries are judged, were differences as they are estimated."""
        if judged >= self.total:
            return 0.0
        now, then = (1 / n - 1 / self.total for n in (self.judged, judged))
        shrink = float(np.sqrt(max(then, 0.0) / now)) if now > 0 else 0.0
        return max(0.0, self.lead + self.quantile * self.error * shrink)


def expected_bound(rounds: Rounds, proof: Proof, returned: Returned, verdicts: int) -> float:
    """Return the bound to expect from so many further verdicts, were differences as they are estimated.

    Args:
        rounds: State after the look.
        proof: What it proved.
        returned: Of all cells.
        verdicts: Number of verdicts to buy for the remaining cells.
    """
    costs = returned.of(np.array(rounds.remaining)).needed[proof.judged :].sum(axis=1)
    more = verdicts / max(1.0, float(costs.mean())) if len(costs) else 0.0
    return proof.expected(proof.judged + more)


def look(
    rounds: Rounds,
    judged: Floats,
    proxy: Floats,
    returned: Returned,
    *,
    margin: float,
    seed: int,
) -> tuple[Rounds, Proof]:
    """Say what is proved, and drop cells that are proved worse than another.

    Args:
        rounds: State whose first queries are all judged in the remaining cells.
        judged: [N, cells], read where a query was judged and a cell remains; else it may be NaN.
        proxy: [N, cells], finite.
        returned: Of all cells.
        margin: Wanted bound; of cells that are within it the one with the highest shrunk mean is chosen.
        seed: Seed of the simulated deviations.
    """
    cells, n = np.array(rounds.remaining), rounds.judged
    own = returned.of(cells)
    spent = ALPHA * float(np.sqrt(n / rounds.total))
    estimated = _estimated(n, judged[:, cells], proxy[:, cells], own)
    rng = np.random.default_rng([seed, n])
    compared = compare_with_best(
        estimated.values, estimated.covariance, estimated.freedom, max(spent - rounds.spent, 1e-9), rng, RESAMPLES
    )
    means = _shrunk(estimated, proxy[:, cells], own)
    within = compared.regret <= max(margin, float(compared.regret.min()))
    chosen = int(np.where(within, means, -np.inf).argmax())
    left = compared.candidates.copy()
    left[chosen] = True
    leading = int(np.where(left, means, -np.inf).argmax())
    after = replace(rounds, remaining=tuple(cells[left].tolist()), leading=int(cells[leading]), spent=spent)
    return after, _proof(compared, cells, chosen, estimated, rounds)


def estimate(judged: Floats, proxy: Floats, n: int) -> Estimated:
    """Estimate the mean judged score of every cell over all queries, from the first n of their random order.

    Args:
        judged: [N, cells], of which the first n rows are read.
        proxy: [N, cells], finite.
        n: At least one; a single query says nothing of variances, which are then taken as 1.
    """
    total = len(proxy)
    weight = weight_of_differences(judged[:n], proxy[:n]) if n < total else 0.0
    residuals = judged[:n] - weight * proxy[:n]
    values = residuals.mean(axis=0) + weight * proxy.mean(axis=0)
    if n == 1 < total:
        return Estimated(values=values, covariance=np.eye(len(values)), freedom=1, weight=weight)
    centred = residuals - residuals.mean(axis=0)
    covariance = (1 / n - 1 / total) / max(1, n - 1) * centred.T @ centred
    return Estimated(values=values, covariance=covariance, freedom=max(1, n - 1), weight=weight)


def _estimated(n: int, judged: Floats, proxy: Floats, own: Returned) -> Estimated:
    """Return means, with the covariance that allows for disagreement that was not seen."""
    total = len(proxy)
    if not own.decides[n:].any():
        # On the others all cells score the same: proxies stand for them, and differences are certain.
        values = (judged[:n].sum(axis=0) + proxy[n:].sum(axis=0)) / total
        return Estimated(values=values, covariance=np.zeros((len(values),) * 2), freedom=max(1, n - 1), weight=1.0)
    estimated = estimate(judged, proxy, n)
    chance, seen = own.likeness(np.arange(n, total)), estimated.covariance
    first = int(estimated.values.argmax())
    # Of differences and of the means themselves: where differences are few, only the latter tell how often labels err.
    ratio = max(
        float(part(seen).sum()) / max(float(part(chance).sum()), 1e-12)
        for part in (lambda matrix: _apart(matrix, first), np.diag)
    )
    mixed = (n * seen + VIRTUAL * ratio * chance) / (n + VIRTUAL)
    return replace(estimated, covariance=mixed)


def _apart(covariance: Floats, cell: int) -> Floats:
    """Return the variances of differences to one cell."""
    own = np.diag(covariance)
    variance: Floats = own + own[cell] - 2 * covariance[cell]
    return variance


def _shrunk(estimated: Estimated, proxy: Floats, own: Returned) -> Floats:
    base = estimated.weight * proxy.mean(axis=0)
    residuals = shrunk_residuals(
        estimated.values - base, estimated.covariance, own.sizes.mean(axis=0), estimated.weight
    )
    means: Floats = base + residuals
    return means


def _proof(compared: ComparedWithBest, cells: Places, chosen: int, estimated: Estimated, rounds: Rounds) -> Proof:
    rivals = np.flatnonzero(compared.candidates)
    error = np.sqrt(np.maximum(0.0, _apart(estimated.covariance, chosen)))[rivals]
    lead = (estimated.values - estimated.values[chosen])[rivals]
    decides = int((lead + compared.quantiles[rivals] * error).argmax())
    return Proof(
        chosen=int(cells[chosen]),
        bound=float(compared.regret[chosen]),
        cells=tuple(cells.tolist()),
        regret=compared.regret,
        estimated=estimated,
        judged=rounds.judged,
        total=rounds.total,
        quantile=float(compared.quantiles[rivals][decides]),
        lead=float(lead[decides]),
        error=float(error[decides]),
    )
