"""The `QdrantVectorStore` inside a retriever, which is made from settings or is the caller's own."""

from collections.abc import Mapping
from typing import Any

from langchain_qdrant import QdrantVectorStore, RetrievalMode, SparseEmbeddings, SparseVector
from pydantic import ValidationError
from qdrant_client import models

from retrievers.config import Mode, RetrieverConfig, StoreConfig, faults_of
from retrievers.embedding.bm25 import Bm25Encoder, expand, own_weights
from retrievers.errors import ConfigError, EmbeddingError
from retrievers.text.shown import redacted

DENSE, SPARSE, HYBRID = RetrievalMode.DENSE, RetrievalMode.SPARSE, RetrievalMode.HYBRID
MODES: Mapping[Mode, RetrievalMode] = {"semantic": DENSE, "keyword": SPARSE, "hybrid": HYBRID}


class QueryTerms(SparseEmbeddings):
    """The keyword side of a search, by our settings or by a caller's store, also for langchain-qdrant."""

    def __init__(self, settings: RetrieverConfig, store: QdrantVectorStore | None) -> None:
        self._settings = settings
        self._own = own_terms(store) if store else None

    def of(self, query: str) -> models.SparseVector:
        """Return the weights of a query's terms, synonyms included."""
        keyword = self._settings.keyword
        if self._own:
            return own_weights(self._own, query)
        return Bm25Encoder(keyword.language).query(query, expand(query, keyword.synonyms))

    def embed_query(self, text: str) -> SparseVector:
        """Return the weights of a query's terms, synonyms included."""
        terms = self.of(text)
        return SparseVector(indices=terms.indices, values=terms.values)

    def embed_documents(self, texts: list[str]) -> list[SparseVector]:
        """Refuse: `retrievers index` writes chunks, and counts their terms."""
        raise EmbeddingError("chunks are written by `python -m retrievers index`, not through a retriever's store")


def make_store(settings: RetrieverConfig, client: Any, embeddings: Any, terms: QueryTerms | None) -> QdrantVectorStore:
    """Return the vector store that the settings describe. `terms` is None if only the meaning is searched for.

    Its own check of the collection would embed a text, which may cost money. Our checks replace it.
    """
    return QdrantVectorStore(
        client,
        settings.collection,
        embedding=embeddings,
        retrieval_mode=MODES[settings.mode],
        vector_name=settings.vector_name,
        content_payload_key=settings.metadata.text_key,
        metadata_payload_key=settings.metadata.nested_under,
        sparse_embedding=terms,
        sparse_vector_name=settings.keyword.vector_name,
        validate_collection_config=False,
    )


def settings_over(store: QdrantVectorStore, settings: RetrieverConfig) -> RetrieverConfig:
    """Complete settings by those of a caller's store: collection, payload keys, names of vectors, and mode.

    Args:
        store: The store.
        settings: The settings. A mode that they name replaces the mode of the store.

    Raises:
        ConfigError: They name a collection, or do not fit the store's mode or its sparse vectors.
    """
    if settings.names_collection:
        raise ConfigError(f"collection: python {settings.python!r} reads {store.collection_name!r}; leave it out")
    keys = {"text_key": store.content_payload_key, "nested_under": store.metadata_payload_key}
    own_mode = next(mode for mode, theirs in MODES.items() if theirs == store.retrieval_mode)
    options = getattr(store.client, "init_options", None) or {}
    locations = [str(options[name]) for name in ("url", "host", "path", "location") if options.get(name)]
    mode = settings.mode if "mode" in settings.model_fields_set else own_mode
    has_own_terms = own_terms(store) is not None
    try:
        settled = settings.replaced_by({"mode": mode})
    except ValidationError as error:
        raise ConfigError(f"python {settings.python!r} is searched in mode {mode}: {faults_of(error)}") from None
    if has_own_terms and settings.threshold_signal == "known_words":
        raise ConfigError("threshold_signal 'known_words' needs words, which a sparse_embedding of your own has not")
    keyword = settings.keyword.of_own_model(store.sparse_vector_name) if has_own_terms else settings.keyword
    of_store = {
        "collection": store.collection_name,
        # For messages only, so it is not validated.
        "store": StoreConfig.model_construct(url=redacted([*locations, type(store.client).__name__][0])),
        "metadata": settings.metadata.model_copy(update=keys),
        "vector_name": store.vector_name,
        "keyword": keyword,
    }
    completed = settled.model_copy(update=of_store)
    # The user did not name them. Named settings would be refused beside `python`.
    completed.model_fields_set.difference_update(("collection", "store", "vector_name"))
    return completed


def own_terms(store: QdrantVectorStore) -> SparseEmbeddings | None:
    """Return the model of sparse vectors of a caller's store; None if it has none, or has ours."""
    try:
        encoder = store.sparse_embeddings
    except ValueError:
        return None
    return None if isinstance(encoder, QueryTerms) else encoder
