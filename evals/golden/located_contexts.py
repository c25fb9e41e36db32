"""Texts of passages as other tools keep them, to evidence: found word for word, but for white space, or nearly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals.golden.evidence import LEAST_CHARACTERS, normalise
from retrievers.records import Chunk

# Least similarity, 0 to 100, of a text and a stretch of a chunk that counts as it (rapidfuzz's `partial_ratio`).
ALIKE = 85.0


@dataclass(frozen=True, kw_only=True)
class Located:
    """Where a text was found.

    Attributes:
        evidence: Evidence that quotes the chunks; empty where it was found nowhere.
        how: `exact`, `white space`, `several chunks`, `alike`, or `not found`.
        score: Similarity of the best chunk, 0 to 100.
    """

    evidence: tuple[dict[str, Any], ...]
    how: str
    score: float = 100.0


class ContextFinder:
    """Finds texts in the chunks of a collection."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk.text.strip()]
        self._plain = [normalise(chunk.text) for chunk in self._chunks]

    def find(self, text: str) -> Located:
        """Find a text: as it is, then with white space normalised, as the sum of whole chunks, then the nearest."""
        exact = [chunk for chunk in self._chunks if text.strip() in chunk.text]
        if exact:
            return Located(evidence=(_evidence(exact[0], text.strip()),), how="exact")
        plain = normalise(text)
        for chunk, whole in zip(self._chunks, self._plain, strict=True):
            if plain in whole:
                return Located(evidence=(_evidence(chunk, plain),), how="white space")
        inside = [
            chunk
            for chunk, whole in zip(self._chunks, self._plain, strict=True)
            if len(whole) >= LEAST_CHARACTERS and whole in plain
        ]
        if inside:
            return Located(
                evidence=tuple(_evidence(chunk, chunk.text.strip()) for chunk in inside), how="several chunks"
            )
        return self._nearest(plain)

    def _nearest(self, plain: str) -> Located:
        from rapidfuzz import fuzz, process

        best = process.extractOne(plain, self._plain, scorer=fuzz.partial_ratio)
        if best is None:
            return Located(evidence=(), how="not found", score=0.0)
        _, score, number = best
        if score < ALIKE:
            return Located(evidence=(), how="not found", score=score)
        whole = self._plain[number]
        match = fuzz.partial_ratio_alignment(plain, whole)
        # Of a text longer than the chunk, the chunk is what was found of it.
        stretch = whole if match is None or len(plain) > len(whole) else whole[match.dest_start : match.dest_end]
        return Located(evidence=(_evidence(self._chunks[number], stretch.strip()),), how="alike", score=score)


def _evidence(chunk: Chunk, quote: str) -> dict[str, Any]:
    values = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote}
    return {name: value for name, value in values.items() if value}
