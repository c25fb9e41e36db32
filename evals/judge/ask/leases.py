"""Which verdicts are being bought, and by which process, so that two that share a store buy none twice.

A claim is a row with an owner and the moment until which it holds. Its owner renews it while it runs. A process that
died gives up its claims: at once where the operating system can tell, else when they have run out.
"""

import os
import socket
import sqlite3
import uuid
from contextlib import suppress

LEASE_S = 60.0
"""How long a claim holds after it was made or renewed."""
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
    """The claims of this process in a store's database. Whoever calls holds the database's lock."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"

    def claim(self, key: bytes, now: float) -> bool:
        """Claim a key; False when another process that runs has claimed it."""
        row = (key, self._owner, now + LEASE_S, now)
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
    """Whether a process of this machine has ended; of another machine's it is not known."""
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    with suppress(PermissionError):  # it runs, as somebody else
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
    return False
