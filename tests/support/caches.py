"""A retriever's caches by a clock of the test."""

from pathlib import Path

from retrievers import QdrantRetriever
from retrievers.embedding.cache import EmbeddingCache, ResultCache
from tests.support.clock import Clock


def clocked(retriever: QdrantRetriever, clock: Clock, vectors: Path | None = None) -> None:
    """Empty the caches of an open retriever; what they keep from now on gets old by the clock.

    Args:
        retriever: The retriever.
        clock: The clock.
        vectors: File of the query vectors; that cache stays as it is where it is left out.
    """
    kept = retriever.settings.cache
    retriever._results = ResultCache(retriever._results.size, kept.results_ttl_s, lambda: clock.time)
    if vectors is not None:
        assert retriever._vectors is not None
        retriever._vectors.close()
        retriever._vectors = EmbeddingCache(vectors, kept.ttl_s, lambda: clock.time)
