"""Counts of drawn places against counting them one by one."""

import numpy as np
import pytest

from evals.stats import resampling as draws
from evals.stats.resampling import drawn_counts


def test_counts_by_hand() -> None:
    assert drawn_counts(np.array([[0, 2, 2], [1, 1, 1]]), 4).tolist() == [[1, 0, 2, 0], [0, 3, 0, 0]]


@pytest.mark.parametrize("cached", [1, 13, 50_000])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 4), (3, 9)])
def test_every_sample_is_counted_by_itself(
    shape: tuple[int, ...], cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once or in parts."""
    monkeypatch.setattr(draws, "CACHED", cached)
    places = np.random.default_rng(0).integers(0, 6, shape)
    expected = [(places == place).sum(axis=-1) for place in range(6)]
    assert np.array_equal(drawn_counts(places, 6), np.stack(expected, axis=-1))
