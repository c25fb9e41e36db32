"""JSON with guards: no repeated key, no NaN or infinity, bounded nesting, every fault with its position."""

import json
import math
from collections import Counter
from typing import Any, NoReturn

from retrievers.text.quoting import quoted

MOST_DIGITS = 100


def load(text: str) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: It is not valid, or ambiguous; the fault, and where where that is known.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unambiguous,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_no_number,
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        raise ValueError(f"not valid JSON: {error.msg} at {line}column {error.colno}") from None
    except UnicodeEncodeError:
        raise ValueError("not valid JSON: half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise ValueError("not valid JSON: nested too deep") from None
    return value


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"not valid JSON: {quoted(twice)} is given twice; leave one of them out")
    return values


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"not valid JSON: a number of {len(digits):,} digits, expected at most {MOST_DIGITS}")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"not valid JSON: {quoted(number)} is larger than any number of a computer")
    return value


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"not valid JSON: {constant} is no JSON number")
