"""The static word embeddings in wordllama's package."""

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from retrievers.config import ModelConfig


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
            vectors: list[list[float]] = self._model.embed(texts, norm=True).tolist()
        return vectors

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
    from retrievers.embedding.tokens import package_folder

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
