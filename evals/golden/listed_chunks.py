"""All chunks of a collection, or of a folder of pages."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evals.errors import DatasetError
from retrievers.config import RetrieverConfig
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.markdown import Page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever
from retrievers.store import describe, open_client
from retrievers.store.stored_chunks import scroll


def listed_chunks(config: RetrieverConfig, env: Mapping[str, str]) -> list[Chunk]:
    """Return all chunks of a collection, or of the one behind the user's own retriever.

    Raises:
        DatasetError: The user's own retriever does not let them be listed.
        RetrievalError: The store cannot be read.
    """
    if config.python is None:
        client = open_client(config.store, env)
        try:
            return scroll(client, config, info=describe(client, config))
        finally:
            client.close()
    with open_retriever(config, env=env) as retriever:
        if retriever.info is None:
            raise DatasetError(
                f"python: the chunks of {config.python!r} ({retriever.label}) cannot be listed; name the store and "
                "collection that it reads from (--store.path or --store.url, --collection), or let the factory return "
                "its QdrantVectorStore"
            )
        return retriever.chunks()


def collection_name(config: RetrieverConfig) -> str:
    """Return what a message calls the collection."""
    return f"collection {config.collection!r}" if config.python is None else f"python {config.python!r}"


def chunked_pages(docs: Path, base_url: str) -> tuple[Sequence[Page], list[Chunk]]:
    """Return the pages of a folder, and their chunks as indexing cuts them by default.

    Raises:
        IndexingError: The folder has no page, or a page cannot be read.
    """
    corpus = read_corpus(docs, base_url)
    if corpus.faults:
        raise IndexingError("pages cannot be read:", corpus.faults)
    chunks = [chunk for page in corpus.pages for chunk in chunk_page(page, DEFAULT_MAX_TOKENS, count_tokens)]
    return corpus.pages, chunks
