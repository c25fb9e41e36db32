"""Retrieval from Qdrant for LangChain applications.

The public names are loaded when they are first used, so that `import retrievers` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrievers.config import RetrieverConfig
    from retrievers.errors import RetrievalError
    from retrievers.records import Chunk, Confidence, RetrievalSession, RetrievedChunk, StageTimings
    from retrievers.retriever.opened import open_retriever
    from retrievers.retriever.qdrant import QdrantRetriever
    from retrievers.search.candidates import Candidates

__all__ = [
    "Candidates",
    "Chunk",
    "Confidence",
    "QdrantRetriever",
    "RetrievalError",
    "RetrievalSession",
    "RetrievedChunk",
    "RetrieverConfig",
    "StageTimings",
    "open_retriever",
]
_HOMES = {
    "Candidates": "search.candidates",
    "QdrantRetriever": "retriever.qdrant",
    "RetrieverConfig": "config",
    "RetrievalError": "errors",
    "open_retriever": "retriever.opened",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'records')}"), name)
