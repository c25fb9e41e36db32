"""The distinct chunks that searches found: numbered in the order they came, each read from the store once."""

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
        self._payloads: dict[int, Mapping[str, Any]] = {}
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
        self._payloads.setdefault(code, payload)

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
