"""The setting that says which queries are judged."""

from typing import Any, Literal

Sample = Literal["all", "auto"] | int | float
"""Which queries are judged: all, a share below 1, a number of them, or as many as the interval of the mean needs."""


def read_sample(written: Any) -> Sample:
    """Return a sample as written in settings.

    Raises:
        ValueError: It is none.
    """
    expected = "expected all, auto, a share such as 0.1, or a number of queries from 2"
    if written in ("all", "auto"):
        return "all" if written == "all" else "auto"
    try:
        number = float(written)
    except (TypeError, ValueError):
        raise ValueError(expected) from None
    if isinstance(written, bool) or not (0 < number < 1 or (number >= 2 and number.is_integer())):
        raise ValueError(expected)
    return number if number < 1 else int(number)
