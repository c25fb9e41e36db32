"""BM25 as sparse vectors: term weights by Qdrant's own tokeniser, stop words and stemmer; the store adds the IDF.

Document weights are tf · (k + 1) / (tf + k · (1 − b + b · length / average length)) with k = 1.2 and b = 0.75; a query
weighs each term by its count (Robertson and Zaragoza, 2009). The average length is fixed when a collection is made and
recorded in its manifest.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from retrievers.config.languages import words

if TYPE_CHECKING:
    from qdrant_client.models import SparseVector
    from qdrant_edge import Bm25

K, B = 1.2, 0.75
# A k so large that, with b = 0, the weight of a term is its frequency: tf · (k + 1) / (tf + k) is tf.
UNSATURATED = 1e12
DEFAULT_AVERAGE_LENGTH = 256.0


@dataclass(frozen=True)
class Bm25Encoder:
    """Texts to term weights, for one language and average length."""

    language: str = "english"
    average_length: float = DEFAULT_AVERAGE_LENGTH

    @cached_property
    def _model(self) -> "Bm25":
        from qdrant_edge import Bm25, Bm25Config

        return Bm25(Bm25Config(k=K, b=B, avg_len=self.average_length, language=self.language))

    def document(self, text: str) -> "SparseVector":
        """Return the weights of a document's terms."""
        vector = self._model.embed_document(text)
        return _sorted(dict(zip(vector.indices, vector.values, strict=True)))

    def query(
        self, text: str, expansions: Sequence[str] = (), expansion_weight: float = 0.5, *, term_counts: bool = True
    ) -> "SparseVector":
        """Return the weights of a query's terms; a query of stop words alone has none.

        Args:
            text: The query.
            expansions: Texts whose terms are searched along.
            expansion_weight: Weight of a term that only an expansion brings, however often.
            term_counts: Weigh a term of the query by its frequency; otherwise by 1.
        """
        weights = {term: float(count) if term_counts else 1.0 for term, count in self._counts(text).items()}
        for expansion in expansions:
            for term in self._counts(expansion):
                weights.setdefault(term, expansion_weight)
        return _sorted(weights)

    def length(self, text: str) -> int:
        """Count the terms of a text: repeated ones each time, stop words not."""
        return sum(self._counts(text).values())

    def _counts(self, text: str) -> dict[int, int]:
        """Count the occurrences of each term of a text."""
        vector = self._counter.embed_document(text)
        return {term: round(count) for term, count in zip(vector.indices, vector.values, strict=True)}

    @cached_property
    def _counter(self) -> "Bm25":
        from qdrant_edge import Bm25, Bm25Config

        return Bm25(Bm25Config(k=UNSATURATED, b=0.0, language=self.language))


def expand(query: str, synonyms: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the synonyms of every table entry that occurs in the query as whole words, in the table's order."""
    whole = f" {' '.join(words(query))} "
    return [synonym for term, others in synonyms.items() if f" {' '.join(words(term))} " in whole for synonym in others]


def spell_out(query: str, abbreviations: Mapping[str, str]) -> str:
    """Append to every abbreviation of the query its meaning: `IMU drift` → `IMU (inertial …) drift`.

    Of two abbreviations at one place the longer counts, and what a meaning says is not spelt out in turn.
    """
    if not abbreviations:
        return query
    longest_first = "|".join(map(re.escape, sorted(abbreviations, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)(?:{longest_first})(?!\w)", lambda match: f"{match[0]} ({abbreviations[match[0]]})", query)


def _sorted(weights: Mapping[int, float]) -> "SparseVector":
    from qdrant_client.models import SparseVector

    terms = sorted(weights)
    return SparseVector(indices=terms, values=[weights[term] for term in terms])
