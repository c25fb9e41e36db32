"""Cohen's kappa against scikit-learn."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from evals.stats.kappa import cohens_kappa


@given(st.integers(2, 4).flatmap(lambda size: st.lists(st.integers(0, 30), min_size=size**2, max_size=size**2)))
def test_equals_scikit_learn(cells: list[int]) -> None:
    size = round(len(cells) ** 0.5)
    counts = np.array(cells).reshape(size, size)
    pairs = np.repeat(np.indices((size, size)).reshape(2, -1), cells, axis=1)
    assume(len(np.unique(pairs)) > 1)  # undefined there
    expected = cohen_kappa_score(*pairs)
    assert cohens_kappa(counts.astype(float)) == pytest.approx(expected, abs=1e-12)


def test_many_tables_at_once() -> None:
    one_class = [[7.0, 0.0], [0.0, 0.0]]
    assert cohens_kappa(np.array([one_class, [[3.0, 0.0], [0.0, 4.0]]])).tolist() == [0, 1]
    assert cohens_kappa(np.zeros((5, 6, 3, 3))).shape == (5, 6)
