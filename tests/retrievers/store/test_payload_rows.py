"""Payloads in memory and in a file are the same."""

from collections.abc import Mapping
from typing import Any

import pytest

from retrievers.store.chunk_table import PayloadRows


@pytest.mark.parametrize("in_memory", [0, 1, 2, 9])
def test_a_payload_is_found_by_its_number_wherever_it_is(in_memory: int) -> None:
    payloads: dict[int, Mapping[str, Any]] = {
        7: {"text": "größer 🤖 \u2028"},
        2: {"metadata": {"tags": ["a", None], "n": 1.5}},
        5: {},
    }
    rows = PayloadRows(in_memory)
    for number, payload in payloads.items():
        assert number not in rows
        rows.add(number, payload)
    assert {number: rows[number] for number in (2, 5, 7)} == payloads
    assert all(number in rows for number in payloads)
    assert 3 not in rows
    with pytest.raises(KeyError):
        rows[3]
