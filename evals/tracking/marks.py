"""Marks of kept reports whose run in MLflow is not complete: a hidden file beside each, locked while one is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrievers.config.file_locks import FileLock, LockBusyError

SUFFIX = ".untracked"


class Mark:
    """The mark of a report, locked by this process.

    Attributes:
        run_id: Id of the run in MLflow; empty where it was not begun.
    """

    def __init__(self, file: Path, run_id: str) -> None:
        self._file, self.run_id = file, run_id

    def remove(self) -> None:
        """Remove it: the run is complete."""
        self._file.unlink(missing_ok=True)


@contextmanager
def marked(report: Path, run_id: str = "") -> Iterator[Mark | None]:
    """Mark a report as not logged for as long as the mark is not removed, at any end of this process.

    Args:
        report: The file of the report.
        run_id: Id of its run in MLflow; that of an existing mark, or none, when empty.

    Yields:
        The mark, or None where another process writes the run at this moment.

    Raises:
        OSError: The mark cannot be written.
    """
    file = report.with_name(f".{report.name}{SUFFIX}")
    try:
        lock = FileLock(file, create=True)
    except LockBusyError:
        yield None
        return
    with lock:
        if run_id:
            file.write_text(run_id, encoding="utf-8")
        yield Mark(file, run_id or file.read_text(encoding="utf-8").strip())


def reports_marked(folder: Path) -> list[Path]:
    """Return the reports of a folder that have a mark, the oldest mark first; marks without a report are left out."""
    marks = sorted(folder.glob(f".*{SUFFIX}"), key=lambda mark: (mark.stat().st_mtime, mark.name))
    files = (folder / mark.name.removeprefix(".").removesuffix(SUFFIX) for mark in marks)
    return [file for file in files if file.is_file()]
