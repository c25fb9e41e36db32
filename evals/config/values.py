"""Values of settings in text: numbers of a sweep (a list, `1:20`, `0:0.95:0.05`), conditions (`>= 0.8`). Pure."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import chain
from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, PositiveInt

from retrievers.text.shown import quoted

# Most values of a range. More are taken for a typing error.
MOST = 10_000
WRITTEN = (
    "expected numbers such as 5, a list of them, or a range such as 1:20 or 0:0.95:0.05 (from the lowest to the "
    "highest, by a step above 0)"
)
# The number of digits is limited, so that typing errors are refused at once.
FIGURE = r"[-+]?(?:\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,2})?"
CRITERION = re.compile(rf"\s*(<=|>=|==|<|>)\s*({FIGURE})\s*")
METRIC = re.compile(r"\s*([^\s<>=]+)\s*(.*)")


def numbers(written: Any) -> tuple[float, ...]:
    """Return the values, ascending, each once.

    A range counts in decimals from its first value by its step (1 when left out) to its last value, which it must hit.
    So the fourth value of `0:0.95:0.05` is 0.15, not 0.15000000000000002.

    Args:
        written: A number, a text, or a list, a Python range or an array of numbers and texts. A text is a number, a
            range, or several of them with commas between.

    Raises:
        ValueError: The text is no number and no range. The message says what was expected and what was found.
    """
    texts = [*written] if isinstance(written, Iterable) and not isinstance(written, str | Mapping) else [written]
    parts = (part for text in texts for part in str(text).strip().removeprefix("[").removesuffix("]").split(","))
    return tuple(sorted({*chain.from_iterable(map(_range, parts))}))


def _range(part: str) -> list[float]:
    try:
        ends = [*map(Decimal, part.split(":"))]
        first, last, step = ends if len(ends) == 3 else (ends[0], ends[-1], Decimal(1))
        if len(ends) > 3 or not all(map(isfinite, ends)) or last < first or step <= 0:
            raise InvalidOperation
        steps, left = divmod(last - first, step)
    except ArithmeticError:
        raise ValueError(f"{WRITTEN}, got {quoted(part)}") from None
    if steps >= MOST:
        raise ValueError(f"{part}: holds more than {MOST:,} values")
    if left:
        end = f"{float(last - left):g}"
        raise ValueError(f"{part}: steps of {step} end at {end} and miss {last}; name one, as in 0:0.6:0.05")
    return [float(first + step * number) for number in range(int(steps) + 1)]


def conditions(written: Any) -> Any:
    """Return conditions by metric, such as `{scope/false_answer: '<= 0.1'}`. Other types are returned as they are.

    Args:
        written: A mapping; a text such as `scope/false_answer <= 0.1`, or several with commas between; or a list of
            such texts.

    Raises:
        ValueError: A text is not a metric and a condition, or a metric has two conditions.
    """
    texts = written.split(",") if isinstance(written, str) else written
    if isinstance(texts, list | tuple):
        pairs = [(match[1], match[2]) for text in texts if (match := METRIC.fullmatch(str(text)))]
        if len({metric for metric, _ in pairs}) < len(texts):
            raise ValueError("expected a condition for each metric, once, such as 'scope/false_answer <= 0.1'")
        written = dict(pairs)
    for metric, condition in written.items() if isinstance(written, Mapping) else ():
        if not CRITERION.fullmatch(str(condition)):
            raise ValueError(f"{metric}: expected a condition such as '>= 0.8', got {quoted(condition)}")
    return written


Numbers = Annotated[tuple[float, ...], BeforeValidator(numbers)]
WholeNumbers = Annotated[tuple[PositiveInt, ...], BeforeValidator(numbers)]
Conditions = Annotated[Mapping[str, str], BeforeValidator(conditions)]
