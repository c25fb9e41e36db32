"""Weights of several proxies of a judged score, from one regression on all of them. Pure.

Scores j of n judged queries are regressed on proxies p₁ … p_k that all queries have: golden labels and a cheaper judge,
say. Proxies enter one after another, each time the one whose part that the others do not explain (its residual on
those already in) explains most of j. That part enters with its own slope, shrunk by 1 − 1/F, F being its own statistic
with the degrees of freedom that are left, and the first for which F ≤ 1 ends it: it says no more than chance would.
So a second proxy changes the weights only as far as it adds to the first, and with one proxy this is the shrunk weight
of `corrected_mean`. Weights are kept at 0 and above, and their sum at 1 and below, by shortening the last step.

Least squares on all proxies at once has no such end: its variance grows by about k/n with every proxy that says
nothing, which is 7% for each of 15 queries.

Sources: Cochran, Sampling Techniques (3rd ed., 1977, section 7.12), difference estimator with several variables; Olkin
(1958), Biometrika 45, multivariate ratio estimation, whose weights add up to 1; Efroymson (1960), forward selection;
Copas (1983), JRSS B 45, shrinkage of regression by its F statistic.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import SAME

Floats = NDArray[np.float64]

# A regression of fewer has no residual to judge it by; every further proxy takes one more.
FEWEST_REGRESSED = 4


def shrunk_weights(judged: Floats, proxies: Sequence[Floats]) -> tuple[float, ...]:
    """Return the weight of each proxy, at least 0, their sum at most 1; columns share them.

    With one proxy it is λ = Cov/Var · (1 − 1/F), F = (n − 2) R²/(1 − R²), within 0 to 1. Covariances and variances are
    summed over columns. 0 where a proxy is constant, speaks against the judge or adds nothing to the others.

    Args:
        judged: [n, columns].
        proxies: [n, columns] each.
    """
    n, centred = len(judged), [scores - scores.mean(axis=0) for scores in (judged, *proxies)]
    moments = np.array([[float((a * b).sum()) for b in centred] for a in centred])
    own, shared, unexplained = moments[1:, 1:], moments[1:, 0], moments[0, 0]
    weights, chosen = np.zeros(len(proxies)), list[int]()
    while n >= FEWEST_REGRESSED + len(chosen):
        steps = {number: _residual(own, number, chosen) for number in range(len(proxies)) if number not in chosen}
        spreads = {number: float(step @ own @ step) for number, step in steps.items()}
        gains = {
            number: float(step @ shared) ** 2 / spreads[number]
            for number, step in steps.items()
            if spreads[number] > SAME**2 * judged.size + SAME * own[number, number] and step @ shared > 0
        }
        if not gains:
            break
        number = max(gains, key=gains.__getitem__)
        unexplained = max(0.0, unexplained - gains[number])
        chance = unexplained / (n - 2 - len(chosen))
        length = float(steps[number] @ shared) / spreads[number] * max(0.0, 1 - chance / gains[number])
        length = min(length, _longest(weights, steps[number]))
        if length <= 0:
            break
        weights = np.maximum(0.0, weights + length * steps[number])
        chosen.append(number)
    return tuple(weights.tolist())


def _residual(own: Floats, place: int, chosen: Sequence[int]) -> Floats:
    """Return what the chosen proxies leave of another one, as coefficients of all, its own 1."""
    step = np.zeros(len(own))
    step[list(chosen)] = -np.linalg.solve(own[np.ix_(chosen, chosen)], own[list(chosen), place])
    step[place] = 1.0
    return step


def _longest(weights: Floats, step: Floats) -> float:
    """Return how far a step can go until a weight is 0 or their sum is 1."""
    falling = step < 0
    room = float((-weights[falling] / step[falling]).min(initial=np.inf))
    slope = float(step.sum())
    return min(room, max(0.0, 1 - float(weights.sum())) / slope) if slope > 0 else room
