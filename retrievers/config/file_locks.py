"""File locks that the system releases at any end of the process."""

import os
from pathlib import Path
from typing import Self

import portalocker


class LockBusyError(Exception):
    """Another holder has the lock; its callers say so in their own words."""


class FileLock:
    """A lock on a file, held from the start until it is released.

    Two locks conflict in one process as they do in two.

    Args:
        path: The file; an exclusive lock makes it when `create` is set, a shared one never writes.
        shared: True if others may hold it at the same time (readers), False for one holder (a writer).
        create: True to make a missing file.
        wait: True to wait for another holder, False to refuse at once.

    Raises:
        LockBusyError: Another holder has the lock, and `wait` is not set.
        OSError: The file cannot be opened, or the file system cannot lock.
    """

    def __init__(self, path: Path, *, shared: bool = False, create: bool = False, wait: bool = False) -> None:
        self._fd: int | None = None
        mode = os.O_RDONLY if shared else os.O_RDWR | (os.O_CREAT if create else 0)
        descriptor = os.open(path, mode, 0o644)
        flags = portalocker.LockFlags.SHARED if shared else portalocker.LockFlags.EXCLUSIVE
        try:
            portalocker.lock(descriptor, flags if wait else flags | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.AlreadyLocked as error:
            os.close(descriptor)
            raise LockBusyError(str(path)) from error
        except portalocker.LockException as error:
            os.close(descriptor)
            raise OSError(f"{path}: cannot be locked: {error}") from error
        self._fd = descriptor

    def release(self) -> None:
        """Let go; a second call does nothing."""
        descriptor, self._fd = self._fd, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()
