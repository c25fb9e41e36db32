"""Agreement by published examples, by scikit-learn, and by the definition."""

import random
from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from evals.golden.labels import agreement, krippendorff_alpha
from tests.evals.golden.test_labelling import label, labelled

# Krippendorff (2011), example C: 4 observers, 12 units, values 1 to 5; alpha ordinal 0.815.
EXAMPLE = [
    [1, 1, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4], [4, 4, 4, 4], [1, 1, 2, 1],
    [2, 2, 2, 2], [5, 5, 5], [1, 1], [3],
]  # fmt: skip


def test_the_published_example() -> None:
    assert krippendorff_alpha(EXAMPLE, most=5) == pytest.approx(0.815, abs=5e-4)


def by_definition(units: list[list[int]], most: int) -> float:
    """1 − the mean distance within units over that of all pairs, pair by pair."""
    paired = [unit for unit in units if len(unit) > 1]
    values = [value for unit in paired for value in unit]
    counts = [values.count(grade) for grade in range(most + 1)]

    def distance(a: int, b: int) -> float:
        low, high = sorted((a, b))
        return (sum(counts[low : high + 1]) - (counts[low] + counts[high]) / 2) ** 2

    within = sum(sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in paired)
    every = sum(distance(a, b) for a, b in permutations(values, 2)) / (len(values) - 1)
    return 1 - within / every


def test_random_grades_have_alpha_by_its_definition() -> None:
    rng = random.Random(1)
    for _ in range(20):
        units = [[rng.randint(0, 3) for _ in range(rng.randint(1, 4))] for _ in range(8)]
        assert krippendorff_alpha(units) == pytest.approx(by_definition(units, 3), abs=1e-12)


@pytest.mark.parametrize("units", [[], [[1], [2]], [[2, 2], [2, 2, 2]]])
def test_alpha_is_not_computable_where_nothing_could_disagree(units: list[list[int]]) -> None:
    assert krippendorff_alpha(units) is None


def test_perfect_agreement_is_1() -> None:
    assert krippendorff_alpha([[0, 0], [3, 3], [1, 1]]) == pytest.approx(1.0)


def test_kappa_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        both = rng.integers(0, 4, size=(2, 30)).tolist()
        given = [
            label(str(n), g, name) for name, own in zip(("ada", "bob"), both, strict=True) for n, g in enumerate(own)
        ]
        expected = cohen_kappa_score(*both)
        assert agreement(labelled(given), {})[1] == f"Cohen's kappa of ada and bob: {expected:.3f} over 30 chunks"


def test_every_pair_and_the_judge_have_a_line() -> None:
    grades: dict[str, list[int | None]] = {"ada": [3, 0, 2, 0], "bob": [3, 0, 1, 1], "eve": [None, None, None, 0]}
    kept = labelled(
        [label(str(chunk), grade, name) for name, each in grades.items() for chunk, grade in enumerate(each)]
    )
    judge = {("q1", "0"): 1, ("q1", "1"): 0, ("q1", "2"): 0, ("q2", "0"): 1}
    lines = agreement(kept, judge)
    assert lines[0].startswith("Krippendorff's alpha (ordinal): 0.") and lines[0].endswith("over 4 chunks")
    assert lines[1:] == [
        "Cohen's kappa of ada and bob: 0.385 over 4 chunks",
        "Cohen's kappa of ada and eve: not computable (all say the same) over 1 chunks",
        "Cohen's kappa of bob and eve: 0.000 over 1 chunks",
        "ada and the judge: the same in 2 of 3 chunks, Cohen's kappa 0.400",
        "bob and the judge: the same in 2 of 3 chunks, Cohen's kappa 0.400",
    ]


def test_a_single_annotator_agrees_with_nobody_yet() -> None:
    assert agreement(labelled([label()]), {}) == ["Agreement: nothing was labelled by two yet"]
