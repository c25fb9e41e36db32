"""Conditions on a figure, such as `>= 0.8`: how they are written. Pure."""

import re
from collections.abc import Mapping

CRITERION = re.compile(r"\s*(<=|>=|==|<|>)\s*([-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)\s*")


def checked_conditions(conditions: Mapping[str, str]) -> Mapping[str, str]:
    """The conditions themselves, metric to such as `>= 0.8`.

    Raises:
        ValueError: One of them cannot be read.
    """
    for metric, condition in conditions.items():
        if not CRITERION.fullmatch(condition):
            raise ValueError(f"{metric}: expected a condition such as '>= 0.8', got {condition!r}")
    return conditions
