"""Queries to groups that ask the same."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.golden.skeletons import clusters

AXES = {"fast": (1.0, 0.0), "quick": (0.9, 0.4359), "why": (0.0, 1.0)}


def embed(queries: Sequence[str]) -> NDArray[np.float64]:
    return np.asarray([AXES[query.lower().rstrip("?")] for query in queries])


def test_the_most_frequent_group_and_its_most_frequent_wording_come_first() -> None:
    asked = ["why?", "Fast", "quick", "fast", "fast?", "fast?", "quick"]
    found = clusters(asked, embed, 0.85)
    assert found == [["fast?", "fast?", "quick", "quick", "Fast", "fast"], ["why?"]]
    assert clusters(asked, embed, 0.95)[1] == ["quick", "quick"]


@pytest.mark.parametrize("asked", [[], ["why?"]])
def test_few_queries(asked: list[str]) -> None:
    assert clusters(asked, embed, 0.9) == [asked] * len(asked)
