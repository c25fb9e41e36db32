"""Cells that scored the same on every query are one."""

import numpy as np

from evals.choice.records import Floats

DECIMALS = 9
"""ragas' perfect precision is 1 − 1e-10 / relevant: no difference."""


def merge(values: Floats, cost: Floats) -> tuple[tuple[int, ...], ...]:
    """Groups of columns with identical values, the cheapest column first; the groups by cost, then by number.

    Args:
        values: [queries, cells].
        cost: [cells].
    """
    rounded = np.ascontiguousarray((np.round(values, DECIMALS) + 0.0).T)
    groups: dict[bytes, list[int]] = {}
    for column in np.argsort(cost, kind="stable").tolist():
        groups.setdefault(rounded[column].tobytes(), []).append(column)
    return tuple(tuple(group) for group in groups.values())
