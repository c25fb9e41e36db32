"""LangChain documents to chunks, by the names the settings give. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from langchain_core.documents import Document

from retrievers.config import MetadataConfig
from retrievers.errors import ForeignRetrieverError
from retrievers.records import Chunk
from retrievers.store.payload import to_chunk

SHOWN = 60
# Where langchain-qdrant puts the id of the point.
POINT_KEY = "_id"


def checked_documents(answer: Any) -> list[Document]:
    """Check that a retriever returned a list of documents with text.

    Raises:
        ForeignRetrieverError: It did not; the message names the actual type and its position.
    """
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise ForeignRetrieverError(f"returned {_shown(answer)}; expected a list of LangChain Documents")
    for number, document in enumerate(answer, 1):
        if not isinstance(document, Document):
            raise ForeignRetrieverError(f"returned {_shown(document)} at place {number}; expected a LangChain Document")
        if not isinstance(document.page_content, str) or not document.page_content.strip():
            raise ForeignRetrieverError(
                f"returned a document without text at place {number} (metadata {_shown(document.metadata)}); expected "
                "the chunk's text in page_content"
            )
    return list(answer)


def checked_score(score: Any) -> float:
    """Check that a score is a finite number.

    Raises:
        ForeignRetrieverError: It is none.
    """
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = float("nan")
    if not isfinite(value):
        raise ForeignRetrieverError(f"gave the score {score!r}; expected a finite number")
    return value


def chunk_of(document: Document, config: MetadataConfig) -> Chunk:
    """Convert a document to a chunk; its metadata is read as a payload (see `payload.to_chunk`).

    The metadata's own `nested_under` key is looked into where there is one. A chunk is known by its `chunk_id` (or what
    that is mapped to), else by the document's id or the point's, else by a hash of its address and text.
    """
    nested = document.metadata.get(config.nested_under) if config.nested_under else None
    metadata: Mapping[str, Any] = nested if isinstance(nested, Mapping) else document.metadata
    own = next((i for i in (document.id, document.metadata.get(POINT_KEY)) if isinstance(i, str | int) and i != ""), "")
    payload = (
        {config.text_key: document.page_content, config.nested_under: metadata}
        if config.nested_under
        else {**metadata, config.text_key: document.page_content}
    )
    chunk = to_chunk(own, payload, config)
    chunk_id = chunk.chunk_id or _digest(chunk)
    return replace(chunk, chunk_id=chunk_id, point_id=chunk.point_id or chunk_id)


def _digest(chunk: Chunk) -> str:
    content = f"{chunk.source_url or ''}\0{chunk.text}"
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:SHOWN]}{'…' if len(text) > SHOWN else ''}" if value is not None else "None"
