"""The passages of a collection or of a folder of pages, and those nearest to a text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from evals.errors import DatasetError
from evals.golden.listed_chunks import chunked_pages, collection_name, listed_chunks
from retrievers.config import MAX_QUERY_CHARACTERS, RetrieverConfig
from retrievers.embedding.models import make_embeddings
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever

# Words of a passage that it is looked up by.
QUERY_WORDS = 60


@dataclass(frozen=True, kw_only=True)
class Passages:
    """Passages to write queries to.

    Attributes:
        chunks: All of them.
        nearest: Text and number to the chunks nearest to it, the nearest first.
        embed: Queries to their vectors of length 1, shape (queries, dimension).
        origin: What messages call them.
    """

    chunks: Sequence[Chunk]
    nearest: Callable[[str, int], Sequence[Chunk]]
    embed: Callable[[Sequence[str]], NDArray[np.float64]]
    origin: str

    def alike(self, chunk: Chunk, count: int) -> list[Chunk]:
        """Return the other chunks nearest to a chunk, the nearest first."""
        text = " ".join(chunk.text.split()[:QUERY_WORDS])[:MAX_QUERY_CHARACTERS]
        return [other for other in self.nearest(text, count + 1) if other.chunk_id != chunk.chunk_id]


@contextmanager
def open_passages(
    settings: RetrieverConfig, docs: Path | None, base_url: str, env: Mapping[str, str]
) -> Iterator[Passages]:
    """Yield the passages of a folder of pages, or where none is given of the collection.

    Args:
        settings: Collection and embedding model.
        docs: Folder of Markdown pages.
        base_url: Start of the addresses of its pages.
        env: Environment that holds API keys.

    Raises:
        DatasetError: None of them holds text.
        RetrievalError: Pages or collection cannot be read.
    """
    embeddings = make_embeddings(settings.embedding, env)
    if docs is not None:
        chunks = _checked(chunked_pages(docs, base_url)[1], str(docs), "expected pages with paragraphs")
        vectors = _unit(embeddings.embed_documents([chunk.text for chunk in chunks]))

        def among_pages(text: str, count: int) -> list[Chunk]:
            order = np.argsort(-(vectors @ _unit([embeddings.embed_query(text)])[0]), kind="stable")
            return [chunks[index] for index in order[:count]]

        yield Passages(chunks=chunks, nearest=among_pages, embed=embedder(embeddings), origin=str(docs))
        return
    key = settings.metadata.text_key
    chunks = _checked(
        listed_chunks(settings, env), collection_name(settings), f"expected it under payload key {key!r} "
        "(retriever.metadata.text_key; python -m retrievers inspect shows the keys)",
    )  # fmt: skip
    with open_retriever(_unranked(settings), env=env) as retriever:

        def in_collection(text: str, count: int) -> list[Chunk]:
            [candidates] = retriever.candidates([text], depth=count)
            return [candidate.chunk for candidate in candidates[:count]]

        origin = collection_name(settings)
        yield Passages(chunks=chunks, nearest=in_collection, embed=embedder(embeddings), origin=origin)


def _unranked(settings: RetrieverConfig) -> RetrieverConfig:
    """Return the settings without reranking, which may cost a call a search."""
    return settings if settings.python is not None else settings.model_copy(update={"rerank": "none"})


def _checked(chunks: Sequence[Chunk], origin: str, hint: str) -> list[Chunk]:
    with_text = [chunk for chunk in chunks if chunk.text.strip()]
    if not with_text:
        raise DatasetError(f"{origin}: none of its {len(chunks)} chunks holds text to write queries to; {hint}")
    return with_text


def embedder(embeddings: Embeddings) -> Callable[[Sequence[str]], NDArray[np.float64]]:
    """Return a function from queries to their vectors of length 1, shape (queries, dimension)."""
    return lambda texts: _unit([embeddings.embed_query(text) for text in texts])


def _unit(vectors: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    array = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(lengths == 0, 1.0, lengths)
