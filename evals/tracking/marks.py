"""Marks of kept reports whose run in MLflow is not complete: a hidden file beside each.

A mark is locked for as long as a living process writes the run; the system unlocks it at any end of that process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from evals.config.experiment import TrackingConfig
from retrievers.config.file_locks import FileLock, LockBusyError
from retrievers.text.secrets import redacted

SUFFIX = ".untracked"


class Mark:
    """The mark of a report, locked by this process.

    Attributes:
        run_id: Id of the run in MLflow; empty where it was not begun.
    """

    def __init__(self, file: Path, lock: FileLock, run_id: str) -> None:
        self._file, self._lock, self.run_id = file, lock, run_id

    def remove(self) -> None:
        """Remove it: the run is complete. A mark that a later run has put in its place stays."""
        if self._lock.is_of(self._file):
            self._file.unlink(missing_ok=True)


@contextmanager
def being_logged(report: Path, run_id: str = "") -> Iterator[Mark]:
    """Mark a report that this process has written, and now logs, as not logged until the mark is removed.

    The mark is locked before it can be seen, so that no other process takes the run for one that was left.

    Args:
        report: The file of the report; a mark of an earlier one goes with that.
        run_id: Id of its run in MLflow; empty where it is not begun.

    Raises:
        OSError: The mark cannot be written.
    """
    file = _mark_of(report)
    unseen = file.with_name(f"{file.name}.{os.getpid()}")
    with FileLock(unseen, create=True) as lock:
        unseen.write_text(run_id, encoding="utf-8")
        unseen.replace(file)
        yield Mark(file, lock, run_id)


@contextmanager
def marked(report: Path) -> Iterator[Mark | None]:
    """Mark a report as not logged until the mark is removed, or take over the mark of a process that has ended.

    Args:
        report: The file of the report.

    Yields:
        The mark, or None where another process writes the run, or has just written it.

    Raises:
        OSError: The mark cannot be written.
    """
    file = _mark_of(report)
    try:
        lock = FileLock(file, create=True)
    except LockBusyError:
        yield None
        return
    with lock:
        yield Mark(file, lock, file.read_text(encoding="utf-8").strip()) if lock.is_of(file) else None


def left_behind(folder: Path) -> list[Path]:
    """Return the reports of a folder whose mark no living process holds; marks without a report are left out."""
    left = []
    for mark in sorted(mark for mark in folder.glob(f".*{SUFFIX}") if mark.is_file()):
        # Its process may hold it, or remove it at this moment.
        with suppress(LockBusyError, OSError), FileLock(mark, shared=True):
            left.append(folder / mark.name.removeprefix(".").removesuffix(SUFFIX))
    return [report for report in left if report.is_file()]


def late_command(report: Path, config: TrackingConfig | None = None) -> str:
    """Return the command that writes the run of a report: where its settings say, or else by default."""
    given = (config.model_dump(include={"uri", "experiment"}, exclude_defaults=True) if config else {}).items()
    flags = [f"--tracking.{name} {quote(redacted(value))}" for name, value in given if value]
    return " ".join(["python -m evals.tracking", quote(str(report)), *flags])


def _mark_of(report: Path) -> Path:
    return report.with_name(f".{report.name}{SUFFIX}")
