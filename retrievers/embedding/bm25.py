"""The keyword side: BM25 as sparse vectors, or the model of the user's own vector store (SPLADE, BM42, miniCOIL).

The terms of BM25 are those of Qdrant's own tokeniser, stop words and stemmer. The store adds the IDF. The weight of a
term in a document is tf · (k + 1) / (tf + k · (1 − b + b · length / average length)), with k = 1.2 and b = 0.75. The
weight of a term in a query is its count (Robertson and Zaragoza, 2009). The average length is fixed when a collection
is made, and the manifest records it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

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
# Weight of a term that only synonyms have, however often.
EXPANSION = 0.5


@dataclass(frozen=True)
class Bm25Encoder:
    """Encodes texts as the weights of their terms, for one language and average length."""

    language: str = "english"
    average_length: float = DEFAULT_AVERAGE_LENGTH

    def document(self, text: str) -> "SparseVector":
        """Return the weights of a document's terms."""
        vector = _bm25(self.language, K, B, self.average_length).embed_document(text)
        return _sorted(dict(zip(vector.indices, vector.values, strict=True)))

    def query(self, text: str, expansions: Sequence[str] = ()) -> "SparseVector":
        """Return the weights of a query's terms, which are their counts. A query of stop words alone has no terms.

        Args:
            text: The query.
            expansions: Texts whose terms are searched for as well.
        """
        synonyms = {term: EXPANSION for expansion in expansions for term in self.counts(expansion)}
        return _sorted(synonyms | {term: float(count) for term, count in self.counts(text).items()})

    def length(self, text: str) -> int:
        """Count the terms of a text, each as often as it occurs. Stop words do not count."""
        return sum(self.counts(text).values())

    def counts(self, text: str) -> dict[int, int]:
        """Count the occurrences of each term of a text."""
        vector = _bm25(self.language, UNSATURATED, 0.0, DEFAULT_AVERAGE_LENGTH).embed_document(text)
        return {term: round(count) for term, count in zip(vector.indices, vector.values, strict=True)}


@cache
def _bm25(language: str, k: float, b: float, average_length: float) -> "Bm25":
    from qdrant_edge import Bm25, Bm25Config

    return Bm25(Bm25Config(k=k, b=b, avg_len=average_length, language=language))


def own_weights(model: "SparseEmbeddings", query: str) -> "SparseVector":
    """Return the weights of a query by the user's own model of sparse vectors.

    Raises:
        EmbeddingError: The model failed, or returned no sparse vector.
    """
    try:
        vector = model.embed_query(query)
        return _sorted({int(i): float(w) for i, w in zip(vector.indices, vector.values, strict=True) if w})
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise EmbeddingError(f"sparse_embedding {type(model).__name__} failed: {cause(error)}") from error


def expand(query: str, synonyms: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the synonyms of every term that the query has as whole words, in the order of the table."""
    whole_words = f" {' '.join(words(query))} "
    terms = (term for term in synonyms if f" {' '.join(words(term))} " in whole_words)
    return [synonym for term in terms for synonym in synonyms[term]]


def spell_out(query: str, abbreviations: Mapping[str, str]) -> str:
    """Put the meaning behind every abbreviation in the query: `IMU drift` → `IMU (inertial …) drift`.

    Of two abbreviations at one place the longer one counts. Abbreviations within a meaning are not spelt out.
    """
    if not abbreviations:
        return query
    longest_first = "|".join(map(re.escape, sorted(abbreviations, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)(?:{longest_first})(?!\w)", lambda match: f"{match[0]} ({abbreviations[match[0]]})", query)


def _sorted(weights: Mapping[int, float]) -> "SparseVector":
    from qdrant_client.models import SparseVector

    terms = sorted(weights)
    return SparseVector(indices=terms, values=[weights[term] for term in terms])
