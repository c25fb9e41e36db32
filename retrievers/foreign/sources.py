"""The user's object behind one call: a query to documents, each with its score where there is one."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from retrievers.errors import ForeignRetrieverError
from retrievers.foreign.listing import checked_documents, checked_score
from retrievers.records import ScoreScale
from retrievers.search.requests import cosine
from retrievers.store import CollectionInfo

if TYPE_CHECKING:
    from langchain_qdrant import QdrantVectorStore

Result = TypeVar("Result")
PATIENCE_S = 2.0
Found = list[tuple[Document, float | None]]


class Source(Protocol):
    """Source of documents for a query."""

    @property
    def label(self) -> str:
        """Its class."""

    @property
    def embedding_label(self) -> str | None:
        """The class that embeds for it, None when that is not known."""

    @property
    def scale(self) -> ScoreScale:
        """The scale of its scores: `cosine`, `unknown`, or `none` where it gives none."""

    @property
    def no_cosine(self) -> str:
        """Reason why its scores are no cosine similarity; empty when they are."""

    @property
    def no_candidates(self) -> str:
        """Reason why its results are no candidate list of a given depth; empty when they are."""

    @property
    def deepens(self) -> bool:
        """True if a deeper search may change the results of a shallower one."""

    def find(self, query: str, depth: int) -> Found:
        """Return documents in its own order; only a store keeps to `depth`.

        Raises:
            ForeignRetrieverError: It returned no usable documents. Whatever else it raises passes through.
        """

    def close(self) -> None:
        """Close its open resources."""


class RetrieverSource:
    """A LangChain retriever: its documents in its own order, without scores."""

    scale: ScoreScale = "none"
    no_cosine = "the retriever gives no scores"
    no_candidates = "the retriever gives its result alone, not the candidates it came from"
    embedding_label = None
    deepens = False

    def __init__(self, retriever: BaseRetriever, *, owned: bool = True) -> None:
        self._retriever = retriever
        self._owned = owned
        self._loop = BackgroundLoop()
        self._asynchronous = False

    @property
    def label(self) -> str:
        """Its class."""
        return type(self._retriever).__name__

    def find(self, query: str, depth: int) -> Found:
        """Return the documents of `invoke`; of `ainvoke` where the retriever is asynchronous alone."""
        return [(document, None) for document in checked_documents(self._answer(query))]

    def close(self) -> None:
        """End the event loop, and close the retriever if it is owned and can be closed."""
        self._loop.close()
        close = getattr(self._retriever, "close", None)
        if self._owned and callable(close):
            close()

    def _answer(self, query: str) -> Any:
        if not self._asynchronous:
            try:
                return self._retriever.invoke(query)
            except NotImplementedError:
                pass
        answer = self._loop.run(self._retriever.ainvoke(query))
        self._asynchronous = True
        return answer


class StoreSource:
    """A `QdrantVectorStore`: its documents with the scores of its own search."""

    no_candidates = ""

    def __init__(self, store: "QdrantVectorStore", info: CollectionInfo) -> None:
        from langchain_qdrant import QdrantVectorStore, RetrievalMode

        self._store = store
        dense = store.retrieval_mode == RetrievalMode.DENSE
        own = type(store).similarity_search_with_score is QdrantVectorStore.similarity_search_with_score
        self.no_cosine = (
            f"the scores of {store.retrieval_mode.value} search have no fixed scale"
            if not dense
            else f"the scores are of the {info.distance} distance, which has no fixed scale"
            if info.distance != "cosine"
            else ""
            if own
            else f"{self.label} searches in a way of its own, whose scores are on an unknown scale"
        )
        self.scale: ScoreScale = "unknown" if self.no_cosine else "cosine"
        self.deepens = store.retrieval_mode == RetrievalMode.HYBRID or not own

    @property
    def label(self) -> str:
        """Its class."""
        return type(self._store).__name__

    @property
    def embedding_label(self) -> str | None:
        """The class of its dense embeddings."""
        return None if self._store.embeddings is None else type(self._store.embeddings).__name__

    def find(self, query: str, depth: int) -> Found:
        """Return the results of `similarity_search_with_score` for `k=depth`; cosines clipped to [0, 1] as ours are."""
        answer = self._store.similarity_search_with_score(query, k=depth)
        documents = checked_documents([document for document, _ in pairs(answer)])
        scores = [checked_score(score) for _, score in answer]
        if self.scale == "cosine":
            scores = cosine(np.asarray(scores, dtype=np.float32)).tolist()
        return list(zip(documents, scores, strict=True))

    def close(self) -> None:
        """Close nothing: the client belongs to the listing."""


class FunctionSource:
    """A function from a query to documents or texts with their similarities, `async` or not, best first."""

    scale: ScoreScale = "cosine"
    no_cosine = ""
    no_candidates = "the function gives its result alone, not the candidates it came from"
    embedding_label = None
    deepens = False

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function, self._loop = function, BackgroundLoop()

    @property
    def label(self) -> str:
        """Its name."""
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def find(self, query: str, depth: int) -> Found:
        """Return what the function returns: pairs of a document or text and its similarity, at most 1.

        Raises:
            ForeignRetrieverError: It returned something else.
        """
        answer = self._function(query)
        found = pairs(self._loop.run(answer) if inspect.iscoroutine(answer) else answer)
        texts = [Document(page_content=each) if isinstance(each, str) else each for each, _ in found]
        scores = [checked_score(score) for _, score in found]
        if any(abs(score) > 1 for score in scores):
            worst = max(scores, key=abs)
            raise ForeignRetrieverError(f"gave the score {worst:g}; expected a similarity of at most 1 for a threshold")
        return list(zip(checked_documents(texts), scores, strict=True))

    def close(self) -> None:
        """End the event loop."""
        self._loop.close()


def pairs(answer: Any) -> Sequence[tuple[Any, Any]]:
    """Check that a search returned pairs.

    Raises:
        ForeignRetrieverError: It is not.
    """
    if not isinstance(answer, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in answer):
        raise ForeignRetrieverError(f"returned {type(answer).__name__}; expected a list of (document, score)")
    return answer


class BackgroundLoop:
    """Runs coroutines of any number of threads on one event loop, begun with the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for a coroutine; its errors are raised here."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def close(self) -> None:
        """Cancel running tasks and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(_cancel_others(), loop)
        # Code that ignores its cancellation ends with the process.
        with suppress(TimeoutError):
            ending.result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        if not thread.is_alive():
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="foreign-retriever", daemon=True)
                self._thread.start()
            return self._loop


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
