"""Values of settings as text: numbers of a sweep (a list, `1:20`, `0:0.95:0.05`), conditions (`>= 0.8`). Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from retrievers.text.quoting import quoted

# More values than this are a typing error.
MOST = 10_000
# Characters and power of ten of a number: what a float can hold.
LONGEST, LARGEST_EXPONENT = 40, 300
WRITTEN = "expected numbers such as 5, a list of them, or a range such as 1:20 or 0:0.95:0.05 (first:last:step)"


def numbers(written: Any) -> tuple[float, ...]:
    """Return the values, ascending, each once.

    A range counts in decimals from its first value by its step (1 when left out) to its last, which it must hit: the
    fourth value of `0:0.95:0.05` is 0.15, not 0.15000000000000002.

    Args:
        written: A number, a text, or a list of numbers and texts; a text is a number, a range, or several by commas.

    Raises:
        ValueError: It says what was expected and what was found.
    """
    values = [*islice((value for part in _parts(written) for value in _values(part)), MOST + 1)]
    if len(values) > MOST:
        raise ValueError(f"{quoted(written)}: holds more than {MOST:,} values")
    return tuple(map(float, sorted(set(values))))


def integers(written: Any) -> tuple[int, ...]:
    """Return `numbers` that must be whole.

    Raises:
        ValueError: One of them is not, or `numbers` cannot read them.
    """
    values = numbers(written)
    if broken := [value for value in values if not value.is_integer()]:
        raise ValueError(f"expected whole numbers, found {broken[0]:g}")
    return tuple(map(int, values))


def _parts(written: Any) -> Iterator[str]:
    match written:
        case str():
            yield from (part.strip() for part in written.strip().removeprefix("[").removesuffix("]").split(","))
        case bool():
            raise ValueError(f"{WRITTEN}, found {quoted(written)}")
        case int() | float() | Decimal():
            yield str(written)  # of a float the shortest text that means it
        case Sequence():
            for part in written:
                yield from _parts(part)
        case _:
            raise ValueError(f"{WRITTEN}, found {quoted(written)}")


def _values(part: str) -> list[Decimal]:
    pieces = part.split(":")
    if len(pieces) > 3:
        raise ValueError(f"{WRITTEN}, found {quoted(part)}")
    first, *rest = (_number(piece, part) for piece in pieces)
    if not rest:
        return [first]
    last, step = rest[0], rest[1] if len(rest) == 2 else Decimal(1)
    if step <= 0 or last < first:
        raise ValueError(f"{part}: expected a range from the lower value to the higher, by a step above 0")
    if (last - first) / step >= MOST:
        raise ValueError(f"{part}: holds more than {MOST:,} values")
    steps, left = divmod(last - first, step)
    if left:
        below = last - left
        raise ValueError(f"{part}: steps of {step} lead from {first} to {below} or {below + step} and miss {last}")
    return [first + step * number for number in range(int(steps) + 1)]


def _number(piece: str, part: str) -> Decimal:
    try:
        value = Decimal(piece.strip())
    except InvalidOperation:
        raise ValueError(f"{WRITTEN}, found {quoted(part)}") from None
    if not value.is_finite() or len(piece) > LONGEST or abs(value.adjusted()) > LARGEST_EXPONENT:
        raise ValueError(
            f"expected finite numbers of at most {LONGEST} characters, up to 1e{LARGEST_EXPONENT}, found {quoted(part)}"
        )
    return value


# Bounded, so that typing errors are refused at once.
FIGURE = r"[-+]?(?:\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,2})?"
CRITERION = re.compile(rf"\s*(<=|>=|==|<|>)\s*({FIGURE})\s*")
CONDITION = re.compile(r"\s*([^\s<>=]+)\s*([<>=]+)\s*(.*)")


def by_metric(written: Any) -> Any:
    """Parse conditions written as text, `scope/false_answer <= 0.1`, to metric and condition; leave others as they are.

    Args:
        written: A text, several separated by commas, a list of such texts; anything else is for others to check.

    Raises:
        ValueError: A text is not a metric and a condition.
    """
    texts = written.split(",") if isinstance(written, str) else written
    if not isinstance(texts, list | tuple):
        return written
    conditions: dict[str, str] = {}
    for text in texts:
        parts = CONDITION.fullmatch(text) if isinstance(text, str) else None
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
