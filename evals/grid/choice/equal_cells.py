"""Cells that scored the same on every query are one."""

import numpy as np
from numpy.typing import NDArray

from evals.grid.choice.standings import Floats

# ragas' perfect precision is 1 − 1e-10 / relevant: no difference.
DECIMALS = 9


def merge(values: Floats, preference: NDArray[np.intp]) -> tuple[tuple[int, ...], ...]:
    """Group columns with identical values, the preferred column first; the groups in the order of their first.

    Args:
        values: [queries, cells].
        preference: The columns to be grouped, in the order in which they are preferred.
    """
    rounded = np.ascontiguousarray((np.round(values, DECIMALS) + 0.0).T)
    groups: dict[bytes, list[int]] = {}
    for column in preference.tolist():
        groups.setdefault(rounded[column].tobytes(), []).append(column)
    return tuple(tuple(group) for group in groups.values())
