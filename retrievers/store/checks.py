"""The checks before a collection may be queried: its state, its vectors, the model that made them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings

from retrievers.config import EmbeddingConfig, IndexSettings, RetrieverConfig
from retrievers.errors import StoreError
from retrievers.store.chunks import to_chunk, unit
from retrievers.store.collection import CollectionInfo, by_name
from retrievers.store.opening import store_errors

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

SAME_MODEL_COSINE = 0.999
# The dot product of vectors of length 1 is their cosine.
COSINES, UNIT_LENGTH = ("cosine", "dot"), 1e-3
COPY = "copy its vectors into a collection of the distance cosine"
# Most stored texts that are embedded again, and the points that are read to find some.
EMBEDDED_AGAIN, SCROLLED = 8, 32
AGAIN = "index the pages again (python -m retrievers index DIR)"


def check_collection(
    client: "QdrantClient", config: RetrieverConfig, embeddings: Embeddings, info: CollectionInfo
) -> None:
    """Make sure that queries which `embeddings` embeds may be compared with the vectors of the collection.

    For this check, up to eight of its texts are embedded again (see `model_fault`), unless `trust_embedding` is set.

    Raises:
        StoreError: The collection is unfinished, lacks the sparse vector of the mode, gives no cosines, or was embedded
            by another model.
    """
    fault = next(_faults(config, info), "")
    # A store of the user's own may be empty: then there is nothing to check.
    trusted = config.trust_embedding or (config.python and not info.points)
    if not fault and not (trusted and info.distance == "cosine"):
        with store_errors(config.store, info.name):
            records, _ = client.scroll(info.name, limit=SCROLLED, with_payload=True, with_vectors=True)
        fault = distance_fault(info, records)
    if not fault and not trusted:
        if not records:
            fault = "is empty; index pages into it (python -m retrievers index DIR), or write points"
        elif fault := model_fault(config, info, lambda: embeddings, records):
            fault += "" if "dimensions" in fault else ", or trust_embedding: true if you know better"
    if fault:
        raise StoreError(f"collection {info.name!r} {fault}")


def model_fault(
    config: RetrieverConfig, info: CollectionInfo, model: Callable[[], Embeddings], records: Sequence[Any]
) -> str:
    """Say why the vectors are not of the configured model, as a clause behind the collection's name; empty if they are.

    The recorded model must be the configured one. In addition, stored texts that are embedded again must get the same
    vectors (cosine at least 0.999).

    Args:
        config: Settings of the retriever.
        info: Properties of the collection.
        model: Makes the model. It is not called if the collection records another model.
        records: Stored points with their payloads and vectors.

    Raises:
        EmbeddingError: The model failed.
    """
    recorded = None if config.python else info.manifest.get("embedding")
    if recorded and (other := other_model(config.embedding, recorded)):
        return f"{other}; set embedding to the former"
    chunks = [to_chunk(record.id, record.payload, config.metadata) for record in records]
    vectors = [by_name(record.vector).get(config.vector_name) for record in records]
    pairs = [(c.indexed_text, v) for c, v in zip(chunks, vectors, strict=True) if c.text and v is not None]
    if not pairs:
        key = f"payload key {config.metadata.text_key!r}"
        return f"holds no vector with a text under {key} to check the model by; set metadata.text_key (see inspect)"
    texts, stored = zip(*pairs[:: max(1, len(pairs) // EMBEDDED_AGAIN)][:EMBEDDED_AGAIN], strict=True)
    embeddings = model()
    embedded = embeddings.embed_documents([*texts])
    if len(embedded[0]) != len(stored[0]):
        fault = f"makes {len(embedded[0])} dimensions, and the collection holds {len(stored[0])}"
    elif (cosine := (unit(embedded) * unit(stored)).sum(axis=1).min()) < SAME_MODEL_COSINE:
        fault = f"gives stored texts a vector of cosine {cosine:.3f} to theirs, expected at least {SAME_MODEL_COSINE}"
    else:
        return ""
    name = getattr(embeddings, "name", config.embedding.model)
    return f"was embedded by another model: {name} {fault}; set embedding to the model and prefixes it was made with"


def check_index(settings: IndexSettings, name: str, recorded: Mapping[str, Any]) -> None:
    """Make sure that a collection was indexed with the settings that are named.

    Args:
        settings: The settings. Those that are left out may have any value.
        name: The collection.
        recorded: The settings that the collection records; empty if another program made it.

    Raises:
        StoreError: It was indexed with another setting, or records no settings.
    """
    for setting, value in settings.named.items():
        if recorded.get(setting) != value:
            was = f"index.{setting} {recorded.get(setting)!r}" if recorded else "no recorded settings"
            message = f"collection {name!r} was indexed with {was}, but index.{setting} {value!r} is expected"
            raise StoreError(f"{message}; leave it out, or index the pages again with it and --replace")


def distance_fault(info: CollectionInfo, records: Sequence[Any]) -> str:
    """Say why the scores of a collection are no cosines, as a clause behind its name; empty if they are.

    Args:
        info: Properties of the collection.
        records: Some of its points with their vectors. Under the distance dot their length must be 1.
    """
    if info.distance not in COSINES:
        return f"has the distance {info.distance}, which is no cosine: {COPY}"
    for record in records if info.distance == "dot" else ():
        vector = by_name(record.vector).get(info.vector_name)
        length = 1.0 if vector is None else float(np.linalg.norm(vector))
        if abs(length - 1) > UNIT_LENGTH:
            return f"has the distance dot and a vector of length {length:.3f}, not 1: its scores are no cosines; {COPY}"
    return ""


def other_model(config: EmbeddingConfig, recorded: Mapping[str, Any]) -> str:
    """Say that the recorded model is another one, as a clause behind the collection's name; empty if it is the same.

    Models with other numbers of dimensions or other prefixes are other models.
    """
    stored, used = _model_text(recorded), _model_text(config.identity)
    return "" if stored == used else f"was embedded by {stored}, not by {used}"


def _faults(config: RetrieverConfig, info: CollectionInfo) -> Iterator[str]:
    """Yield the reasons why a collection cannot be searched by the settings, as clauses behind its name."""
    if info.manifest.get("state", "complete") != "complete":
        yield f"is unfinished: an indexing run was interrupted; {AGAIN}"
    if config.mode == "semantic":
        return
    keyword, name, is_bm25 = config.keyword, config.keyword.vector_name, config.keyword.scale == "bm25"
    or_else = f"use mode semantic, set keyword.vector_name, or {AGAIN}"
    if name not in info.sparse_vectors:
        has = ", ".join(map(repr, info.sparse_vectors)) or "none"
        yield f"has no sparse vector {name!r}, which mode {config.mode!r} searches: it has {has}; {or_else}"
    if is_bm25 and not info.sparse_vectors.get(name):
        yield f"has no IDF modifier on sparse vector {name!r}, which BM25 needs; {or_else}"
    recorded = info.manifest.get("bm25", {}).get("language", keyword.language)
    if is_bm25 and recorded != keyword.language:
        yield f"was tokenised as {recorded}, but the query would be as {keyword.language}; set keyword.language"


def _model_text(identity: Mapping[str, Any]) -> str:
    named = {name: identity.get(name) for name in ("dimensions", "query_prefix", "document_prefix")}
    beside = ", ".join(f"{name} {value!r}" for name, value in named.items() if value is not None)
    return f"{identity.get('provider')}:{identity.get('model')}{beside and f' with {beside}'}"
