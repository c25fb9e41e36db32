"""Cells that scored the same on every query are one."""

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from evals.grid.choice.standings import Floats

# ragas' perfect precision is 1 − 1e-10 / relevant: no difference.
DECIMALS = 9
BLOCK = 16


def merge(values: Floats, preference: NDArray[np.intp]) -> tuple[tuple[int, ...], ...]:
    """Group columns with identical values, the preferred column first; the groups in the order of their first.

    Args:
        values: [queries, cells].
        preference: The columns to be grouped, in the order in which they are preferred.
    """
    groups: dict[bytes, list[int]] = {}
    # Columns a few at a time and by their hashes: of many queries a rounded copy of all would be gigabytes.
    for columns in np.array_split(preference, -(-len(preference) // BLOCK) or 1):
        rounded = np.ascontiguousarray((np.round(values[:, columns], DECIMALS) + 0.0).T)
        for column, scores in zip(columns.tolist(), rounded, strict=True):
            groups.setdefault(sha256(scores).digest(), []).append(column)
    return tuple(tuple(group) for group in groups.values())
