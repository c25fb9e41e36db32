"""The checks before a collection may be queried: its distance, its state, its model."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from langchain_core.embeddings import Embeddings
from pydantic import ValidationError

from retrievers.config import EmbeddingConfig, IndexSettings, MetadataConfig, RetrieverConfig
from retrievers.errors import CollectionStateError, ConfigError, EmbeddingMismatchError
from retrievers.records import Distance
from retrievers.store.collection import CollectionInfo
from retrievers.store.errors import store_errors
from retrievers.store.payload import to_chunk
from retrievers.store.recorded_model import other_model, settings_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
SAME_MODEL_COSINE = 0.999
KNOWN_DIMENSIONS = {
    256: "wordllama",
    384: "a MiniLM or *-light-v3.0 model",
    1024: "cohere (embed-english-v3.0)",
    1536: "openai (text-embedding-3-small)",
    3072: "openai (text-embedding-3-large)",
}


def check_collection(
    client: "QdrantClient", config: RetrieverConfig, embeddings: Embeddings, info: CollectionInfo
) -> None:
    """Make sure that a query embedded by `embeddings` may be compared with what the collection holds.

    The recorded model must be the configured one. Where none is recorded, three stored chunks are embedded again and
    must come out the same (cosine at least 0.999), unless `trust_embedding` is set.

    Raises:
        CollectionStateError: An indexing run did not finish, points are gone, or the collection allows no search as
            deep as `candidates`.
        EmbeddingMismatchError: Another model or dimension.
    """
    if info.manifest.get("state", "complete") != "complete":
        raise CollectionStateError(
            f"collection {info.name!r} is unfinished: an indexing run was interrupted; "
            "run it again (python -m retrievers index DIR) before searching"
        )
    if info.lost:
        raise CollectionStateError(
            f"collection {info.name!r} holds {info.points} of the {info.points + info.lost} points that were indexed; "
            "index the pages again (python -m retrievers index DIR)"
        )
    _check_depth(config, info)
    _check_layout(config.metadata, info)
    _check_keyword_side(config, info)
    recorded = info.manifest.get("embedding")
    if recorded and config.python is None:
        _check_model(config.embedding, recorded, info)
    elif not config.trust_embedding and not (config.python and not info.points):
        _check_by_example(client, config, embeddings, info)


def check_index(settings: IndexSettings, name: str, recorded: Mapping[str, Any]) -> None:
    """Make sure that a collection was indexed with the settings that are named; others are as recorded.

    Args:
        settings: The settings.
        name: The collection.
        recorded: What it records of them; empty where `retrievers index` did not make it.

    Raises:
        CollectionStateError: It was indexed with another setting, or records none.
    """
    for setting, value in settings.named.items():
        if not recorded:
            raise CollectionStateError(
                f"collection {name!r} records no index settings: `retrievers index` did not make it; expected "
                f"index.{setting} {value!r}; leave index.{setting} out"
            )
        if recorded.get(setting) != value:
            raise CollectionStateError(
                f"collection {name!r} was indexed with index.{setting} {recorded.get(setting)!r}, but {value!r} is "
                f"expected; set index.{setting} to the former or leave it out, or index the pages again "
                f"(python -m retrievers index DIR --{setting.replace('_', '-')} {str(value).lower()} --replace)"
            )


def _check_depth(config: RetrieverConfig, info: CollectionInfo) -> None:
    """Refuse a depth that strict mode would refuse at the first query, and scores that are no cosines."""
    named, most = config.search_params or {}, info.limits.results
    quantization = named.get("quantization", {})
    idle = quantization.get("ignore") or named.get("exact") or config.mode == "keyword"
    if info.quantization == "binary" and quantization.get("rescore") is False and not idle:
        raise CollectionStateError(
            f"collection {info.name!r} has binary quantisation, whose scores are counts of bits and no cosines, which "
            "the threshold reads; leave search_params.quantization.rescore out, or set it to true"
        )
    if most and config.candidates > most:
        raise CollectionStateError(
            f"collection {info.name!r} is in strict mode and allows at most {most:g} results a query "
            f"(max_query_limit), but candidates is {config.candidates}; set candidates to {most:g} or less"
        )


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
            "set keyword.vector_name, search by meaning alone (mode: semantic), or index the pages again (python -m "
            "retrievers index DIR --replace)"
        )
    if config.keyword.scale != "bm25":
        return
    if name in info.without_idf:
        raise CollectionStateError(
            f"sparse vector {name!r} of collection {info.name!r} has no IDF modifier, so that its scores would not be "
            "BM25; set keyword.vector_name, or keyword.encoder: python:module:factory where it is of another model, or "
            "index the pages again (python -m retrievers index DIR --replace)"
        )
    language = info.manifest.get("bm25", {}).get("language", config.keyword.language)
    if language != config.keyword.language:
        raise CollectionStateError(
            f"collection {info.name!r} was tokenised as {language}, but the query would be as "
            f"{config.keyword.language}; set keyword.language to the former"
        )


def _check_model(config: EmbeddingConfig, recorded: Mapping[str, Any], info: CollectionInfo) -> None:
    other = other_model(config, recorded)
    if other:
        raise EmbeddingMismatchError(
            f"collection {info.name!r} was embedded by {other[0]}, but the query would "
            f"be embedded by {other[1]}; set {settings_of(config, recorded)} to "
            "the former, or index again into another collection"
        )


def _check_by_example(
    client: "QdrantClient", config: RetrieverConfig, embeddings: Embeddings, info: CollectionInfo
) -> None:
    texts, stored = _examples(client, config, info)
    embedded = embeddings.embed_documents(texts)
    name = getattr(embeddings, "name", config.embedding.label)
    if len(embedded[0]) != info.dimension:
        hint = KNOWN_DIMENSIONS.get(info.dimension)
        raise EmbeddingMismatchError(
            f"collection {info.name!r} holds vectors of {info.dimension} dimensions"
            f"{f' (as {hint} makes)' if hint else ''}, but {name} makes {len(embedded[0])}; "
            "set embedding.provider and embedding.model"
        )
    least = least_cosine(embedded, stored)
    if not least >= SAME_MODEL_COSINE:
        raise EmbeddingMismatchError(
            f"collection {info.name!r} records no embedding model, and {name} is not it: embedding stored chunks again "
            f"gives cosine {least:.3f}, expected at least {SAME_MODEL_COSINE}; configure the model it was made "
            "with, or set trust_embedding: true if you know better"
        )
    log.info("collection %r records no model; %s reproduces %d stored vectors", info.name, name, len(texts))


def _examples(client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo) -> tuple[list[str], list[Any]]:
    """Return the texts of up to three stored chunks, and their vectors."""
    with store_errors(config.store, info.name):
        records, _ = client.scroll(info.name, limit=3, with_payload=True, with_vectors=True)
    texts, stored = [], []
    for record in records:
        vector: Any = record.vector
        text = to_chunk(record.id, record.payload, config.metadata).text
        dense = vector.get(config.vector_name) if isinstance(vector, dict) else vector
        if text and dense is not None:
            texts.append(text)
            stored.append(dense)
    if not texts:
        raise EmbeddingMismatchError(
            f"collection {info.name!r} records no embedding model and holds no vector with a text under payload key "
            f"{config.metadata.text_key!r} to check it by; set metadata.text_key (see: python -m retrievers inspect), "
            "or trust_embedding: true"
        )
    return texts, stored


def least_cosine(embedded: Sequence[Sequence[float]], stored: Sequence[Sequence[float]]) -> float:
    """Return the least cosine of vectors with their counterparts: 0, not NaN, for a zero vector."""
    import numpy as np

    a, b = np.asarray(embedded), np.asarray(stored, dtype=float)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / np.where(lengths > 0, lengths, 1)).min())


def with_distance(settings: RetrieverConfig, info: CollectionInfo) -> RetrieverConfig:
    """Return the settings with the distance and the name of the vector that the collection has, checked by them.

    Raises:
        CollectionStateError: It has a distance of which a lower score is the nearer.
        ConfigError: They name another distance, a threshold that is one on cosine similarity, or a fusion that is of
            no use with this distance.
    """
    if settings.python is None and info.vector_name != settings.vector_name:
        settings = settings.model_copy(update={"vector_name": info.vector_name})
    if settings.python is not None or info.distance == settings.used_distance:
        return settings
    has = f"collection {info.name!r} has the distance {info.distance}"
    if info.distance not in get_args(Distance):
        raise CollectionStateError(
            f"{has}, and only cosine and dot are searched: copy its vectors into a collection of one of these"
        )
    if settings.distance is not None:
        raise ConfigError(f"{has}, and the settings say {settings.distance}; set distance to it, or leave it out")
    if settings.threshold is not None:
        raise ConfigError(
            f"{has}, where scores have no bounds, and threshold {settings.threshold:g} is one on cosine similarity; "
            f"leave it out, or set distance: {info.distance} beside a threshold of that distance"
        )
    plain = settings.model_copy(update={"distance": info.distance}).model_dump()
    try:
        return RetrieverConfig.model_validate(plain)
    except ValidationError as error:
        messages = [str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors()]
        raise ConfigError(f"{has}: {'; '.join(messages)}") from None
