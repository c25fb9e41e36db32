"""Rerankers as a user would bring them, named in settings as `tests.support.rerankers:Name`."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from numpy.typing import NDArray

from retrievers.search.rerank import Order, Rerank, RerankInput

Pairs = Sequence[tuple[str, str]]


def overlap(query: str, text: str) -> float:
    """Return the share of the query's words that the text holds: many texts tie."""
    words = query.lower().split()
    return sum(word in text.lower() for word in words) / max(1, len(words))


def farthest_first(pool: RerankInput) -> Order:
    """Rerank by the first number of the stored vectors, scaled to 0 to 1, and tell the length of the texts."""
    scores = (pool.vectors[:, 0] - pool.vectors[:, 0].min() + 0.1) / 10
    order = np.argsort(-scores)
    lengths = [len(pool.texts[index]) for index in order]
    return order.tolist(), {"rerank": scores[order].tolist(), "length": lengths}


def make_farthest(*_: Any) -> Rerank:
    """Make the reranker, whatever the settings."""
    return farthest_first


class Scorer:
    """A cross-encoder as LangChain's are."""

    def score(self, text_pairs: Pairs) -> list[float]:
        return [overlap(query, text) for query, text in text_pairs]


class Predictor:
    """A cross-encoder as sentence-transformers' are."""

    def predict(self, pairs: Pairs) -> NDArray[np.float32]:
        return np.asarray([overlap(query, text) for query, text in pairs], dtype=np.float32)


class ScoringCompressor(BaseDocumentCompressor):
    """Sets `relevance_score`, as CohereRerank and FlashrankRerank do."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        scored = [(overlap(query, d.page_content), d) for d in documents]
        ordered = sorted(scored, key=lambda pair: -pair[0])
        return [
            Document(page_content=d.page_content, metadata={**d.metadata, "relevance_score": s}) for s, d in ordered
        ]


class ReversingCompressor(BaseDocumentCompressor):
    """Gives an order and no scores, as LLMListwiseRerank does."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return list(reversed(documents))


class FilteringCompressor(BaseDocumentCompressor):
    """Keeps the documents that hold a word of the query, as a chain filter does."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [document for document in documents if overlap(query, document.page_content) > 0]


class ForgetfulCompressor(BaseDocumentCompressor):
    """Makes new documents, so that nobody knows which they were."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [Document(page_content=document.page_content) for document in documents]


class RepeatingCompressor(BaseDocumentCompressor):
    """Returns the first document twice."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [documents[0], documents[0]]


class SilentCompressor(BaseDocumentCompressor):
    """Returns nothing at all, not even a list."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> Any:
        return None


class Failing:
    """Raises at every call."""

    def score(self, text_pairs: Pairs) -> list[float]:
        raise RuntimeError("CUDA out of memory\nat line 5")


class Short(Scorer):
    """Loses a score."""

    def score(self, text_pairs: Pairs) -> list[float]:
        return super().score(text_pairs)[1:]


class NotANumber(Scorer):
    """Scores with NaN."""

    def score(self, text_pairs: Pairs) -> list[float]:
        return [nan for _ in text_pairs]


class Wordy:
    """Scores in words."""

    def score(self, text_pairs: Pairs) -> list[str]:
        return ["relevant" for _ in text_pairs]


def make_nothing() -> None:
    """Return a factory that forgets to return."""


def fail() -> None:
    raise RuntimeError("no GPU")


class Logits(Scorer):
    """Scores as a model without a final sigmoid has them."""

    def score(self, text_pairs: Pairs) -> list[float]:
        return [8 * one - 4 for one in super().score(text_pairs)]
