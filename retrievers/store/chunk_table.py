"""The distinct chunks that searches found: numbered in the order they came, each read from the store once."""

import json
import sqlite3
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk
from retrievers.store.errors import store_errors
from retrievers.store.payload import chunk_id, to_chunk
from retrievers.store.stored_chunks import changed

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

# Number of payloads in memory, about 60 MB.
IN_MEMORY = 20_000
# Chunks by their number in a chunk table.
Codes = NDArray[np.int32]
# Number of chunks kept as objects; others are rebuilt from their payloads on request.
DECODED = 20_000


class ChunkTable:
    """The chunks of points, for the length of a search or of a run. It grows, and a chunk keeps its number."""

    def __init__(self, client: "QdrantClient", config: RetrieverConfig) -> None:
        self._client = client
        self._config = config
        self._codes: dict[Any, int] = {}
        self._points: list[Any] = []
        self._payloads = PayloadRows()
        self._chunks: dict[int, Chunk] = {}
        self._chunk_ids: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._points)

    def codes(self, points: Iterable[Any]) -> Codes:
        """Number points, which are ids as the store gives them; a known one keeps its number."""
        codes_by_id = self._codes
        codes = np.asarray([codes_by_id.setdefault(point, len(codes_by_id)) for point in points], dtype=np.int32)
        if len(codes_by_id) > len(self._points):
            self._points = list(codes_by_id)
        return codes

    def read(self, codes: Iterable[int]) -> None:
        """Read the payloads of chunks that are not known yet: one request for all of them, none for none.

        Raises:
            CollectionChangedError: One of them is gone.
            StoreError: The store failed.
        """
        missing = [code for code in dict.fromkeys(codes) if code not in self._payloads]
        if not missing:
            return
        name = self._config.collection
        with store_errors(self._config.store, name):
            records = self._client.retrieve(name, [self._points[code] for code in missing], with_payload=True)
        payloads = {str(record.id): record.payload or {} for record in records}
        for code in missing:
            if self.point(code) not in payloads:
                raise changed(self._config, self.point(code))
            self.keep(code, payloads[self.point(code)])

    def keep(self, code: int, payload: Mapping[str, Any]) -> None:
        """Take the payload of a chunk; the first one counts."""
        if code not in self._payloads:
            self._payloads.add(code, payload)

    def point(self, code: int) -> str:
        """Return the id of a chunk's point, as text."""
        return str(self._points[code])

    def given(self, codes: Codes) -> list[Any]:
        """Return the ids of points as the store gave them, which it takes back at less cost than text."""
        return [self._points[code] for code in codes.tolist()]

    def chunk_id(self, code: int) -> str:
        """Return the id of a chunk that was read."""
        if code not in self._chunk_ids:
            self._chunk_ids[code] = chunk_id(self.point(code), self._payloads[code], self._config.metadata)
        return self._chunk_ids[code]

    def name(self, code: int) -> tuple[str, str]:
        """Return the chunk id and the point id of a chunk that was read: its place among equal scores."""
        return self.chunk_id(code), self.point(code)

    def __getitem__(self, code: int) -> Chunk:
        """Return a chunk that was read."""
        chunk = self._chunks.get(code)
        if chunk is None:
            chunk = to_chunk(self.point(code), self._payloads[code], self._config.metadata)
            if len(self._chunks) < DECODED:
                self._chunks[code] = chunk
        return chunk


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
