"""Conditions on a figure as text, such as `>= 0.8`. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from retrievers.text.quoting import quoted

# Bounded, so that typing errors are refused at once.
NUMBER = r"[-+]?(?:\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,2})?"
CRITERION = re.compile(rf"\s*(<=|>=|==|<|>)\s*({NUMBER})\s*")
WRITTEN = re.compile(r"\s*([^\s<>=]+)\s*([<>=]+)\s*(.*)")


def by_metric(written: Any) -> Any:
    """Parse conditions written as text, `scope/false_answer <= 0.1`, to metric and condition; leave others as they are.

    Args:
        written: A text, several separated by commas, a list of such texts; anything else is for others to check.

    Raises:
        ValueError: A text is not a metric and a condition.
    """
    if isinstance(written, str):
        written = written.split(",")
    if not isinstance(written, list | tuple):
        return written
    conditions = {}
    for text in written:
        parts = WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            raise ValueError("expected a metric and a condition such as 'scope/false_answer <= 0.1'")
        if parts[1] in conditions:
            raise ValueError(f"{quoted(parts[1])} is given two conditions; leave one of them out")
        conditions[parts[1]] = f"{parts[2]} {parts[3]}"
    return conditions


def checked_conditions(conditions: Mapping[str, str]) -> Mapping[str, str]:
    """Return the conditions by metric, such as `>= 0.8`.

    Raises:
        ValueError: One of them cannot be read.
    """
    for metric, condition in conditions.items():
        if not CRITERION.fullmatch(condition):
            raise ValueError(f"{metric}: expected a condition such as '>= 0.8', got {quoted(condition)}")
    return conditions
