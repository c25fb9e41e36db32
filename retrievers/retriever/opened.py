"""Open the retriever that settings name, or put an object of the caller's behind the interface of an evaluation."""

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from langchain_qdrant import QdrantVectorStore

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.layers import environment, given_settings
from retrievers.config.settings import call_factory
from retrievers.errors import ConfigError
from retrievers.retriever.foreign import ForeignRetriever, check_settable
from retrievers.retriever.protocol import Retriever, closed_on_error, read_listing
from retrievers.retriever.qdrant import QdrantRetriever
from retrievers.retriever.vector_store import settings_over
from retrievers.store.collection import read_info
from retrievers.store.opening import Repeating, open_client

# Settings of a search that a collection may record. None of them names an address, a file or code.
RECORDED = (
    "mode", "fusion", "semantic_weight", "rerank", "mmr_lambda", "top_k", "threshold", "threshold_on",
    "threshold_signal", "candidates", "abbreviations", "keyword",
)  # fmt: skip


def open_retriever(
    settings: RetrieverConfig,
    *,
    env: Mapping[str, str] | None = None,
    embeddings: Embeddings | None = None,
    index: IndexSettings | None = None,
) -> Retriever:
    """Open the retriever that the settings name, with all its checks.

    Args:
        settings: Collection, model and mode of our retriever, or the factory of the user's own.
        env: Environment that holds API keys; the process environment and `.env` when left out.
        embeddings: The model of our retriever; made by the settings when left out.
        index: Settings with which the collection of our retriever must have been indexed.

    Raises:
        RetrievalError: The retriever cannot be opened. The message says what to do.
    """
    if settings.python is None:
        return QdrantRetriever.open(settings, env=env, embeddings=embeddings, index=index)
    keys = environment(os.environ) if env is None else env
    return adopt(call_factory(settings.python, "python"), settings, keys, owned=True)


def search_settings(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings with which an experiment searches its collection, for the collection to record.

    A reranker that calls a model is left out: the record of a collection must not make anybody send texts.
    """
    include = {*RECORDED} - ({"rerank"} if settings.rerank == "cross-encoder" else set())
    return settings.model_dump(mode="json", include=include, exclude_defaults=True)


def recorded_search(settings: RetrieverConfig, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a search that an embedded collection records; empty if it records none.

    Raises:
        StoreError: The collection does not exist or cannot be read.
    """
    if settings.python is not None or settings.store.url:
        return {}
    with closing(open_client(settings.store, env, settings.collection)) as client:
        made = read_info(client, settings).manifest
    recorded = {"keyword": {"language": made.get("bm25", {}).get("language", "english")}, **made.get("search", {})}
    return {name: recorded[name] for name in RECORDED if name in recorded and recorded[name] != "cross-encoder"}


def adopt(target: Any, settings: RetrieverConfig, env: Mapping[str, str], *, owned: bool = False) -> Retriever:
    """Put a LangChain retriever or vector store, a function or a runnable behind the interface of an evaluation.

    `QdrantRetriever` searches a `QdrantVectorStore` (see `QdrantRetriever.over_store`). A store that it cannot search
    is asked through its `as_retriever()`, which gives no scores. Such a store, and a retriever that `as_retriever` has
    made, list the chunks of their own collection. Any other retriever lists those of the collection that the settings
    name, if they name one.

    Args:
        target: The retriever.
        settings: Settings with `python`, by which messages name the retriever.
        env: The environment that holds API keys.
        owned: Close the target with the returned retriever, and on errors. Otherwise it stays open.

    Raises:
        ConfigError: The target is something else, or a setting does not fit it.
        StoreError: The collection does not exist or cannot be read.
    """
    if (retriever := QdrantRetriever.over_store(target, settings, env, owned=owned)) is not None:
        return retriever
    # Retrievers of other classes may return documents that their store does not hold.
    store = target.vectorstore if type(target) is VectorStoreRetriever else target
    if not isinstance(store, QdrantVectorStore):
        return _foreign(target, settings, env, owned=owned)
    with closed_on_error(store.client if owned else None):
        own = settings_over(store, settings)
        listing = read_listing(Repeating(store.client, own), own)
        asked = store.as_retriever(search_kwargs={"k": settings.candidates}) if target is store else target
        return _foreign(asked, settings, env, listing, label=type(target).__name__, owned=owned)


def adopt_given(
    retriever: Any, settings: RetrieverConfig, top_k: int | None, env: Mapping[str, str]
) -> tuple[Retriever, RetrieverConfig]:
    """Return a given retriever behind the interface of an evaluation, and the settings in force.

    Args:
        retriever: A LangChain retriever, a `QdrantVectorStore`, a `QdrantRetriever`, or a function or runnable. Under a
            threshold a function has to return pairs of a document and its similarity. The retriever stays open.
        settings: Settings of the caller; none for a `QdrantRetriever`, which has its own.
        top_k: Number of results that count; that of the settings when left out.
        env: The environment that holds API keys.

    Raises:
        ConfigError: The retriever is something else, or a setting does not fit it.
        StoreError: The collection does not exist or cannot be read.
    """
    changed: dict[str, Any] = {} if top_k is None else {"top_k": top_k}
    if isinstance(retriever, QdrantRetriever):
        if changed or settings.model_fields_set:
            raise ConfigError("a QdrantRetriever has its own settings; leave top_k and the experiment's retriever out")
        return retriever, retriever.settings
    kind = _named(retriever)
    # By default no metadata are required.
    changed["metadata"] = {"required": ()} | settings.metadata.model_dump(exclude_unset=True)
    own = given_settings(settings, changed | {"python": f"{kind.__module__}:{kind.__qualname__}"})
    adopted = adopt(retriever, own, env)
    return adopted, completed(own, adopted)


def completed(settings: RetrieverConfig, retriever: Retriever) -> RetrieverConfig:
    """Complete settings by facts of their open retriever: the name of the vector, or the mode of the user's store."""
    if settings.python is None:
        return settings.model_copy(update={"vector_name": retriever.info.vector_name})
    mode = {"mode": retriever.settings.mode} if isinstance(retriever, QdrantRetriever) else {}
    return settings.model_copy(update=mode)


def _foreign(
    target: Any, settings: RetrieverConfig, env: Mapping[str, str], listing: Any = None, *, label: str = "", owned: bool
) -> Retriever:
    name, is_class = f"python {settings.python!r}", isinstance(target, type)
    if is_class or not callable(getattr(target, "invoke", target)):
        kind = f"the class {target.__name__}" if is_class else f"an object of {type(target).__name__}"
        remedy = "; return its as_retriever()" if isinstance(target, VectorStore) else ""
        raise ConfigError(f"{name}: expected a LangChain retriever, QdrantVectorStore or function, got {kind}{remedy}")
    if isinstance(target, QdrantRetriever):
        raise ConfigError(f"{name}: a QdrantRetriever has its own settings; write them under retriever, without python")
    check_settable(settings)
    # The scores of a function are needed for a threshold alone. A LangChain retriever gives none.
    scored = settings.threshold is not None
    if scored and isinstance(target, BaseRetriever):
        raise ConfigError(f"threshold {settings.threshold:g}: {name} gives no scores; leave it out")
    if listing is None and settings.names_collection:
        client = open_client(settings.store, env, settings.collection)
        with closed_on_error(client):
            listing = read_listing(client, settings)
    label = label or _named(target).__qualname__
    return ForeignRetriever(settings, target, listing, label, scored=scored, owned=owned)


def _named(target: Any) -> Any:
    """Return the function or class by which an object is known: that of a `@chain` or a partial is the function."""
    function = getattr(target, "func", None) or getattr(target, "afunc", None) or target
    return function if hasattr(function, "__qualname__") else type(function)
