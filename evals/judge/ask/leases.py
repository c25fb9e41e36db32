"""Claims of processes on verdicts that they are buying, so that two that share a store buy none twice.

A claim is a row with an owner and the moment until which it holds. Its owner renews it while it runs. A process that
died gives up its claims: at once where the operating system can tell, else when they have run out.
"""

import os
import socket
import sqlite3
import uuid
from contextlib import suppress

# Seconds that a claim holds after it was made or renewed.
LEASE_S = 60.0
# Several renewals fit into a lease, so that one that is late loses nothing.
RENEW_S = 15.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID
"""
CLAIM = """
INSERT INTO claims (key, owner, until) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE claims.until < ? OR claims.owner = excluded.owner RETURNING key
"""


class Leases:
    """Claims of this process in a store's database. The caller holds the database's lock."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        # The random part tells a new process from a dead one whose id the system has reused.
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"

    def claim(self, key: bytes, now: float) -> bool:
        """Claim a key; False when another process that runs has claimed it."""
        row = (key, self._owner, now + LEASE_S, now)
        # The statement inserts or takes over an expired claim in one step, so two processes cannot both succeed.
        if self._db.execute(CLAIM, row).fetchall():
            return True
        other = self._db.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()
        if other and not _is_dead(other[0]):
            return False
        if other:
            self._db.execute("DELETE FROM claims WHERE owner = ?", other)
        return bool(self._db.execute(CLAIM, row).fetchall())

    def renew(self, now: float) -> None:
        """Let all claims of this process hold longer."""
        self._db.execute("UPDATE claims SET until = ? WHERE owner = ?", (now + LEASE_S, self._owner))

    def release(self, key: bytes) -> None:
        """Give up a claim of this process, if it has it."""
        self._db.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self._owner))

    def release_all(self) -> None:
        """Give up all claims of this process."""
        self._db.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))


def _is_dead(owner: str) -> bool:
    """Return True if a process of this machine has ended; False for one of another machine, which is unknown."""
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    # It runs, as another user.
    with suppress(PermissionError):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
    return False
