"""A retriever's caches by a clock of the test."""

from pathlib import Path

from retrievers import QdrantRetriever
from retrievers.embedding.cache import KEPT_S, EmbeddingCache, ResultCache
from tests.support.clock import Clock


def clocked(retriever: QdrantRetriever, clock: Clock, vectors: Path | None = None) -> None:
    """Empty the caches of an open retriever; what they keep from now on gets old by the clock.

    Args:
        retriever: The retriever.
        clock: The clock.
        vectors: File of the query vectors; that cache stays as it is where it is left out.
    """
    retriever._results = ResultCache(retriever._results.size, None, lambda: clock.time)
    if vectors is not None:
        assert retriever._vectors is not None
        retriever._vectors.close()
        retriever._vectors = EmbeddingCache(vectors, KEPT_S, lambda: clock.time)
