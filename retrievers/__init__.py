"""Retrieval from Qdrant for LangChain applications.

The public names are loaded when they are first used, so that `import retrievers` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrievers.config import RetrieverConfig as RetrieverConfig
    from retrievers.errors import RetrievalError as RetrievalError
    from retrievers.records import Chunk as Chunk
    from retrievers.records import Confidence as Confidence
    from retrievers.records import RetrievalSession as RetrievalSession
    from retrievers.records import RetrievedChunk as RetrievedChunk
    from retrievers.records import StageTimings as StageTimings
    from retrievers.retriever.opened import open_retriever as open_retriever
    from retrievers.retriever.qdrant import QdrantRetriever as QdrantRetriever
    from retrievers.search.candidates import Candidates as Candidates

_HOMES = {
    "config": ("RetrieverConfig",),
    "errors": ("RetrievalError",),
    "records": ("Chunk", "Confidence", "RetrievalSession", "RetrievedChunk", "StageTimings"),
    "retriever.opened": ("open_retriever",),
    "retriever.qdrant": ("QdrantRetriever",),
    "search.candidates": ("Candidates",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
