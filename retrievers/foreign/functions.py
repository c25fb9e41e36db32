"""The user's function as a LangChain retriever."""

import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


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
