"""Documents to chunks, all chunks of the collection behind a retriever, and the match of results with them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from retrievers.config import MetadataConfig, RetrieverConfig, StoreConfig
from retrievers.errors import CollectionStateError, ConfigError, ForeignRetrieverError, RetrievalError, StoreError
from retrievers.net.faults import cause
from retrievers.records import Chunk
from retrievers.store import CollectionInfo, Deployment, read_info, survey
from retrievers.store.payload import to_chunk
from retrievers.store.stored_chunks import records, scroll
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient

SHOWN = 60
# Where langchain-qdrant puts the id of the point.
POINT_KEY = "_id"


class Listing:
    """A collection whose chunks can be listed.

    Attributes:
        info: Information on the collection from its opening.
    """

    def __init__(self, client: "QdrantClient", config: RetrieverConfig) -> None:
        """Look at the collection.

        Args:
            client: An open client.
            config: Names the collection and its payload.

        Raises:
            StoreError: It does not exist, is unfinished or cannot be read.
        """
        self._client = client
        self._config = config
        with self._errors():
            self.info: CollectionInfo = read_info(client, config)
        if self.info.manifest.get("state", "complete") != "complete":
            raise CollectionStateError(
                f"collection {self.info.name!r} is unfinished: an indexing run was interrupted; "
                "run it again (python -m retrievers index DIR)"
            )

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Return chunks by field values (see `stored_chunks.scroll`)."""
        with self._errors():
            return scroll(self._client, self._config, where, self.info)

    def sample(self, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Point ids and payloads of the first points."""
        with self._errors():
            points = list(records(self._client, self._config, self.info.limits, count=count))
        return [(str(record.id), record.payload or {}) for record in points]

    def survey(self) -> tuple[CollectionInfo, Deployment | None]:
        """Return the collection's current state (see `deployment.survey`)."""
        with self._errors():
            return survey(self._client, self._config)

    def identified(self, chunk: Chunk) -> Chunk:
        """Return a chunk of the retriever under its id in the collection: found by id, else by address and text.

        Raises:
            ForeignRetrieverError: The collection does not hold it.
        """
        stored = self._by_id.get(chunk.chunk_id) or self._by_id.get(chunk.point_id) or self._by_content.get(_key(chunk))
        if stored is None:
            raise ForeignRetrieverError(
                f"returned a chunk that collection {self.info.name!r} does not hold ({chunk.source}: "
                f"{chunk.chunk_text_preview[:60]!r}); name the collection that it reads from, or leave store and "
                "collection out: relevance is then resolved in what it returns"
            )
        return replace(chunk, chunk_id=stored)

    def close(self) -> None:
        """Let go of the client."""
        self._client.close()

    @cached_property
    def _all(self) -> list[Chunk]:
        return self.chunks()

    @cached_property
    def _by_id(self) -> Mapping[str, str]:
        points = {chunk.point_id: chunk.chunk_id for chunk in self._all}
        return points | {chunk.chunk_id: chunk.chunk_id for chunk in self._all}

    @cached_property
    def _by_content(self) -> Mapping[tuple[str | None, str], str]:
        return {_key(chunk): chunk.chunk_id for chunk in reversed(self._all)}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except RetrievalError:
            raise
        except Exception as error:  # a client that the user made may raise anything
            raise StoreError(f"collection {self._config.collection!r} cannot be read: {cause(error)}") from error


def listing_of(store: "QdrantVectorStore", settings: RetrieverConfig) -> Listing:
    """Return the listing of a vector store's own collection, payload keys as the store has them.

    Raises:
        ConfigError: The settings name other payload keys.
        StoreError: The collection does not exist, or cannot be read.
    """
    from langchain_qdrant import RetrievalMode

    keys = {"text_key": store.content_payload_key, "nested_under": store.metadata_payload_key}
    for name, key in keys.items():
        value, default = getattr(settings.metadata, name), type(settings.metadata).model_fields[name].default
        if value not in (key, default):
            raise ConfigError(
                f"metadata.{name}: {type(store).__name__} reads payload key {key!r}, got {value!r}; leave it out"
            )
    sparse = store.retrieval_mode == RetrievalMode.SPARSE
    changes = {
        "collection": store.collection_name,
        "store": _place(store.client),
        "metadata": settings.metadata.model_copy(update=keys),
        "vector_name": None if sparse else store.vector_name,
    }
    return Listing(store.client, settings.model_copy(update=changes))


def _place(client: Any) -> StoreConfig:
    """Return the address of a client made elsewhere, for messages; not checked as our own settings are."""
    options = getattr(client, "init_options", None) or {}
    where = next((options[name] for name in ("url", "host", "path", "location") if options.get(name)), None)
    return StoreConfig.model_construct(url=redacted(str(where or type(client).__name__)))


def _key(chunk: Chunk) -> tuple[str | None, str]:
    return chunk.source_url, " ".join(chunk.text.split())


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
