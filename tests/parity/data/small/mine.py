"""Retrievers as users bring them: a LangChain retriever without scores, and a QdrantVectorStore in memory."""

import hashlib
import re
from pathlib import Path

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models


def documents() -> list[Document]:
    """Return the paragraphs of all pages."""
    found = []
    for file in sorted(Path("docs").rglob("*.md")):
        body = file.read_text("utf-8").split("---\n", 2)[2]
        address = f"/docs/{file.relative_to('docs').with_suffix('')}"
        heading = file.stem
        for part in re.split(r"\n\n+", body.strip()):
            if part.startswith("#"):
                heading = part.lstrip("# ")
            else:
                about = {"url": address, "title": file.stem, "heading": heading, "section_path": heading}
                found.append(Document(page_content=part, metadata=about))
    return found


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return re.findall(r"\w+", text.lower())


class Overlap(BaseRetriever):
    """Paragraphs that share words with the query, those with more of them first."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found = documents()
        shared = [len(set(words(one.page_content)) & set(words(query))) for one in found]
        order = sorted(range(len(found)), key=lambda place: -shared[place])
        return [found[place] for place in order if shared[place]][:6]


class Hashed(Embeddings):
    """Counts words in 64 buckets."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        counts = [0.0] * 64
        for word in words(text):
            counts[hashlib.sha256(word.encode()).digest()[0] % 64] += 1.0
        return counts

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.embed_query(text) for text in texts]


def overlap() -> Overlap:
    """Return a retriever without scores."""
    return Overlap()


def vector_store() -> QdrantVectorStore:
    """Return a store in memory, over cosine."""
    found = documents()
    return QdrantVectorStore.from_documents(
        found, Hashed(), ids=list(range(len(found))), location=":memory:", collection_name="paragraphs"
    )


def model() -> Hashed:
    """Return embeddings whose vectors have any length, for dot products and distances."""
    return Hashed()


def make_local() -> None:
    """Write collections that no command of ours makes: other distances than the cosine, and two tenants in one."""
    client = QdrantClient(path="local")
    found = documents()
    vectors = model().embed_documents([one.page_content for one in found])
    for name, distance in (("dot", models.Distance.DOT), ("euclid", models.Distance.EUCLID)):
        client.create_collection(name, vectors_config=models.VectorParams(size=64, distance=distance))
        for number, (one, vector) in enumerate(zip(found, vectors, strict=True)):
            about = {**one.metadata, "chunk_id": f"c{number:02}", "source_url": one.metadata["url"]}
            about["tenant"] = ("even", "odd")[number % 2]
            payload = {"page_content": one.page_content, "metadata": about}
            client.upsert(name, [models.PointStruct(id=number, vector=vector, payload=payload)])
    client.close()


if __name__ == "__main__":
    make_local()
