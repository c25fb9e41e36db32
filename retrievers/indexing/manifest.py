"""The record of a collection about its vectors and term weights."""

from collections.abc import Mapping, Sequence
from typing import Any

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import EmbeddingMismatchError
from retrievers.records import Chunk
from retrievers.store import CollectionInfo


def embedded_by(
    config: RetrieverConfig, vectors: Mapping[str, Sequence[float]], info: CollectionInfo | None
) -> dict[str, Any]:
    """Return the model and the length of its vectors, from the new and the existing ones.

    Raises:
        EmbeddingMismatchError: They have several lengths.
    """
    lengths = {len(vector) for vector in vectors.values()} | ({info.dimension} if info else set())
    if len(lengths) > 1:
        raise EmbeddingMismatchError(
            f"{config.embedding.label} and collection {config.collection!r} give "
            f"vectors of {' and '.join(map(str, sorted(lengths)))} dimensions; one collection holds one length: "
            "choose another name with --collection"
        )
    return {**config.embedding.identity, "dimension": max(lengths)}


def keyword_side(config: RetrieverConfig, chunks: Sequence[Chunk], info: CollectionInfo | None) -> Mapping[str, Any]:
    """Return language and average length: those of the chunks for a new collection, else the recorded ones."""
    recorded: Mapping[str, Any] | None = info.manifest.get("bm25") if info else None
    if recorded:
        return recorded
    counter = Bm25Encoder(config.keyword.language)
    average = config.keyword.average_length or sum(counter.length(chunk.indexed_text) for chunk in chunks) / len(chunks)
    return {"language": config.keyword.language, "average_length": round(max(1.0, average), 3)}
