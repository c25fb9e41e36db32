"""Judging in rounds until the choice of a cell is proved: which queries next, which cells remain, what is proved. Pure.

A round: `next_queries` draws some, the judge gives verdicts on what the remaining cells return of them (`Returned.of`),
`look` says what that proves. The same verdicts, seed and batches give the same rounds, so that a run that was killed
goes through them again. The target are the means that all verdicts on these very queries would give: nothing but
verdicts that were not bought makes them uncertain, and with all of them bought nothing does.

What is proved: the chosen cell is within `bound` of the best, by multiple comparisons with the best over all cells
(`compared_with_best`), of means estimated from draws with known probabilities (`weighted_draws`). Cells that another
is proved to be ahead of leave; no verdict is bought for them alone, and later rounds compare those that are left.

Looks share the error probability: after a share f of the queries 5% · √f is spent, in all looks together (alpha
spending, Lan & DeMets, 1983), each look at what it adds (Bonferroni, whatever looks have in common). Judging pays if it
ends early, and with all judged nothing can fail: so √f spends early, where Pocock's function spends half as much and
O'Brien's and Fleming's nearly nothing.

Differences of cells that return nearly the same are 0 on most judged queries, and then their variance looks smaller
than it is. So the covariance is that of the draws and, as if of two further draws, that of verdicts that are wrong by
chance, each by as much as the observed residuals say.

Draws favour queries on which the remaining cells differ from the leading one, by the square root of the share of chunks
that differ over the number of verdicts (Neyman, 1934, for unequal costs): the residual's variance grows with the
number of verdicts that can differ. A fifth of the probability goes evenly to all queries, so that every mean can be
estimated, and none depends on a few queries that were unlikely to be drawn. Where all the remaining cells return the
same, their scores differ by exactly 0: with no other query left, the choice is certain.
"""

from dataclasses import dataclass, replace

import numpy as np

from evals.stats.compared_with_best import compare_with_best
from evals.stats.corrected_mean import Bools, Floats
from evals.stats.returned_chunks import Places, Returned
from evals.stats.shrunk_means import shrunk_residuals
from evals.stats.weighted_draws import Draws, Estimated, draw, draw_weights, drawn_evenly, estimate

ALPHA = 0.05
# Queries to judge before the first look: fewer say too little of a variance.
FIRST = 20
EVENLY = 0.2
# Draws that chance disagreement counts for.
VIRTUAL = 2.0
RESAMPLES = 2_000


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """State between rounds.

    Attributes:
        draws: Queries drawn so far; all of them are judged before a look.
        remaining: The cells that may be the best, by number.
        leading: The one that was ahead at the last look; None before the first.
        spent: Error probability of the looks so far.
    """

    draws: Draws
    remaining: tuple[int, ...]
    leading: int | None = None
    spent: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof:
    """What the verdicts so far prove.

    Attributes:
        chosen: The cell, by number.
        bound: It is below the best by no more, with 95% over all looks; 0 where it is proved the best.
        cells: [k], those compared: the remaining before this look.
        regret: [k], the bound of each of them.
        estimated: Their means and covariance; means of queries by weight, unbiased.
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
    left = rounds.draws.left
    costs = returned.of(np.array(rounds.remaining)).needed[left].sum(axis=1)
    more = verdicts / max(1.0, float(costs.mean())) if len(left) else 0.0
    return proof.expected(proof.judged + more)


def gaps(rounds: Rounds, proof: Proof) -> Floats:
    """Return how far each remaining cell is estimated below the leading one.

    Args:
        rounds: State after the look.
        proof: What it proved.
    """
    means = proof.estimated.values[np.searchsorted(proof.cells, rounds.remaining)]
    below: Floats = (0.0 if rounds.leading is None else means[rounds.remaining.index(rounds.leading)]) - means
    return below


def begin(order: tuple[int, ...], total: int, cells: int) -> Rounds:
    """Return the state with the first queries drawn: the beginning of a random order of all."""
    return Rounds(draws=drawn_evenly(order, total), remaining=tuple(range(cells)))


def next_queries(rounds: Rounds, returned: Returned, more: int, seed: int, favoured: Floats | None = None) -> Rounds:
    """Draw further queries for the remaining cells; the same seed and state draw the same.

    Args:
        rounds: State after a look, or before the first, when all are drawn evenly.
        returned: Of all cells.
        more: Number of queries.
        seed: Seed of the draws.
        favoured: As in `chances`.
    """
    own = returned.of(np.array(rounds.remaining))
    rng = np.random.default_rng([seed, len(rounds.draws.queries)])
    return replace(rounds, draws=draw(rounds.draws, chances(rounds, own, favoured), more, rng))


def chances(rounds: Rounds, own: Returned, favoured: Floats | None = None) -> Floats:
    """Return the probabilities [N] in proportion, for a query drawn next.

    Args:
        rounds: The state.
        own: What the remaining cells return.
        favoured: [N], what most of the probability is in proportion to (`drawn_verdicts.Buying`), where that is known;
            None for the share of returned chunks that differ, over the root of what it costs.
    """
    total, left = rounds.draws.total, rounds.draws.left
    if rounds.leading is None or not len(left):
        return np.ones(total)
    if favoured is None:
        costs = np.maximum(1, own.needed.sum(axis=1))
        favoured = np.sqrt(own.differing(rounds.remaining.index(rounds.leading)) / costs)
    share = favoured[left].sum()
    mixed: Floats = EVENLY / len(left) + (1 - EVENLY) * (
        favoured / share if share > 0 else np.full(total, 1 / len(left))
    )
    return mixed


def look(
    rounds: Rounds,
    judged: Floats,
    proxy: Floats,
    returned: Returned,
    *,
    margin: float,
    seed: int,
    errors: Floats | None = None,
) -> tuple[Rounds, Proof]:
    """Say what is proved, and drop cells that are proved worse than another.

    Args:
        rounds: State whose drawn queries are all judged in the remaining cells.
        judged: [N, cells], read where a query was drawn and a cell remains; else it may be NaN.
        proxy: [N, cells], finite.
        returned: Of all cells.
        margin: Wanted bound; of cells that are within it the one with the highest shrunk mean is chosen.
        seed: Seed of the simulated deviations.
        errors: [N, steps, cells], read likewise, where verdicts were drawn within queries: whose squares add up to the
            variance of a judged score (`drawn_verdicts.expected_scores`).
    """
    cells, n = np.array(rounds.remaining), len(rounds.draws.queries)
    own = returned.of(cells)
    spent = ALPHA * float(np.sqrt(n / rounds.draws.total))
    estimated = _estimated(rounds.draws, judged[:, cells], proxy[:, cells], own)
    if errors is not None:
        estimated = _with_variance_within(estimated, rounds.draws, errors[:, :, cells], own)
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
    return after, _proof(
        compared.quantiles, compared.regret, compared.candidates, cells, chosen, estimated, rounds.draws
    )


def _estimated(draws: Draws, judged: Floats, proxy: Floats, own: Returned) -> Estimated:
    """Return means, with the covariance that allows for disagreement that was not seen."""
    rows, left = list(draws.queries), draws.left
    if not own.decides[left].any():
        # On the others all cells score the same: proxies stand for them, and differences are certain.
        values = (judged[rows].sum(axis=0) + proxy[left].sum(axis=0)) / draws.total
        return Estimated(values=values, covariance=np.zeros((len(values),) * 2), freedom=len(rows) - 1, weight=1.0)
    estimated = estimate(draws, judged, proxy)
    chance, seen = own.likeness(left), estimated.covariance
    first = int(estimated.values.argmax())
    # Of differences and of the means themselves: where differences are few, only the latter tell how often labels err.
    ratio = max(
        float(part(seen).sum()) / max(float(part(chance).sum()), 1e-12)
        for part in (lambda matrix: _apart(matrix, first), np.diag)
    )
    mixed = (len(rows) * seen + VIRTUAL * ratio * chance) / (len(rows) + VIRTUAL)
    return replace(estimated, covariance=mixed)


def _with_variance_within(estimated: Estimated, draws: Draws, errors: Floats, own: Returned) -> Estimated:
    """Add the variance of judged scores: the part that the variance between the drawn ones does not hold already.

    That is of Σ wₘ² Vₘ / n² the share wₘ n / N of each: all where all were drawn. Where the others need no verdict, wₘ
    is n / N.
    """
    n = len(draws.queries)
    weights = draw_weights(draws) if own.decides[draws.left].any() else np.full(n, n / draws.total)
    root = np.sqrt(np.maximum(0.0, weights) / (n * draws.total))
    parts = (root[:, None, None] * errors[list(draws.queries)]).reshape(-1, errors.shape[2])
    return replace(estimated, covariance=estimated.covariance + parts.T @ parts)


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


def _proof(
    quantiles: Floats, regret: Floats, candidates: Bools, cells: Places, chosen: int, estimated: Estimated, draws: Draws
) -> Proof:
    rivals = np.flatnonzero(candidates)
    error = np.sqrt(np.maximum(0.0, _apart(estimated.covariance, chosen)))[rivals]
    lead = (estimated.values - estimated.values[chosen])[rivals]
    decides = int((lead + quantiles[rivals] * error).argmax())
    return Proof(
        chosen=int(cells[chosen]),
        bound=float(regret[chosen]),
        cells=tuple(cells.tolist()),
        regret=regret,
        estimated=estimated,
        judged=len(draws.queries),
        total=draws.total,
        quantile=float(quantiles[rivals][decides]),
        lead=float(lead[decides]),
        error=float(error[decides]),
    )
