"""The user's factory, or its product, to a retriever that can be evaluated."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from retrievers.config import RetrieverConfig
from retrievers.config.factory import build
from retrievers.errors import ConfigError
from retrievers.foreign.adapter import ForeignRetriever
from retrievers.foreign.listing import Listing, listing_of
from retrievers.foreign.sources import RetrieverSource, Source, StoreSource
from retrievers.store import open_client

if TYPE_CHECKING:
    from langchain_qdrant import QdrantVectorStore

EXPECTED = "expected a LangChain BaseRetriever or a QdrantVectorStore"


def open_foreign(settings: RetrieverConfig, env: Mapping[str, str]) -> ForeignRetriever:
    """Call the factory, and open the collection that the chunks are listed from.

    A `QdrantVectorStore` lists its own, and so does what its `as_retriever` makes; for any other retriever it is the
    one that the settings name, if they name one.

    Args:
        settings: Settings with `python`.
        env: The environment that holds the API key of a store that the settings name.

    Raises:
        ConfigError: The factory fails or returns something else, or a setting does not fit its product.
        StoreError: The collection does not exist, or cannot be read.
    """
    return adopt(build(settings.python or "", "python"), settings, env, owned=True)


def adopt(target: Any, settings: RetrieverConfig, env: Mapping[str, str], *, owned: bool = False) -> ForeignRetriever:
    """Put a LangChain retriever or vector store behind the calls of an evaluation.

    Args:
        target: The retriever.
        settings: Settings with `python`, by which messages name it.
        env: The environment that holds the API key of a store that the settings name.
        owned: Close it with the result, and on errors. A caller's own object stays open.

    Raises:
        ConfigError: It is something else, or a setting does not fit it.
        StoreError: The collection does not exist, or cannot be read.
    """
    store = _vector_store(target)
    if store is None:
        if not isinstance(target, BaseRetriever):
            raise ConfigError(f"python {settings.python!r}: {EXPECTED}, got {_described(target)}")
        checked = _checked(settings, RetrieverSource(target, owned=owned))
        return ForeignRetriever(settings, checked, _named_listing(settings, env))
    try:
        if settings.names_collection:
            raise ConfigError(
                f"collection: python {settings.python!r} reads {store.collection_name!r} and its chunks are listed "
                "from there; leave store and collection out"
            )
        listing = listing_of(store, settings)
        source = (
            RetrieverSource(target, owned=owned)
            if isinstance(target, BaseRetriever)
            else StoreSource(store, listing.info)
        )
        return ForeignRetriever(settings, _checked(settings, source), listing, owned=owned)
    except BaseException:
        if owned:
            store.client.close()
        raise


def _named_listing(settings: RetrieverConfig, env: Mapping[str, str]) -> Listing | None:
    if not settings.names_collection:
        return None
    client = open_client(settings.store, env)
    try:
        return Listing(client, settings)
    except BaseException:
        client.close()
        raise


def _checked(settings: RetrieverConfig, source: Source) -> Source:
    if settings.used_threshold is not None and source.no_cosine:
        raise ConfigError(
            f"threshold: {settings.threshold:g} cannot be applied to python {settings.python!r}: {source.no_cosine}; "
            "leave threshold out"
        )
    return source


def _vector_store(retriever: Any) -> "QdrantVectorStore | None":
    """Return the store itself, or that of a plain store retriever; others may return more than their store holds."""
    from langchain_qdrant import QdrantVectorStore

    inner = retriever.vectorstore if type(retriever) is VectorStoreRetriever else retriever
    return inner if isinstance(inner, QdrantVectorStore) else None


def _described(value: Any) -> str:
    if inspect.iscoroutine(value):
        value.close()
        return "a coroutine; the factory must not be async"
    if inspect.isclass(value):
        return f"the class {value.__name__}; the factory must call it"
    hint = "; return its as_retriever()" if isinstance(value, VectorStore) else ""
    return f"{type(value).__name__}{hint}"
