"""LangChain's own tutorials for Qdrant; the stores and retrievers they end with go through our doors as they are."""

import asyncio
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pypdf
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import chain
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from langchain_text_splitters import RecursiveCharacterTextSplitter
from qdrant_client import QdrantClient, models
from qdrant_client.models import Distance, VectorParams

import evals
from retrievers.errors import ConfigError
from tests.support.foreign import Terms
from tests.support.indexing import pdf

SIZE = 512
TEXTS = (
    "The ferry to the island leaves at nine from the north pier.",
    "Tickets for the ferry are sold on board; the crew takes coins and cards.",
    "Where do I buy honey? The market on the square sells it, and tickets for the fair.",
    "A storm closed the mountain road for two days.",
    "The island museum shows nets, lamps and old charts.",
)
DOCS = [Document(page_content=text, metadata={"source": "harbour"}) for text in TEXTS]
HOUR, WHERE, SOUP = "When does the ferry to the island leave?", "Where do I buy tickets for the ferry?", "onion soup"
# The ferry is the first for HOUR; honey has more words of WHERE than the tickets, which come second: half hit at 1.
ANSWERS = {HOUR: "leaves at nine", WHERE: "sold on board"}
GOLDEN: list[dict[str, Any]] = [{"query": query, "evidence": [{"quote": text}]} for query, text in ANSWERS.items()]
GOLDEN.append({"query": SOUP, "in_scope": False})
METRICS = ["ranking/*", "scope/*"]


class Words(Embeddings):
    """Counts words, each in the dimension that its checksum gives: stands in for OpenAI's model."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        counts = Counter(zlib.crc32(word.encode()) % SIZE for word in re.findall(r"\w+", text.lower()))
        return [float(counts[place]) for place in range(SIZE)]


def check_run(given: Any, find: Callable[[str], Sequence[Document]], *, at_5: float = 1.0) -> None:
    """Evaluate it: half of the queries are hits at 1, and at every depth as many as in the order of its own search."""
    found = evals.evaluate(given, GOLDEN, metrics=METRICS).metrics
    own = {k: sum(any(ANSWERS[q] in d.page_content for d in find(q)[:k]) for q in ANSWERS) / 2 for k in (1, 3, 5)}
    assert {k: found[f"ranking/hit_rate_at_{k}"].value for k in own} == own
    assert (own[1], own[5]) == (0.5, at_5)
    assert found["scope/false_answer"].value == bool(find(SOUP))


def check_store(store: QdrantVectorStore, mode: str = "semantic") -> None:
    """Evaluate and sweep it. The best of each query has a cosine of 0.67 and 0.66, the next 0.40 and 0.44."""
    check_run(store, lambda query: [document for document, _ in store.similarity_search_with_score(query, k=5)])
    cells = evals.sweep(store, GOLDEN, top_k=[1, 2], threshold=[0.0, 0.6], metrics=[*METRICS, "ragas/id_*"]).cells
    recall = {(c["top_k"], c["threshold"]): c["ragas/id_context_recall"] for _, c in cells.iterrows()}
    assert (recall, {*cells["mode"]}) == ({(1, 0.0): 0.5, (2, 0.0): 1.0, (1, 0.6): 0.5, (2, 0.6): 0.5}, {mode})


@pytest.fixture
def vector_store() -> Iterator[QdrantVectorStore]:
    """The store in memory that the tutorials begin with."""
    with closing(QdrantClient(":memory:")) as client:
        client.create_collection("harbour", VectorParams(size=SIZE, distance=Distance.COSINE))
        yield QdrantVectorStore(client=client, collection_name="harbour", embedding=Words())


def test_dense_search_and_an_mmr_retriever_in_memory(vector_store: QdrantVectorStore) -> None:
    vector_store.add_documents(documents=DOCS)
    retriever = vector_store.as_retriever(search_type="mmr", search_kwargs={"k": 1})
    check_run(retriever, retriever.invoke, at_5=0.5)
    check_store(vector_store)


@pytest.mark.parametrize("mode", [RetrievalMode.SPARSE, RetrievalMode.HYBRID])
def test_sparse_and_hybrid_search_on_disk(mode: RetrievalMode, tmp_path: Path) -> None:
    own: dict[str, Any] = {"sparse_embedding": Terms(Words()), "sparse_vector_name": "sparse", "retrieval_mode": mode}
    own |= {"embedding": Words(), "vector_name": "dense"} if mode == RetrievalMode.HYBRID else {}
    with closing(QdrantClient(path=str(tmp_path / "db"))) as client:
        client.create_collection(
            "harbour",
            {"dense": VectorParams(size=SIZE, distance=Distance.COSINE)},
            sparse_vectors_config={"sparse": models.SparseVectorParams()},
        )
        qdrant = QdrantVectorStore(client=client, collection_name="harbour", **own)
        qdrant.add_documents(documents=DOCS)
        check_run(qdrant.as_retriever(), qdrant.as_retriever().invoke)
        if mode == RetrievalMode.HYBRID:
            check_store(qdrant, "hybrid")
            return
        check_run(qdrant, qdrant.similarity_search)
        with pytest.raises(ConfigError, match="gives no scores"):
            evals.sweep(qdrant, GOLDEN, top_k=[1, 2], threshold=[0.0, 0.3])
        assert len(evals.sweep(qdrant, GOLDEN, top_k=[1, 2]).cells) == 2


def test_a_pdf_in_a_notebook(vector_store: QdrantVectorStore, tmp_path: Path) -> None:
    """Build a semantic search engine with LangChain, as in a notebook, where an event loop runs."""
    (tmp_path / "harbour.pdf").write_bytes(pdf(TEXTS))
    pages = pypdf.PdfReader(tmp_path / "harbour.pdf").pages
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200, add_start_index=True)
    vector_store.add_documents(splitter.split_documents([Document(page.extract_text()) for page in pages]))

    @chain
    def retriever(query: str) -> list[Document]:
        return vector_store.similarity_search(query, k=1)

    async def notebook() -> None:
        check_run(retriever, retriever.invoke, at_5=0.5)
        check_store(vector_store)

    asyncio.run(notebook())
