"""Chunks by number, for candidates that no store keeps."""

from retrievers.records import Chunk


class ChunkList:
    """Chunks that came without a store to read them from; an equal one is kept once."""

    def __init__(self) -> None:
        self._codes: dict[Chunk, int] = {}
        self._chunks: list[Chunk] = []

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, code: int) -> Chunk:
        return self._chunks[code]

    def chunk_id(self, code: int) -> str:
        """Return the id of a chunk."""
        return self._chunks[code].chunk_id

    def code(self, chunk: Chunk) -> int:
        """Number a chunk; a known one keeps its number."""
        code = self._codes.setdefault(chunk, len(self._chunks))
        if code == len(self._chunks):
            self._chunks.append(chunk)
        return code
