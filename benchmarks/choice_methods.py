"""Which method finds the best cells of a grid: simulated beside one another, from populations whose truth is known.

python benchmarks/choice_methods.py [--draws 100] [--queries 40,225] [--only NAME]

Shown of every method: how often the set keeps a truly best cell, its size as a share of all cells, how often the lower
bound of any cell fails, how often a cheaper cell is preferred, and how often it is worse by more than the margin.

- ours: step-down comparisons with the best that reckon with losses not seen (`evals.grid.choice`).
- plain: Hsu's multiple comparisons with the best, as in the textbook.
- step-down: max-T of Romano & Wolf (2005) against the best as measured, as in the textbook. It has no bounds.
- MCS max, MCS range: the model confidence set of Hansen, Lunde & Nason (2011, Econometrica 79) with their statistics
  T_max and T_R, by the bootstrap of queries, at 5%. It has no bounds.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from evals.grid.choice import ObjectiveScores, choose
from evals.grid.choice.equal_cells import merge
from evals.grid.choice.resample import resample
from tests.support.populations import POPULATIONS, Population, population
from tests.support.step_down import step_down

Floats = NDArray[np.float64]
MARGIN = 0.02
RESAMPLES = 400


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a method says of one sample: members and bounds of all cells, and the cheaper cell it prefers, if any."""

    members: NDArray[np.bool_]
    lower: Floats | None = None
    preferred: int | None = None


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--queries", default="40,225")
    parser.add_argument("--only", choices=list(POPULATIONS))
    given = parser.parse_args()
    print(f"{'population':<36} {'n':>4} {'method':<10}  keeps   size  bound fails  prefers  wrongly")
    for n in map(int, given.queries.split(",")):
        for name in [given.only] if given.only else POPULATIONS:
            for label, method in METHODS.items():
                report(name, n, label, method, given.draws)


def report(name: str, n: int, label: str, method: "Method", draws: int) -> None:
    """One line: a method at n queries of a population."""
    known = population(name)
    behind, rng = known.truth - known.truth.max(), np.random.default_rng(n)
    kept, size, fails, prefers, wrongly = 0, 0.0, 0, 0, 0
    for _ in range(draws):
        found = method(known.draw(n, rng), known)
        kept += bool(found.members[known.best].any())
        size += float(found.members.mean())
        fails += found.lower is not None and bool((found.lower > behind + 1e-9).any())
        prefers += found.preferred is not None
        wrongly += found.preferred is not None and bool(behind[found.preferred] < -MARGIN)
    bounds = "      –        –        –" if label not in ("ours", "plain") else (
        f"{fails / draws:>7.3f}  {prefers / draws:>7.3f}  {wrongly / draws:>7.3f}"
    )  # fmt: skip
    print(f"{name:<36} {n:>4} {label:<10} {kept / draws:>6.3f}  {size / draws:>5.2f}      {bounds}", flush=True)


def ours(values: Floats, known: Population) -> Outcome:
    """`evals.grid.choice`."""
    scores = ObjectiveScores(objective="", values=values, strata=np.zeros(len(values), dtype=np.int64))
    choice = choose(scores, known.cells, margin=MARGIN, resamples=RESAMPLES)
    members, lower = np.zeros(len(known.cost), dtype=np.bool_), np.zeros(len(known.cost))
    for standing in choice.standings:
        members[list(standing.members)] = standing.in_set
        lower[list(standing.members)] = standing.lower
    preferred = None if choice.recommended is choice.best else choice.recommended.cell
    return Outcome(members=members, lower=lower, preferred=preferred)


def plain(values: Floats, known: Population) -> Outcome:
    """Hsu's multiple comparisons with the best, with the standard errors as measured."""
    groups, columns, errors, deviations = _prepared(values, known)
    mean = columns.mean(axis=0)
    weights = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0)
    quantiles = np.array(
        [np.quantile(((deviations - deviations[:, [j]]) * weights[:, j]).max(axis=1), 0.95) for j in range(len(mean))]
    )
    bounds = mean[:, None] - mean[None, :] - quantiles * errors
    np.fill_diagonal(bounds, 0.0)
    inside = bounds.max(axis=0) <= 1e-12
    lower = np.minimum(0.0, bounds[:, inside].min(axis=1))
    cost = known.cost[[group[0] for group in groups]]
    best = int((mean >= mean.max() - 1e-9).argmax())
    proved = np.flatnonzero((lower >= -MARGIN) & (cost < cost[best]))
    preferred = groups[proved[cost[proved].argmin()]][0] if proved.size else None
    return Outcome(members=_spread(groups, inside), lower=_spread(groups, lower), preferred=preferred)


def stepped(values: Floats, known: Population) -> Outcome:
    """Plain step-down max-T."""
    return Outcome(members=step_down(values, RESAMPLES, np.random.default_rng(0)))


def mcs_max(values: Floats, known: Population) -> Outcome:
    """Eliminate the cell furthest below the mean of those left, until that may be chance."""
    groups, columns, _, deviations = _prepared(values, known)
    mean, left = columns.mean(axis=0), np.arange(columns.shape[1])
    while len(left) > 1:
        moved = deviations[:, left] - deviations[:, left].mean(axis=1, keepdims=True)
        error = np.sqrt((moved**2).mean(axis=0))
        weights = np.divide(1.0, error, out=np.zeros_like(error), where=error > 1e-12)
        below = (mean[left].mean() - mean[left]) * weights
        if ((-moved * weights).max(axis=1) >= below.max() - 1e-12).mean() >= 0.05:
            break
        left = np.delete(left, below.argmax())
    return Outcome(members=_spread(groups, np.isin(np.arange(len(mean)), left)))


def mcs_range(values: Floats, known: Population) -> Outcome:
    """Eliminate the cell that another beats most clearly, until no difference of two may not be chance."""
    groups, columns, errors, deviations = _prepared(values, known)
    mean, left = columns.mean(axis=0), np.arange(columns.shape[1])
    weights = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0)
    ahead = (mean[:, None] - mean[None, :]) * weights
    while len(left) > 1:
        part, chosen = deviations[:, left], np.ix_(left, left)
        largest = np.zeros(len(part))
        for j in range(len(left)):
            largest = np.maximum(largest, (np.abs(part - part[:, [j]]) * weights[left, left[j]]).max(axis=1))
        if (largest >= np.abs(ahead[chosen]).max() - 1e-12).mean() >= 0.05:
            break
        left = np.delete(left, ahead[chosen].min(axis=1).argmin())
    return Outcome(members=_spread(groups, np.isin(np.arange(len(mean)), left)))


def _prepared(values: Floats, known: Population) -> tuple[tuple[tuple[int, ...], ...], Floats, Floats, Floats]:
    """Groups of equal cells, one column for each, errors of all differences, and resampled deviations."""
    groups = merge(values, np.argsort(known.cost, kind="stable"))
    columns = np.ascontiguousarray(values[:, [group[0] for group in groups]])
    covariance = np.atleast_2d(np.cov(columns.T, bias=True)) / len(values)
    own = np.diag(covariance)
    square = own[:, None] + own[None, :] - 2 * covariance
    drawn = resample(columns, np.zeros(len(values), dtype=np.int64), RESAMPLES, np.random.default_rng(0))
    return groups, columns, np.sqrt(np.where(square > 1e-14, square, 0.0)), drawn.astype(float)


def _spread(groups: tuple[tuple[int, ...], ...], found: NDArray[Any]) -> NDArray[Any]:
    """From groups to cells."""
    made = np.empty(sum(map(len, groups)), dtype=found.dtype)
    for group, value in zip(groups, found, strict=True):
        made[list(group)] = value
    return made


Method = Callable[[Floats, Population], Outcome]
METHODS: Mapping[str, Method] = {
    "ours": ours, "plain": plain, "step-down": stepped, "MCS max": mcs_max, "MCS range": mcs_range
}  # fmt: skip

if __name__ == "__main__":
    main()
