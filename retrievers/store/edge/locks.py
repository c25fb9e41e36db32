"""File locks that the system lets go of when the process ends, however it ends."""

import os
from pathlib import Path

import portalocker


class LockBusyError(Exception):
    """Another holder has the lock; never leaves this package."""


class FileLock:
    """A lock on a file, taken at once or not at all.

    Two locks conflict in one process as they do in two.

    Args:
        path: The file; an exclusive lock makes it when `create` is set, a shared one never writes.
        shared: Whether others may hold it at the same time (readers), or nobody else (a writer).
        create: Whether to make a missing file.

    Raises:
        LockBusyError: Somebody holds it.
        OSError: The file cannot be opened, or the file system cannot lock.
    """

    def __init__(self, path: Path, *, shared: bool = False, create: bool = False) -> None:
        self._fd: int | None = None
        mode = os.O_RDONLY if shared else os.O_RDWR | (os.O_CREAT if create else 0)
        descriptor = os.open(path, mode, 0o644)
        kind = portalocker.LockFlags.SHARED if shared else portalocker.LockFlags.EXCLUSIVE
        try:
            portalocker.lock(descriptor, kind | portalocker.LockFlags.NON_BLOCKING)
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

    def __del__(self) -> None:
        self.release()
