"""Agreement of annotators with each other, and with a judge. Pure.

Source: Krippendorff (2011), "Computing Krippendorff's alpha-reliability".
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from evals.golden.labelling.labels import MOST_GRADE, Standing
from evals.stats.kappa import cohens_kappa

Pair = tuple[str, str]
"""Case id and chunk id."""


def grades_by_pair(kept: Standing) -> dict[Pair, dict[str, int]]:
    """Return the grades of every query and chunk by annotator; skipped ones are left out."""
    result: dict[Pair, dict[str, int]] = {}
    for (annotator, case_id, chunk_id), label in kept.items():
        if label.grade is not None:
            result.setdefault((case_id, chunk_id), {})[annotator] = label.grade
    return result


def krippendorff_alpha(units: Sequence[Sequence[int]], most: int = MOST_GRADE) -> float | None:
    """Return Krippendorff's alpha for ordinal values: 1 − observed / expected disagreement.

    1 is perfect agreement, 0 that of chance; negative below chance. Units with one value tell nothing. The distance of
    two grades is the squared number of values between them, both ends counted half.

    Args:
        units: For each unit the grades that it got, 0 to `most`, from any number of annotators.
        most: The highest grade.

    Returns:
        None where no unit has two values, or all values are the same, so that nothing could disagree.
    """
    size = most + 1
    coincidences = np.zeros((size, size))
    for values in units:
        if len(values) < 2:
            continue
        counts = np.bincount(values, minlength=size).astype(float)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(values) - 1)
    totals = coincidences.sum(axis=0)
    n = totals.sum()
    if n == 0 or np.count_nonzero(totals) < 2:
        return None
    cumulated = np.cumsum(totals) - totals / 2
    distance = (cumulated[:, None] - cumulated[None, :]) ** 2
    observed = (coincidences * distance).sum()
    expected = (np.outer(totals, totals) * distance).sum() / (n - 1)
    return float(1 - observed / expected)


def kappa_of(first: Sequence[int], second: Sequence[int]) -> float | None:
    """Return Cohen's kappa of two annotators on the same units; None where both give all of them one grade."""
    grades = np.union1d(first, second)
    if len(grades) < 2:
        return None
    counts = np.zeros((len(grades), len(grades)))
    np.add.at(counts, (np.searchsorted(grades, first), np.searchsorted(grades, second)), 1)
    return float(cohens_kappa(counts))


def agreement(kept: Standing, judge: Mapping[Pair, int] | None = None) -> list[str]:
    """Return the agreement, a line each: alpha, kappa of every pair of annotators, and of each with the judge.

    Args:
        kept: The labels that count.
        judge: Verdicts of a judge, 1 useful or 0; a grade above 0 is the same as 1.
    """
    by_pair = grades_by_pair(kept)
    annotators = sorted({annotator for grades in by_pair.values() for annotator in grades})
    lines = []
    doubly = [list(grades.values()) for grades in by_pair.values() if len(grades) > 1]
    if doubly:
        lines.append(f"Krippendorff's alpha (ordinal): {_shown(krippendorff_alpha(doubly))} over {len(doubly)} chunks")
    for first, second in combinations(annotators, 2):
        both = [(grades[first], grades[second]) for grades in by_pair.values() if {first, second} <= grades.keys()]
        if both:
            kappa = kappa_of([a for a, _ in both], [b for _, b in both])
            lines.append(f"Cohen's kappa of {first} and {second}: {_shown(kappa)} over {len(both)} chunks")
    for annotator in annotators if judge else ():
        assert judge is not None
        both = [
            (int(grades[annotator] > 0), judge[pair])
            for pair, grades in by_pair.items()
            if annotator in grades and pair in judge
        ]
        if both:
            kappa = kappa_of([a for a, _ in both], [b for _, b in both])
            same = sum(a == b for a, b in both)
            lines.append(
                f"{annotator} and the judge: the same in {same} of {len(both)} chunks, Cohen's kappa {_shown(kappa)}"
            )
    return lines or ["Agreement: nothing was labelled by two yet"]


def _shown(value: float | None) -> str:
    return "not computable (all say the same)" if value is None else f"{value:.3f}"
