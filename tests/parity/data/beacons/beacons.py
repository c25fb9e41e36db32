"""Embeddings by hand: a text's vector has the signs of the hexadecimal code in it, so cosines are whole eighths."""

import re

from langchain_core.embeddings import Embeddings


class Beacons(Embeddings):
    """Sixteen numbers of the same size; two codes that differ in n bits have the cosine 1 - n / 8."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of the first code in a text."""
        found = re.search(r"\b[0-9a-f]{4}\b", text)
        bits = int(found[0], 16) if found else 0
        return [0.25 if bits >> place & 1 else -0.25 for place in range(16)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.embed_query(text) for text in texts]


def make() -> Beacons:
    """Return the embeddings."""
    return Beacons()
