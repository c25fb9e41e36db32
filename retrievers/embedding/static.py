"""The static word embeddings in wordllama's package."""

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from retrievers.config import ModelConfig
from retrievers.embedding.tokens import PART, count_tokens, package_folder, token_parts


class StaticEmbeddings(Embeddings):
    """The static word embeddings packaged with wordllama: 256 dimensions, deterministic, offline.

    Word vectors are averaged, so they know words, not sentences: good enough to start with, not a state of the art.
    """

    def __init__(self) -> None:
        self._model = _static_model()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, one unit vector of 256 floats each; NaN for an empty text, nothing for an empty list."""
        if not texts:
            return []
        # A text without words is divided by its length, 0, and refused later.
        with np.errstate(invalid="ignore"):
            vectors: list[list[float]] = self._model.embed([text[:PART] for text in texts], norm=True).tolist()
        for place in (place for place, text in enumerate(texts) if len(text) > PART):
            vectors[place] = self._by_parts(texts[place])
        return vectors

    def _by_parts(self, text: str) -> list[float]:
        """Return the vector of a text that is too long to be tokenised at once: the mean of those of all its tokens."""
        total = np.zeros(256)
        for part in token_parts(text):
            total += self._model.embed([part])[0] * count_tokens(part)
        vector: list[float] = (total / np.linalg.norm(total)).astype(np.float32).tolist()
        return vector

    def embed_queries(self, texts: list[str]) -> list[list[float]]:
        """Embed queries; the same vectors as `embed_documents` gives."""
        return self.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed one query; the same vector as `embed_documents` gives."""
        return self.embed_documents([text])[0]


def make(_: ModelConfig, __: str | None) -> StaticEmbeddings:
    """Make the embeddings; there is one model, and no key."""
    return StaticEmbeddings()


@functools.cache
def _static_model() -> Any:
    """Load the model once for all retrievers of a process; embedding does not change it."""
    with _quiet_root_logger():
        from wordllama import WordLlama
    return WordLlama.load(cache_dir=package_folder("wordllama"), dim=256, disable_download=True)


@contextmanager
def _quiet_root_logger() -> Iterator[None]:
    """Undo the changes that importing wordllama makes to the root logger."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
