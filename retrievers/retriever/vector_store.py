"""The `QdrantVectorStore` inside a retriever: made from settings, or the caller's own."""

from collections.abc import Mapping
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore, RetrievalMode, SparseEmbeddings, SparseVector
from qdrant_client import QdrantClient, models

from retrievers.config import Mode, RetrieverConfig, StoreConfig
from retrievers.embedding.bm25 import QueryEncoder
from retrievers.errors import ConfigError, EmbeddingError
from retrievers.search.query import terms_of
from retrievers.text.secrets import redacted

MODES: Mapping[Mode, RetrievalMode] = {
    "semantic": RetrievalMode.DENSE,
    "keyword": RetrievalMode.SPARSE,
    "hybrid": RetrievalMode.HYBRID,
}


class QueryTerms(SparseEmbeddings):
    """The keyword side of our settings, as langchain-qdrant asks for it."""

    def __init__(self, settings: RetrieverConfig, encoder: QueryEncoder) -> None:
        self._settings, self._encoder = settings, encoder

    def embed_query(self, text: str) -> SparseVector:
        """Return the weights of a query's terms, synonyms included.

        Raises:
            EmbeddingError: The server encodes queries.
        """
        terms = terms_of(text, self._settings.keyword, self._encoder)
        if isinstance(terms, models.Document):
            raise EmbeddingError("keyword.encoder server encodes in Qdrant; langchain-qdrant wants the terms here")
        return SparseVector(indices=terms.indices, values=terms.values)

    def embed_documents(self, texts: list[str]) -> list[SparseVector]:
        """Refuse: chunks are written by `retrievers index`, which counts their terms."""
        raise EmbeddingError("chunks are written by `python -m retrievers index`, not through a retriever's store")


def make_store(
    settings: RetrieverConfig, client: QdrantClient, embeddings: Embeddings, encoder: QueryEncoder
) -> QdrantVectorStore:
    """Return the vector store that the settings describe.

    Its own check of the collection would embed a text, which may cost money; ours run instead, and ask for more.
    """
    return QdrantVectorStore(
        client,
        settings.collection,
        embedding=embeddings,
        retrieval_mode=MODES[settings.mode],
        vector_name=settings.vector_name,
        content_payload_key=settings.metadata.text_key,
        metadata_payload_key=settings.metadata.nested_under,
        distance=models.Distance(settings.used_distance.title()),
        sparse_embedding=None if settings.mode == "semantic" else QueryTerms(settings, encoder),
        sparse_vector_name=settings.keyword.vector_name,
        validate_collection_config=False,
    )


def is_searched_by_itself(store: QdrantVectorStore) -> bool:
    """Return True if only the store knows how it searches: by a method of its own, or without a model of meaning."""
    plain = type(store).similarity_search_with_score is QdrantVectorStore.similarity_search_with_score
    return not plain or store.embeddings is None


def settings_over(store: QdrantVectorStore, settings: RetrieverConfig) -> RetrieverConfig:
    """Return settings with what a caller's store settles: collection, payload keys, names of vectors, and its mode.

    Args:
        store: The store.
        settings: All else; a mode that they name is searched in place of the store's own.

    Raises:
        ConfigError: The settings name other payload keys, or a mode that the store has no encoder for.
    """
    if settings.python is None:
        return settings  # the store was made of them
    keys = {"text_key": store.content_payload_key, "nested_under": store.metadata_payload_key}
    for name, key in keys.items():
        value, default = getattr(settings.metadata, name), type(settings.metadata).model_fields[name].default
        if value not in (key, default):
            raise ConfigError(
                f"metadata.{name}: {type(store).__name__} reads payload key {key!r}, got {value!r}; leave it out"
            )
    own_mode = next(mode for mode, theirs in MODES.items() if theirs == store.retrieval_mode)
    changes: dict[str, Any] = {
        "collection": store.collection_name,
        "store": _place(store.client),
        "metadata": settings.metadata.model_copy(update=keys),
        "vector_name": store.vector_name,
        "mode": settings.mode if "mode" in settings.model_fields_set else own_mode,
    }
    encoder = own_terms(store)
    if encoder is not None:
        kind = type(encoder)
        written = {"vector_name": store.sparse_vector_name, "encoder": f"python:{kind.__module__}:{kind.__qualname__}"}
        named = settings.keyword.model_dump(exclude_unset=True)
        changes["keyword"] = type(settings.keyword).model_validate(named | written)
    return settings.model_copy(update=changes)


def own_terms(store: QdrantVectorStore) -> SparseEmbeddings | None:
    """Return the model of sparse vectors of a caller's store, None where it has none, or ours."""
    try:
        encoder = store.sparse_embeddings
    except ValueError:
        return None
    return None if isinstance(encoder, QueryTerms) else encoder


def _place(client: Any) -> StoreConfig:
    """Return the address of a client made elsewhere, for messages; not checked as our own settings are."""
    options = getattr(client, "init_options", None) or {}
    where = next((options[name] for name in ("url", "host", "path", "location") if options.get(name)), None)
    return StoreConfig.model_construct(url=redacted(str(where or type(client).__name__)))
