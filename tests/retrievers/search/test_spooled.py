"""Columns in memory and in a file are the same."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from retrievers.search.spooled import SpooledColumn


@pytest.mark.parametrize("limit", [0, 20, 1_000])
def test_a_column_is_what_was_added_wherever_it_is(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    column: SpooledColumn[np.float64] = SpooledColumn(np.float64, limit)
    assert column.array().tolist() == []
    for start in range(0, 9, 3):
        column.append(np.arange(start, start + 3))
        assert column.array().tolist() == list(range(start + 3)), "it can be read and grow on"
    assert (len(column), column.array().dtype.name) == (9, "float64")
    assert isinstance(column.array(), np.memmap) == (limit < 72)
    values = column.array()
    del column
    assert values.sum() == 36, "it outlives what it came from"
    assert list(tmp_path.iterdir()) == [], "the file has no name"
