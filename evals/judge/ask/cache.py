"""The verdict store: one SQLite file of JSON texts, so that no verdict is bought twice. Loading it executes nothing."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evals.judge.ask.database import COLUMNS, open_database
from evals.judge.ask.leases import Leases
from evals.judge.ask.store_faults import read_only, unusable

log = logging.getLogger(__name__)
DAY = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A verdict as it is kept.

    Attributes:
        model: `provider:name` that gave it.
        kind: Name of the response schema.
        answer: The verdict as JSON.
        tokens_in: Tokens it cost to ask, all attempts together.
    """

    model: str
    kind: str
    answer: str
    tokens_in: int
    tokens_out: int


class VerdictStore:
    """Verdicts by key; each `put` is on disk when it returns. Safe among threads and processes.

    A file that cannot be written is still read.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self.file = file
        self._clock = clock
        self._lock = threading.Lock()
        self._used: set[bytes] = set()
        try:
            self._db, self._read_only = open_database(file)
        except (OSError, sqlite3.Error) as error:
            raise unusable(file, error) from error
        self._leases = Leases(self._db)

    def get(self, key: bytes) -> Stored | None:
        """Return the verdict of a key, None when it is not there.

        Raises:
            JudgeError: The file cannot be read.
        """
        with self._lock:
            rows = self._run("SELECT model, kind, answer, tokens_in, tokens_out FROM verdicts WHERE key = ?", (key,))
            if not rows:
                return None
            self._used.add(key)
        model, kind, answer, tokens_in, tokens_out = rows[0]
        return Stored(model=model, kind=kind, answer=str(answer), tokens_in=tokens_in, tokens_out=tokens_out)

    def put(self, key: bytes, verdict: Stored) -> None:
        """Commit a verdict, and give up the claim on its key.

        Raises:
            JudgeError: The file cannot be written, for instance because the disk is full.
        """
        self._to_be_written()
        now = self._clock()
        row = (key, verdict.model, verdict.kind, verdict.answer, verdict.tokens_in, verdict.tokens_out, now, now)
        with self._transaction():
            self._db.execute(f"INSERT OR REPLACE INTO verdicts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            # In one transaction, so that no other process sees the key without claim and without verdict.
            self._leases.release(key)

    def claim(self, key: bytes) -> bool:
        """Claim the purchase of a verdict; False when another process is buying it.

        Raises:
            JudgeError: The file cannot be written.
        """
        self._to_be_written()
        with self._transaction():
            return self._leases.claim(key, self._clock())

    def release(self, key: bytes) -> None:
        """Give up a claim without a verdict.

        Raises:
            JudgeError: The file cannot be written.
        """
        with self._transaction():
            self._leases.release(key)

    def renew(self) -> None:
        """Let the claims of this process hold longer.

        Raises:
            JudgeError: The file cannot be written.
        """
        with self._transaction():
            self._leases.renew(self._clock())

    def mean_tokens_out(self, model: str, kind: str) -> float | None:
        """Return the mean token count of the model's latest 500 answers of that kind; None when there is none."""
        with self._lock:
            rows = self._run(
                "SELECT avg(tokens_out) FROM (SELECT tokens_out FROM verdicts WHERE model = ? AND kind = ? "
                "ORDER BY created DESC LIMIT 500)",
                (model, kind),
            )
        return None if rows[0][0] is None else float(rows[0][0])

    def trim(self, *, max_mb: float, max_days: float | None) -> int:
        """Drop verdicts that are too old, then those used longest ago until the rest fits; returns how many went."""
        if self._read_only:
            return 0
        with self._lock:
            self._note_used()
            before = self._count()
            if max_days is not None:
                self._run("DELETE FROM verdicts WHERE created < ?", (self._clock() - max_days * DAY,))
            while self._megabytes() > max_mb and self._count():
                # A tenth at a time: the size of single rows is unknown, and one row at a time would be slow.
                share = max(1, self._count() // 10)
                self._run(
                    "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used LIMIT ?)", (share,)
                )
            removed = before - self._count()
            if removed:
                # Deleting leaves free pages in the file; only VACUUM gives them back to the disk.
                self._run("VACUUM", ())
        return removed

    def close(self) -> None:
        """Note what was used, give up all claims, and close the file."""
        with self._lock:
            try:
                if not self._read_only:
                    self._leases.release_all()
                    self._note_used()
            except sqlite3.Error as error:  # then the claims run out
                log.debug("claims could not be given up: %s", error)
            finally:
                self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _note_used(self) -> None:
        try:
            self._db.execute("BEGIN")
            now = self._clock()
            self._db.executemany("UPDATE verdicts SET used = ? WHERE key = ?", [(now, key) for key in self._used])
            self._db.execute("COMMIT")
        except sqlite3.Error as error:  # only the order in which old verdicts go suffers
            log.debug("when verdicts were last used could not be noted: %s", error)
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        self._used.clear()

    def _to_be_written(self) -> None:
        if self._read_only:
            raise read_only(self.file)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                # IMMEDIATE takes the write lock at once: a lock taken later could fail after reads that the write
                # depends on.
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise unusable(self.file, error) from error

    def _count(self) -> int:
        return int(self._run("SELECT count(*) FROM verdicts", ())[0][0])

    def _megabytes(self) -> float:
        pages, free, size = (self._run(f"PRAGMA {n}", ())[0][0] for n in ("page_count", "freelist_count", "page_size"))
        return float((pages - free) * size / 1e6)

    def _run(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise unusable(self.file, error) from error
