"""The smallest difference between two runs that a number of queries can prove. Pure."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from statistics import pstdev

from evals.golden.audit.section import AuditSection
from evals.golden.case import Case
from evals.stats.intervals import Z

# 80% of a normal distribution lie below: the power that is usually asked for.
POWER_QUANTILE = 0.8416212335729143
# Queries that must all change the same way, so that McNemar's exact test (two-sided, 5%) rejects: 2 · 0.5⁶ < 0.05.
FEWEST_CHANGED = 6
# Largest standard deviation of values from 0 to 1.
LARGEST = 0.5
# Correlation of two runs' scores of the same queries, where only one run is known.
ASSUMED_CORRELATION = 0.5
METRICS = {"hit rate": "hit_rate", "nDCG": "ndcg"}


def power(cases: Sequence[Case], scores: Mapping[str, Sequence[Mapping[str, float]]]) -> AuditSection:
    """Return what differences of hit rate and nDCG the in-scope queries can prove, all and by split.

    At 5% significance, two-sided, and 80% power, paired by query: (1.96 + 0.84) · s / √n, with s the standard deviation
    of the differences: measured between the runs, or √(2 · (1 − 0.5)) times that of the one run's scores, or without a
    run times the largest that scores from 0 to 1 can have. A difference of hit rates is at least 6 / n (McNemar).

    Args:
        cases: The golden queries.
        scores: Metric (a key of `METRICS`) to the scores of each run, by case id.
    """
    inside = [case for case in cases if case.in_scope]
    splits = sorted({case.split for case in inside if case.split})
    groups = {"all": len(inside)} | {split: sum(case.split == split for case in inside) for split in splits}
    figures: dict[str, object] = {}
    lines = []
    for title in METRICS:
        deviation, basis = deviation_of(scores.get(title, ()))
        least = {name: smallest_difference(deviation, n, binary=title == "hit rate") for name, n in groups.items() if n}
        figures[title] = {"deviation": deviation, "basis": basis, "smallest_difference": least}
        differences = ", ".join(f"{value:.3f} ({name}, n {groups[name]})" for name, value in least.items())
        lines.append(f"{title}: {differences or 'no query in scope'}; deviation {deviation:.3f}, {basis}")
    lines.append("a difference between two runs that is smaller is proved in fewer than 80% of the cases")
    return AuditSection(
        name="power", title="Smallest differences that can be proved", lines=tuple(lines), figures=figures
    )


def smallest_difference(deviation: float, n: int, *, binary: bool) -> float:
    """Return the smallest difference of means that n paired queries prove with 80% power, at most 1.

    Args:
        deviation: Standard deviation of the differences.
        n: Number of queries, at least 1.
        binary: True for scores of 0 or 1.
    """
    least = (Z + POWER_QUANTILE) * deviation / sqrt(n)
    return min(1.0, max(least, FEWEST_CHANGED / n) if binary else least)


def deviation_of(runs: Sequence[Mapping[str, float]]) -> tuple[float, str]:
    """Return the standard deviation of the differences between runs, and what it rests on."""
    pairs = []
    for first, second in combinations(runs, 2):
        differences = [second[key] - first[key] for key in first.keys() & second.keys()]
        if any(differences):
            pairs.append(pstdev(differences))
    if pairs:
        return max(pairs), f"the largest between {len(runs)} runs"
    if runs and len(runs[0]) > 1:
        own = pstdev(runs[0].values())
        if own:
            basis = f"from one run, taking its scores to have a correlation of {ASSUMED_CORRELATION:g} with another's"
            return sqrt(2 * (1 - ASSUMED_CORRELATION)) * own, basis
    basis = (
        f"the largest for scores of 0 to 1 with a correlation of {ASSUMED_CORRELATION:g}; --report shows the real one"
    )
    return sqrt(2 * (1 - ASSUMED_CORRELATION)) * LARGEST, basis
