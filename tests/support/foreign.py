"""Retrievers as users bring them, named as `tests.support.foreign:name`, over the pages of the experiment."""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_qdrant import QdrantVectorStore, RetrievalMode, SparseEmbeddings, SparseVector
from qdrant_client import models

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import parse_page
from retrievers.records import Chunk
from retrievers.store.chunks import to_metadata
from tests.support.embeddings import Counting
from tests.support.experiment import PAGES

HERE = __name__


def chunks() -> list[Chunk]:
    return [c for file, text in PAGES.items() for c in chunk_page(parse_page(text, file), 256, count_tokens)]


def documents(*fields: str) -> list[Document]:
    kept = fields or ("source_url", "section_path", "heading")
    return [
        Document(page_content=c.text, metadata={k: v for k, v in to_metadata(c).items() if k in kept}) for c in chunks()
    ]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class Overlap(BaseRetriever):
    docs: list[Document]
    k: int = 4

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        shared = [len(words(d.page_content) & words(query)) for d in self.docs]
        order = sorted(range(len(self.docs)), key=lambda place: -shared[place])
        return [self.docs[place] for place in order if shared[place]][: self.k]


class Calling(BaseRetriever):
    call: Callable[[str], Any]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> Any:
        return self.call(query)


class Terms(SparseEmbeddings):
    """The counts of a dense model as a sparse vector."""

    def __init__(self, dense: Embeddings | None = None) -> None:
        self.dense = dense or Counting()

    def embed_documents(self, texts: list[str]) -> list[SparseVector]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> SparseVector:
        counts = {place: count for place, count in enumerate(self.dense.embed_query(text)) if count}
        return SparseVector(indices=[*counts], values=[*counts.values()])


def vector_store(
    mode: RetrievalMode = RetrievalMode.DENSE,
    distance: models.Distance = models.Distance.COSINE,
    kind: type[QdrantVectorStore] = QdrantVectorStore,
    **options: Any,
) -> QdrantVectorStore:
    """Return a store in memory over the documents, made by langchain-qdrant itself."""
    docs = documents()
    return kind.from_documents(
        docs,
        None if mode == RetrievalMode.SPARSE else Counting(),  # type: ignore[arg-type]
        location=":memory:",
        collection_name="robots",
        retrieval_mode=mode,
        distance=distance,
        sparse_embedding=None if mode == RetrievalMode.DENSE else Terms(),
        ids=[str(UUID(int=number)) for number in range(len(docs))],
        **options,
    )


class Reversed(QdrantVectorStore):
    def similarity_search_with_score(  # type: ignore[override]
        self, query: str, k: int = 4, **options: Any
    ) -> list[tuple[Document, float]]:
        return [(d, 1 - s) for d, s in super().similarity_search_with_score(query, k, **options)][::-1]


def raises_in_the_middle() -> BaseRetriever:
    inner = Overlap(docs=documents())

    def call(query: str) -> list[Document]:
        if "channel" in query:
            raise ConnectionError("the index went away")
        return inner.invoke(query)

    return Calling(call=call)


def without_collection() -> QdrantVectorStore:
    made = vector_store()
    made.client.delete_collection("robots")
    return made


def fail() -> BaseRetriever:
    raise RuntimeError("no index at\n/nowhere")


def plain() -> BaseRetriever:
    return Overlap(docs=documents())


not_a_factory = 42
FACTORIES: Mapping[str, Callable[[], Any]] = {
    "dense": vector_store,
    "leave": lambda: sys.exit(0),
    "with_ids": lambda: Overlap(docs=documents("chunk_id", "source_url", "section_path", "heading")),
    "asynchronous": lambda: plain().ainvoke,
    "without_pages": lambda: Overlap(docs=documents("title")),
    # Addresses under `source`, as LangChain's loaders write them, within `info`.
    "under_other_keys": lambda: Overlap(
        docs=[
            Document(page_content=one.page_content, metadata={"info": {"source": one.metadata["source_url"]}})
            for one in documents()
        ]
    ),
    "repeating": lambda: Overlap(docs=[one for one in documents() for _ in range(2)], k=6),
    # What no collection of the experiment holds.
    "elsewhere": lambda: Calling(
        call=lambda query: [Document(page_content="an orbit is a closed path", metadata={"n": 1})]
    ),
    # Extracts of its chunks, by their ids.
    "extracting": lambda: Overlap(
        docs=[Document(page_content=one.page_content[:20], metadata=one.metadata) for one in documents("chunk_id", "n")]
    ),
    "one_string": lambda: Calling(call=lambda query: "a string"),
    "none": lambda: Calling(call=lambda query: None),
    "textless": lambda: Calling(call=lambda query: [*documents(), Document(page_content=" \n", metadata={"page": 3})]),
    "leaves_in_the_middle": lambda: Calling(call=lambda query: sys.exit(0)),
    "nothing": lambda: None,
    "a_class": lambda: Overlap,
    "ours": lambda: QdrantRetriever.model_construct(settings=RetrieverConfig(), vector_store=Any),
    "memory_store": lambda: InMemoryVectorStore(Counting()),
    "sparse": lambda: vector_store(mode=RetrievalMode.SPARSE),
    "hybrid": lambda: vector_store(mode=RetrievalMode.HYBRID),
    "euclid": lambda: vector_store(distance=models.Distance.EUCLID),
    "own_way": lambda: vector_store(kind=Reversed),
    "other_keys": lambda: vector_store(content_payload_key="body", metadata_payload_key="about"),
    "as_retriever": lambda: vector_store().as_retriever(search_kwargs={"k": 3}),
}


def __getattr__(name: str) -> Any:
    if name in FACTORIES:
        return FACTORIES[name]
    raise AttributeError(name)


def settings(name: str, **values: Any) -> RetrieverConfig:
    return RetrieverConfig.model_validate({"python": f"{HERE}:{name}", **values})
