"""Payloads by number, in memory up to a limit and in a private file past it."""

import json
import sqlite3
import weakref
from collections.abc import Mapping
from typing import Any

# Number of payloads in memory, about 60 MB.
IN_MEMORY = 20_000


class PayloadRows:
    """Payloads by number. What does not fit in memory is in a temporary database that ends with this object.

    SQLite keeps it in a file without a name (mode 600), so that nothing is left behind however the process ends.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._limit = in_memory
        self._held: dict[int, Mapping[str, Any]] = {}
        self._spilled: set[int] = set()
        self._file: sqlite3.Connection | None = None

    def __contains__(self, number: int) -> bool:
        return number in self._held or number in self._spilled

    def add(self, number: int, payload: Mapping[str, Any]) -> None:
        """Keep a payload under a number that has none."""
        if len(self._held) < self._limit:
            self._held[number] = payload
            return
        if self._file is None:
            # The empty name makes a private database in a temporary file.
            self._file = sqlite3.connect("", check_same_thread=False)
            weakref.finalize(self, self._file.close)
            self._file.execute("CREATE TABLE payloads (number INTEGER PRIMARY KEY, payload TEXT NOT NULL)")
        self._file.execute("INSERT INTO payloads VALUES (?, ?)", (number, json.dumps(payload)))
        self._spilled.add(number)

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        """Return a payload.

        Raises:
            KeyError: There is none of that number.
        """
        if number not in self._spilled:
            return self._held[number]
        assert self._file is not None
        (text,) = self._file.execute("SELECT payload FROM payloads WHERE number = ?", (number,)).fetchone()
        payload: Mapping[str, Any] = json.loads(text)
        return payload
