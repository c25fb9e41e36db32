"""Columns in memory and in a file are the same."""

import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest

from retrievers.search.spooled import SpooledColumn, release


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


@pytest.mark.parametrize("limit", [0, 1_000_000_000])
def test_a_released_column_is_read_again(limit: int) -> None:
    column: SpooledColumn[np.float64] = SpooledColumn(np.float64, limit)
    column.append(np.arange(4_000_000))
    values = column.array()
    assert values.sum() == 7_999_998_000_000
    before = resident_mb()
    release(values)
    assert before - resident_mb() == pytest.approx(32 if limit == 0 else 0, abs=3)
    assert values.sum() == 7_999_998_000_000


def resident_mb() -> float:
    """Return what of this process is in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
