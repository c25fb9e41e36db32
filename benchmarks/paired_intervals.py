"""Intervals of a mean difference between two runs with many ties: do they hold it, and agree with the test?

python benchmarks/paired_intervals.py [--samples 1000]

Samples of n differences within [-1, 1] by the share of ties, from all populations of `tests/numbers/test_intervals.py`.
Of each method: the least and the median coverage of the true mean over the populations; the largest share of samples in
which the interval excludes 0 although the sign-flip test has p ≥ 0.05; the median width as a multiple of Student's.

- ours: the interval of `evals.stats.paired`.
- bounds: that of `evals.stats.intervals.bounded_intervals` alone.
- Student: the t interval.
- signs: the sign-flip test inverted, all δ that it does not reject after δ was taken from every difference.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from evals.stats.intervals import bounded_intervals, student_intervals
from evals.stats.paired import ALPHA, EXACT, difference_intervals, sign_flip
from tests.numbers.worlds import DIFFERENCES, tied

Floats = NDArray[np.float64]
SIZES = (20, 40, 80, 225)
TIES = (0.0, 0.5, 0.75, 0.9, 0.95, 0.98)
METHODS = ("ours", "bounds", "Student", "signs")
SIGNS = 9_999
NEAR = 0.01
"""Drawn p values so near 5% are replaced by exact ones."""


def main() -> None:
    """Simulate and print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000)
    samples = parser.parse_args().samples
    print(f"| ties | n | {' | '.join(METHODS)} |\n|---|---|{'---|' * len(METHODS)}")
    for share in TIES:
        for n in SIZES:
            rows = simulate(share, n, samples)
            print(f"| {share:.0%} | {n} | {' | '.join(summary(rows[method]) for method in METHODS)} |", flush=True)


def simulate(share: float, n: int, samples: int) -> dict[str, Floats]:
    """Every method's [populations, 3]: coverage, share in conflict with the test, mean width over Student's."""
    rng = np.random.default_rng(n)
    rows: dict[str, list[list[float]]] = {}
    for sizes, mean in DIFFERENCES.values():
        differences = tied(sizes, share, rng, (n, samples))
        accepted = p_values(differences, rng) >= ALPHA
        ends = intervals(differences, accepted)
        student = np.mean(np.subtract(*ends["Student"][::-1]))
        for method, (low, high) in ends.items():
            covered = (low <= (1 - share) * mean + 1e-9) & ((1 - share) * mean - 1e-9 <= high)
            conflict = accepted & ((low > 0) | (high < 0))
            width = (high - low).mean() / student if student > 1e-9 else np.nan
            rows.setdefault(method, []).append([covered.mean(), conflict.mean(), width])
        held = p_values(differences - (1 - share) * mean, rng) >= ALPHA
        rows.setdefault("signs", []).append([held.mean(), 0.0, np.nan])
    return {method: np.array(found) for method, found in rows.items()}


def intervals(differences: Floats, accepted: NDArray[np.bool_]) -> Mapping[str, tuple[Floats, Floats]]:
    """Lower and upper ends [samples] by method.

    Args:
        differences: [n, samples].
        accepted: Samples of which the test does not reject 0.
    """
    low, high = difference_intervals(differences, 1.0)
    return {
        "ours": (np.where(accepted, np.minimum(low, 0), low), np.where(accepted, np.maximum(high, 0), high)),
        "bounds": bounded_intervals(differences, -1.0, 1.0),
        "Student": student_intervals(differences),
    }


def p_values(differences: Floats, rng: np.random.Generator) -> Floats:
    """Of the sign-flip test [samples]: from the same drawn signs for all samples, exact where it matters and can be."""
    sizes, observed = np.abs(differences), np.abs(differences.sum(axis=0)) - 1e-9
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), (SIGNS, len(sizes)))
    hits = (np.abs(signs @ sizes.astype(np.float32)) >= observed - 1e-5).sum(axis=0)
    drawn: Floats = (hits + 1) / (SIGNS + 1)
    moved = (sizes > 0).sum(axis=0)
    for place in np.flatnonzero((moved <= EXACT) & (np.abs(drawn - ALPHA) < NEAR)):
        drawn[place] = sign_flip(differences[:, place], seed=0)[0]
    return drawn


def summary(rows: Floats) -> str:
    """Of all populations: least and median coverage, largest conflict, median width."""
    covered, conflict, width = rows.T
    wide = f"; {np.nanmedian(width):.2f}" if np.isfinite(width).any() else ""
    return f"{covered.min():.3f}, {np.median(covered):.3f}; {conflict.max():.3f}{wide}"


if __name__ == "__main__":
    main()
