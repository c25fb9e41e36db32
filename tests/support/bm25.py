"""BM25 by brute force: terms counted word by word, Robertson's weights, the IDF that Qdrant states."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log

from qdrant_client.models import SparseVector

from retrievers.embedding.bm25 import Bm25Encoder

K, B = 1.2, 0.75


def bm25_of(text: str, average_length: float = 256.0) -> SparseVector:
    """Return the weights of a text's terms as they are indexed, for texts of so many terms on average."""
    return Bm25Encoder("english", average_length).document(text)


class BruteForceBm25:
    """Scores of a handful of texts; only what a word is (its id) is taken from the encoder."""

    def __init__(self, texts: Mapping[str, str], average_length: float, language: str = "english") -> None:
        self.encoder = Bm25Encoder(language)
        self.average = average_length
        self.counts = {name: Counter(self.terms(text)) for name, text in texts.items()}

    def terms(self, text: str) -> list[int]:
        """Return the term of every word, stop words left out, repeated ones each time."""
        return [term for word in re.findall(r"[^\W_]+", text) for term in self.encoder.query(word).indices]

    def scores(self, query: str, expansions: Sequence[str] = (), weight: float = 0.5) -> dict[str, float]:
        """Return Σ weight · idf · tf · (k + 1) / (tf + k · (1 − b + b · length / average)) of texts with a term."""
        weights = {term: weight for text in expansions for term in self.terms(text)}
        weights |= Counter(self.terms(query))
        found = {
            name: sum(w * self._part(term, counts) for term, w in weights.items())
            for name, counts in self.counts.items()
        }
        return {name: score for name, score in found.items() if score > 0}

    def _part(self, term: int, counts: Counter[int]) -> float:
        frequency, length = counts[term], counts.total()
        norm = K * (1 - B + B * length / self.average)
        return self._idf(term) * frequency * (K + 1) / (frequency + norm) if frequency else 0.0

    def _idf(self, term: int) -> float:
        count, holding = len(self.counts), sum(term in counts for counts in self.counts.values())
        return log((count - holding + 0.5) / (holding + 0.5) + 1)
