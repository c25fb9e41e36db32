from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.config.values import MOST, integers, numbers


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("0:0.2:0.05", (0.0, 0.05, 0.1, 0.15, 0.2)),
        ("1:4", (1.0, 2.0, 3.0, 4.0)),
        ("5", (5.0,)),
        (0.15, (0.15,)),
        (3, (3.0,)),
        ("1, 3,2", (1.0, 2.0, 3.0)),
        ("[1, 2]", (1.0, 2.0)),
        ([0.3, "0.1:0.3:0.1", "0.30"], (0.1, 0.2, 0.3)),
        (["1", "10:20:5"], (1.0, 10.0, 15.0, 20.0)),
        ("2:2", (2.0,)),
        ("1e-1:3e-1:1e-1", (0.1, 0.2, 0.3)),
    ],
)
def test_values_are_ascending_each_once_with_both_ends(written: Any, values: tuple[float, ...]) -> None:
    assert numbers(written) == values


@given(
    first=st.integers(-1000, 1000),
    steps=st.integers(0, 200),
    step=st.integers(1, 500),
    places=st.integers(0, 6),
)
def test_a_range_is_exact_in_decimals(first: int, steps: int, step: int, places: int) -> None:
    exact = [Decimal(first + step * number).scaleb(-places) for number in range(steps + 1)]
    written = f"{exact[0]}:{exact[-1]}:{Decimal(step).scaleb(-places)}"
    assert numbers(written) == tuple(float(value) for value in exact)
    assert [repr(value) for value in numbers(written)] == [repr(float(str(value))) for value in exact]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("0:1:0.3", "0:1:0.3: steps of 0.3 lead from 0 to 0.9 or 1.2 and miss 1"),
        ("2:1", "2:1: a range goes from the lower value to the higher, found 2 before 1"),
        ("1:2:0", "the step must be above 0, found 0"),
        ("1:2:-1", "the step must be above 0, found -1"),
        ("a", "expected numbers such as 5, a list of them, or a range such as 1:20 or 0:0.95:0.05"),
        ("1:2:3:4", "found '1:2:3:4'"),
        ("", "found ''"),
        ("1,,2", "found ''"),
        ("nan", "expected finite numbers, found 'nan'"),
        ("1e400", "expected numbers of at most 40 characters, up to 1e300 and down to 1e-300, found '1e400'"),
        ("0:20:1e-999999", "down to 1e-300, found '0:20:1e-999999'"),
        ("1" * 5_000, "expected numbers of at most 40 characters"),
        (["0:1:0.001"] * 11, f"holds more than {MOST:,} values"),
        ("0:1e9", f"0:1e9: holds more than {MOST:,} values"),
        (True, "found True"),
        (None, "found None"),
        ({"a": 1}, "found {'a': 1}"),
    ],
)
def test_what_is_no_range_is_refused_with_what_was_found(written: Any, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        numbers(written)
    assert said in str(raised.value)


def test_whole_numbers_are_whole() -> None:
    assert integers("1:20") == tuple(range(1, 21))
    assert integers("2.0") == (2,)
    with pytest.raises(ValueError, match=r"expected whole numbers, found 0\.5"):
        integers("0:1:0.5")


def test_what_is_shown_of_a_long_text_is_short() -> None:
    with pytest.raises(ValueError) as raised:
        numbers("x" * 100_000)
    assert len(str(raised.value)) < 300
