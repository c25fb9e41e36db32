"""Rerankers as a user would bring them, named in settings as `tests.support.rerankers:Name`."""

from collections.abc import Callable, Mapping, Sequence
from math import nan
from types import SimpleNamespace
from typing import Any

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document

Pairs = Sequence[tuple[str, str]]


def overlap(query: str, text: str) -> float:
    words = query.lower().split()
    return sum(word in text.lower() for word in words) / max(1, len(words))


class Scorer:
    """A cross-encoder as LangChain's are; `change` makes other scores of the shares of words."""

    def __init__(self, change: Callable[[list[float]], Any] = list) -> None:
        self.change = change

    def score(self, text_pairs: Pairs) -> Any:
        return self.change([overlap(query, text) for query, text in text_pairs])


class Compressor(BaseDocumentCompressor):
    call: Callable[[str, Sequence[Document]], Any]

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> Any:
        return self.call(query, documents)


def scored(query: str, documents: Sequence[Document]) -> list[Document]:
    pairs = sorted(((overlap(query, d.page_content), d) for d in documents), key=lambda pair: -pair[0])
    return [Document(page_content=d.page_content, metadata={**d.metadata, "relevance_score": s}) for s, d in pairs]


def raising(error: Exception) -> Any:
    raise error


FACTORIES: Mapping[str, Callable[[], Any]] = {
    # As sentence-transformers' are.
    "Predictor": lambda: SimpleNamespace(predict=lambda pairs: np.asarray(Scorer().score(pairs), dtype=np.float32)),
    "ScoringCompressor": lambda: Compressor(call=scored),
    # An order and no scores, as LLMListwiseRerank gives; and the documents that hold a word, as a chain filter.
    "ReversingCompressor": lambda: Compressor(call=lambda query, documents: [*reversed(documents)]),
    "FilteringCompressor": lambda: Compressor(
        call=lambda query, documents: [d for d in documents if overlap(query, d.page_content) > 0]
    ),
    # New documents, of which nobody knows which they were.
    "ForgetfulCompressor": lambda: Compressor(
        call=lambda query, documents: [Document(page_content=d.page_content) for d in documents]
    ),
    "RepeatingCompressor": lambda: Compressor(call=lambda query, documents: [documents[0], documents[0]]),
    "SilentCompressor": lambda: Compressor(call=lambda query, documents: None),
    "Failing": lambda: Scorer(lambda scores: raising(RuntimeError("CUDA out of memory\nat line 5"))),
    "Short": lambda: Scorer(lambda scores: scores[1:]),
    "NotANumber": lambda: Scorer(lambda scores: [nan for _ in scores]),
    "Wordy": lambda: Scorer(lambda scores: ["relevant" for _ in scores]),
    # As a model without a final sigmoid has them.
    "Logits": lambda: Scorer(lambda scores: [8 * score - 4 for score in scores]),
    "make_nothing": lambda: None,
    "fail": lambda: raising(RuntimeError("no GPU")),
}
globals().update(FACTORIES)
