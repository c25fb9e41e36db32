"""Settings to a Qdrant client, and what must hold before a collection may be queried. Never falls back."""

import logging
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from langchain_core.embeddings import Embeddings
from pydantic import ValidationError

from retrievers import faults
from retrievers.config import MetadataConfig, RetrieverConfig, StoreConfig
from retrievers.errors import (
    CollectionNotFoundError,
    CollectionStateError,
    EmbeddingMismatchError,
    RetrievalError,
    StoreError,
    StoreTimeoutError,
    StoreUnreachableError,
    nearest,
)
from retrievers.payload import to_chunk
from retrievers.settings import api_key

if TYPE_CHECKING:
    import httpx
    from qdrant_client import QdrantClient
    from qdrant_client.http.exceptions import UnexpectedResponse

log = logging.getLogger(__name__)
_asked: ContextVar[str] = ContextVar("retrievers.connection", default="")
MANIFEST_KEY = "retrieval_evals"
DEFAULT_PATH = Path(".qdrant")
SAME_MODEL_COSINE = 0.999
KNOWN_DIMENSIONS = {1024: "cohere (embed-english-v3.0)", 256: "wordllama", 384: "a MiniLM or *-light-v3.0 model"}


@dataclass(frozen=True, kw_only=True)
class CollectionInfo:
    """What a collection says of itself.

    Attributes:
        points: How many points it holds.
        dimension: Length of the vector that will be searched; 0 where there is no dense one of that name.
        distance: Its distance, lower case; empty where there is none.
        vectors: Every named vector with its length ('' is the unnamed one).
        without_idf: Those of the sparse vectors whose scores the store does not weigh by how rare a term is.
        manifest: What `retrievers index` recorded: embedding model, state, fingerprint of the pages; empty otherwise.
    """

    name: str
    points: int
    dimension: int
    distance: str
    vectors: Mapping[str, int]
    sparse_vectors: tuple[str, ...]
    manifest: Mapping[str, Any]
    without_idf: tuple[str, ...] = ()


def location(store: StoreConfig) -> str:
    """Where the store is, for messages."""
    return store.url or str(store.path or DEFAULT_PATH)


def open_client(store: StoreConfig, env: Mapping[str, str], *, create: bool = False) -> "QdrantClient":
    """Open a server or an embedded folder.

    Args:
        store: Where.
        env: The environment that holds the server's API key.
        create: Whether a missing folder may be made (indexing does; reading never writes).

    Raises:
        StoreUnreachableError: The folder does not exist, or cannot be opened.
        StoreLockedError: Another process holds the folder.
        StoreError: The folder holds something else, or is damaged.
        ConfigError: The API key cannot be one, or the file of the authority holds no certificate.
    """
    if store.url:
        from retrievers.server import open_server

        return open_server(store, api_key(env, store.api_key_env))
    from retrievers.edge import EdgeClient

    return cast("QdrantClient", EdgeClient(store.path or DEFAULT_PATH, create=create))  # the same methods


@contextmanager
def store_errors(store: StoreConfig, collection: str) -> Iterator[None]:
    """Turn the client's errors into ours, naming the store and the collection, marked for `retrievers.retry`."""
    token = _asked.set(collection)
    try:
        yield
    except RetrievalError:
        raise
    except Exception as error:
        typed = _typed(error, f"collection {collection!r} at {location(store)}", store)
        if typed is None:
            raise
        raise typed from error
    finally:
        _asked.reset(token)


def asked_collection() -> str:
    """The collection that the innermost `store_errors` is about."""
    return _asked.get()


def _typed(error: Exception, place: str, store: StoreConfig) -> StoreError | None:
    """Our error for one of the client's; None for one that is not."""
    import httpx
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, UnexpectedResponse):
        return _refused(error, place, store).marked(
            transient=faults.is_transient(error), retry_after_s=faults.retry_after_s(error.headers)
        )
    if isinstance(error, QdrantException | sqlite3.Error):
        return StoreError(f"{place}: cannot be read or written ({type(error).__name__}: {error})")
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(cause, httpx.HTTPError):
        return _unanswered(cause, place, store)
    if store.prefer_grpc and callable(getattr(error, "code", None)):
        return _over_grpc(error, place)
    foreign = (JSONDecodeError, UnicodeDecodeError, AssertionError)  # what the client makes of it
    if isinstance(error, foreign) or isinstance(cause, ValidationError):
        return StoreError(f"{place}: answered something that is not Qdrant's; is the address right?")
    return None


def _unanswered(cause: "httpx.HTTPError", place: str, store: StoreConfig) -> StoreError:
    if faults.timed_out(cause):
        waited = float(cause.request.extensions["timeout"]["read"])
        return StoreTimeoutError(
            f"{place}: no answer within {waited:.3g} s; raise store.timeout_s or look at the server"
        ).marked(transient=True, timed_out=True)
    if faults.is_untrusted(cause):
        return StoreError(
            f"{place}: its certificate is not trusted ({cause}); name the authority that signed it in store.ca_file"
        )
    return StoreUnreachableError(
        f"{place}: cannot be reached ({type(cause).__name__}: {cause}); is the server running, the address right?"
    ).marked(transient=faults.is_transient(cause))


def _over_grpc(error: Any, place: str) -> StoreError:
    kinds = {"DEADLINE_EXCEEDED": StoreTimeoutError, "UNAVAILABLE": StoreUnreachableError}
    name = str(getattr(error.code(), "name", error.code()))
    return kinds.get(name, StoreError)(f"{place}: answered {name} over gRPC: {_one_line(error.details())}")


@contextmanager
def all_or_nothing(client: Any, collection: str) -> Iterator[None]:
    """Make the changes within one step where the store can (an embedded one); a server has them one by one."""
    changing = getattr(client, "changing", None)
    with changing(collection) if changing else nullcontext():
        yield


def describe(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo:
    """Read what the collection says of itself, and make sure that it has the vector to be searched.

    Raises:
        CollectionNotFoundError: There is none of that name; the nearest names are given.
        EmbeddingMismatchError: It has no dense vector of the configured name.
        StoreError: The store cannot be asked.
    """
    info = read_info(client, config)
    if config.vector_name not in info.vectors:
        have = ", ".join(map(repr, info.vectors)) or "none"
        raise EmbeddingMismatchError(
            f"collection {info.name!r} has no dense vector {config.vector_name!r}: it has {have}; set vector_name"
        )
    return info


def read_info(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo:
    """Read what the collection says of itself, whatever vectors it has.

    Raises:
        CollectionNotFoundError: There is none of that name; the nearest names are given.
        StoreError: The store cannot be asked.
    """
    name = config.collection
    with store_errors(config.store, name):
        if not client.collection_exists(name):
            names = [c.name for c in client.get_collections().collections]
            have = f"it has {', '.join(map(repr, sorted(names)[:10]))}" if names else "it has none"
            raise CollectionNotFoundError(
                f"no collection {name!r} at {location(config.store)}: {have}{nearest(name, names)} "
                "(set collection to another name, or make it with: python -m retrievers index DIR)"
            )
        found = client.get_collection(name)
        count = client.count(name, exact=True).count
    params = found.config.params
    dense = params.vectors if isinstance(params.vectors, dict) else {"": params.vectors} if params.vectors else {}
    vectors = {key: value for key, value in dense.items() if value is not None}
    chosen = vectors.get(config.vector_name)
    return CollectionInfo(
        name=name,
        points=count,
        dimension=chosen.size if chosen else 0,
        distance=str(chosen.distance.value).lower() if chosen else "",
        vectors={key: value.size for key, value in vectors.items()},
        sparse_vectors=tuple(params.sparse_vectors or ()),
        without_idf=tuple(name for name, sparse in (params.sparse_vectors or {}).items() if sparse.modifier != "idf"),
        manifest=(getattr(found.config, "metadata", None) or {}).get(MANIFEST_KEY, {}),
    )


def check_collection(
    client: "QdrantClient", config: RetrieverConfig, embeddings: Embeddings, info: CollectionInfo
) -> None:
    """Make sure that a query embedded by `embeddings` may be compared with what the collection holds.

    The recorded model must be the configured one. Where none is recorded, three stored chunks are embedded again and
    must come out the same (cosine at least 0.999), unless `trust_embedding` is set.

    Raises:
        CollectionStateError: An indexing run did not finish, or the distance is not cosine.
        EmbeddingMismatchError: Another model or dimension.
    """
    if info.manifest.get("state", "complete") != "complete":
        raise CollectionStateError(
            f"collection {info.name!r} is unfinished: an indexing run was interrupted; "
            "run it again (python -m retrievers index DIR) before searching"
        )
    if info.distance != "cosine":
        raise CollectionStateError(
            f"collection {info.name!r} uses the {info.distance} distance; expected cosine, which the threshold reads"
        )
    _check_layout(config.metadata, info)
    _check_keyword_side(config, info)
    wanted = {"provider": config.embedding.provider, "model": config.embedding.resolved_model}
    recorded = info.manifest.get("embedding")
    if recorded:
        found = {key: recorded.get(key) for key in wanted}
        if found != wanted:
            raise EmbeddingMismatchError(
                f"collection {info.name!r} was embedded by {found['provider']}:{found['model']}, but the query would "
                f"be embedded by {wanted['provider']}:{wanted['model']}; set embedding.provider and embedding.model to "
                "the former, or index again into another collection"
            )
    elif not config.trust_embedding:
        _check_by_example(client, config, embeddings, info)


def _check_layout(config: MetadataConfig, info: CollectionInfo) -> None:
    other = config.unread(info.manifest.get("payload") or config.layout)
    if other:
        raise CollectionStateError(
            f"collection {info.name!r} was indexed under other payload keys; expected "
            f"{', '.join(f'metadata.{key}: {value!r}' for key, value in other.items())}; set that, or index the pages "
            "again with the keys that are set (python -m retrievers index DIR)"
        )


def _check_keyword_side(config: RetrieverConfig, info: CollectionInfo) -> None:
    if config.mode == "semantic":
        return
    name = config.keyword.vector_name
    if name not in info.sparse_vectors:
        have = ", ".join(map(repr, info.sparse_vectors)) or "none"
        raise CollectionStateError(
            f"collection {info.name!r} has no sparse vector {name!r}, which mode {config.mode!r} searches: it has "
            f"{have}; "
            "set keyword.vector_name, or index the pages again (python -m retrievers index DIR --replace)"
        )
    if name in info.without_idf:
        raise CollectionStateError(
            f"sparse vector {name!r} of collection {info.name!r} has no IDF modifier, so that its scores would not be "
            "BM25; set keyword.vector_name, or index the pages again (python -m retrievers index DIR --replace)"
        )
    language = info.manifest.get("bm25", {}).get("language", config.keyword.language)
    if language != config.keyword.language:
        raise CollectionStateError(
            f"collection {info.name!r} was tokenised as {language}, but the query would be as "
            f"{config.keyword.language}; set keyword.language to the former"
        )


def _check_by_example(
    client: "QdrantClient", config: RetrieverConfig, embeddings: Embeddings, info: CollectionInfo
) -> None:
    import numpy as np

    with store_errors(config.store, info.name):
        records, _ = client.scroll(info.name, limit=3, with_payload=True, with_vectors=True)
    texts, stored = [], []
    for record in records:
        vector: Any = record.vector
        text = to_chunk(record.id, record.payload, config.metadata).text
        found = vector.get(config.vector_name) if isinstance(vector, dict) else vector
        if text and found is not None:
            texts.append(text)
            stored.append(found)
    if not texts:
        raise EmbeddingMismatchError(
            f"collection {info.name!r} records no embedding model and holds no vector with a text under payload key "
            f"{config.metadata.text_key!r} to check it by; set metadata.text_key (see: python -m retrievers inspect), "
            "or trust_embedding: true"
        )
    fresh = embeddings.embed_documents(texts)
    name = f"{config.embedding.provider}:{config.embedding.resolved_model}"
    if len(fresh[0]) != info.dimension:
        hint = KNOWN_DIMENSIONS.get(info.dimension)
        raise EmbeddingMismatchError(
            f"collection {info.name!r} holds vectors of {info.dimension} dimensions"
            f"{f' (as {hint} makes)' if hint else ''}, but {name} makes {len(fresh[0])}; "
            "set embedding.provider and embedding.model"
        )
    a, b = np.asarray(fresh), np.asarray(stored, dtype=float)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = (a * b).sum(axis=1) / np.where(lengths > 0, lengths, 1)  # 0, not NaN, where one of them is nothing
    if not cosines.min() >= SAME_MODEL_COSINE:
        raise EmbeddingMismatchError(
            f"collection {info.name!r} records no embedding model, and {name} is not it: embedding stored chunks again "
            f"gives cosine {cosines.min():.3f}, expected at least {SAME_MODEL_COSINE}; configure the model it was made "
            "with, or set trust_embedding: true if you know better"
        )
    log.info("collection %r records no model; %s reproduces %d stored vectors", info.name, name, len(texts))


def whole_seconds(store: StoreConfig) -> int:
    """The timeout of a request as the client takes it; over REST `retrievers.server` sets the exact one."""
    return math.ceil(store.timeout_s)


def _refused(error: "UnexpectedResponse", place: str, store: StoreConfig) -> StoreError:
    remedies = {
        401: f"the API key was refused; expected it in {store.api_key_env}",
        403: f"the API key in {store.api_key_env} may not do this",
        404: "not found; is the address that of Qdrant itself?",
        429: "requests come too fast; wait, and try again",
    }
    remedy = remedies.get(error.status_code or 0) or f"{_said(error)}see the log of the server"
    return StoreError(f"{place}: answered {error.status_code} {error.reason_phrase}: {remedy}")


def _one_line(said: object) -> str:
    return " ".join(str(said).split())[:200]


def _said(error: "UnexpectedResponse") -> str:
    try:
        return " ".join(str(error.structured()["status"]["error"]).split())[:200] + "; "
    except (ValueError, KeyError, TypeError):  # a proxy's page
        return ""
