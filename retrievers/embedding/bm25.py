"""The keyword side: BM25 as sparse vectors, or the model of the user's own vector store (SPLADE, BM42, miniCOIL).

BM25 has the terms of Qdrant's own tokeniser, stop words and stemmer; the store adds the IDF.
Document weights are tf · (k + 1) / (tf + k · (1 − b + b · length / average length)) with k = 1.2 and b = 0.75; a query
weighs each term by its count (Robertson and Zaragoza, 2009). The average length is fixed when a collection is made and
recorded in its manifest.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from retrievers.errors import EmbeddingError
from retrievers.net import cause
from retrievers.text import words

if TYPE_CHECKING:
    from langchain_qdrant import SparseEmbeddings
    from qdrant_client.models import SparseVector
    from qdrant_edge import Bm25

K, B = 1.2, 0.75
# A k so large that, with b = 0, the weight of a term is its frequency: tf · (k + 1) / (tf + k) is tf.
UNSATURATED = 1e12
DEFAULT_AVERAGE_LENGTH = 256.0
# Weight of a term that only a synonym brings, however often.
EXPANSION = 0.5


@dataclass(frozen=True)
class Bm25Encoder:
    """Texts to term weights, for one language and average length."""

    language: str = "english"
    average_length: float = DEFAULT_AVERAGE_LENGTH

    def document(self, text: str) -> "SparseVector":
        """Return the weights of a document's terms."""
        vector = _bm25(self.language, K, B, self.average_length).embed_document(text)
        return _sorted(dict(zip(vector.indices, vector.values, strict=True)))

    def query(self, text: str, expansions: Sequence[str] = ()) -> "SparseVector":
        """Return the weights of a query's terms, their frequencies; a query of stop words alone has none.

        Args:
            text: The query.
            expansions: Texts whose terms are searched along.
        """
        further = {term: EXPANSION for expansion in expansions for term in self._counts(expansion)}
        return _sorted(further | {term: float(count) for term, count in self._counts(text).items()})

    def length(self, text: str) -> int:
        """Count the terms of a text: repeated ones each time, stop words not."""
        return sum(self._counts(text).values())

    def _counts(self, text: str) -> dict[int, int]:
        """Count the occurrences of each term of a text."""
        vector = _bm25(self.language, UNSATURATED, 0.0, DEFAULT_AVERAGE_LENGTH).embed_document(text)
        return {term: round(count) for term, count in zip(vector.indices, vector.values, strict=True)}


@cache
def _bm25(language: str, k: float, b: float, average_length: float) -> "Bm25":
    from qdrant_edge import Bm25, Bm25Config

    return Bm25(Bm25Config(k=k, b=b, avg_len=average_length, language=language))


@dataclass(frozen=True)
class OwnEncoder:
    """The model of sparse vectors of a `QdrantVectorStore` of the user's own."""

    model: "SparseEmbeddings"

    def query(self, text: str, *_: Any) -> "SparseVector":
        """Return the weights of a query.

        Raises:
            EmbeddingError: The model failed, or returned no sparse vector.
        """
        try:
            vector = self.model.embed_query(text)
            return _sorted({int(i): float(w) for i, w in zip(vector.indices, vector.values, strict=True) if w})
        except (Exception, SystemExit) as error:  # the user's own code may raise anything
            raise EmbeddingError(f"sparse_embedding {type(self.model).__name__} failed: {cause(error)}") from error


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
