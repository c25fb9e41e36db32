"""Columns that grow: in memory up to a limit, and past it in a private file."""

import mmap
from tempfile import TemporaryFile
from typing import Any, Generic, TypeVar
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

LIMIT = 64_000_000
"""Bytes of one column that are held in memory."""
Item = TypeVar("Item", bound=np.generic)


class SpooledColumn(Generic[Item]):
    """A column that grows. Past the limit it is in a file without a name (mode 600), which ends with the process."""

    def __init__(self, dtype: type[Item], limit: int = LIMIT) -> None:
        self._dtype = dtype
        self._limit = limit
        self._parts: list[NDArray[Item]] = []
        self._held = 0
        self._count = 0
        self._file: Any = None

    def __len__(self) -> int:
        return self._count

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        part = np.ascontiguousarray(values, dtype=self._dtype)
        self._parts.append(part)
        self._held += part.nbytes
        self._count += len(part)
        if self._held > self._limit:
            self._spill()

    def array(self) -> NDArray[Item]:
        """Return the whole column; one in a file is mapped into memory page by page, as it is read."""
        if self._file is None:
            return np.concatenate([np.empty(0, dtype=self._dtype), *self._parts])
        self._spill()
        return np.memmap(self._file, dtype=self._dtype, mode="r")

    def _spill(self) -> None:
        if self._file is None:
            self._file = TemporaryFile()
            finalize(self, self._file.close)  # what is mapped into memory stays there
        for part in self._parts:
            part.tofile(self._file)
        self._file.flush()
        self._parts, self._held = [], 0


def release(column: NDArray[Any]) -> None:
    """Drop the pages of a column in a file from memory; one that is not in a file stays as it is."""
    # Pages that were read count as memory of the process until then. Not every system has the call.
    if isinstance(column.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        column.base.madvise(mmap.MADV_DONTNEED)
