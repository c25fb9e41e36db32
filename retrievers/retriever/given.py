"""A caller's own object, a retriever or a function, to a retriever that can be evaluated."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.foreign.adapter import adopt
from retrievers.foreign.sources import FunctionSource
from retrievers.retriever.protocol import Retriever
from retrievers.retriever.qdrant import QdrantRetriever


def adopt_given(
    retriever: Any, settings: RetrieverConfig, top_k: int | None, env: Mapping[str, str]
) -> tuple[Retriever, RetrieverConfig]:
    """Return a given retriever behind the calls of an evaluation, with the settings that are in force.

    Args:
        retriever: A LangChain retriever, a `QdrantVectorStore`, a `QdrantRetriever`, or a function; under a threshold
            one that returns pairs of document and similarity. It is left open.
        settings: Settings of the caller; none for a `QdrantRetriever`, which has its own.
        top_k: Number of results that count; that of the settings when left out.
        env: The environment that holds the API key of a store that the settings name.

    Raises:
        ConfigError: It is something else, or a setting does not fit it.
        StoreError: The collection does not exist, or cannot be read.
    """
    changed: dict[str, Any] = {} if top_k is None else {"top_k": top_k}
    if isinstance(retriever, QdrantRetriever):
        if changed or settings.model_fields_set:
            raise ConfigError("a QdrantRetriever has its own settings; leave top_k and the experiment's retriever out")
        return retriever, retriever.settings
    target: Any = retriever
    if callable(retriever) and not isinstance(retriever, BaseRetriever | VectorStore | type):
        # Its scores are read where a threshold is held against them.
        scored = settings.used_threshold is not None and "threshold" in settings.model_fields_set
        target = FunctionSource(retriever) if scored else FunctionRetriever(function=retriever)
    kind = retriever if hasattr(retriever, "__qualname__") else type(retriever)
    label = f"{kind.__module__}:{kind.__qualname__}"
    named = settings.model_dump(exclude_unset=True) | changed | {"python": label}
    # The caller requires none.
    named["metadata"] = {"required": ()} | named.get("metadata", {})
    own = RetrieverConfig.model_validate(named)
    return adopt(target, own, env), own


class FunctionRetriever(BaseRetriever):
    """A function from a query to documents or texts, `async` or not, best first.

    Attributes:
        function: `str -> list[Document | str]`. A text is a document without metadata.
    """

    function: Callable[[str], Any]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> Any:
        if inspect.iscoroutinefunction(self.function):
            raise NotImplementedError("an async function is awaited by ainvoke")
        return _documents(self.function(query))

    async def _aget_relevant_documents(self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun) -> Any:
        return _documents(await self.function(query))


def _documents(answer: Any) -> Any:
    """Return texts as documents; `checked_documents` refuses all other values."""
    if not isinstance(answer, list | tuple):
        return answer
    return [Document(page_content=item) if isinstance(item, str) else item for item in answer]
