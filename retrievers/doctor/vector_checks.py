"""Checks of the dense vectors (name, model, length, the threshold that reads them) and of the keyword side."""

from collections.abc import Iterator
from statistics import median

import numpy as np

from retrievers.doctor.examine import Examination, Finding
from retrievers.embedding.bm25 import B, Bm25Encoder, K
from retrievers.errors import CollectionStateError, ConfigError
from retrievers.store import with_distance
from retrievers.store.recorded_model import other_model, settings_of

# Relative deviation of the average length from which scores of short and long chunks shift by more than a tenth.
TOLERATED = 0.3
SAME_MODEL = 0.99
UNIT = 0.01


def name(read: Examination) -> Iterator[Finding]:
    """Find that the collection lacks the dense vector that is to be searched."""
    if read.config.vector_name not in read.info.vectors:
        have = ", ".join(map(repr, read.info.vectors)) or "none"
        yield Finding(
            check="vectors/name",
            severity="error",
            seen=f"there is no dense vector {read.config.vector_name!r}; the collection has {have}",
            why="a semantic or hybrid search has nothing to search, and the threshold nothing to read",
            fix=f"set vector_name to one of {have}",
        )


def single(read: Examination) -> Iterator[Finding]:
    """Find a vector of which each point has several, as late interaction models make."""
    vectors = read.stored.config.params.vectors
    chosen = vectors.get(read.config.vector_name) if isinstance(vectors, dict) else vectors
    if chosen and chosen.multivector_config:
        yield Finding(
            check="vectors/single",
            severity="error",
            seen=f"vector {read.config.vector_name!r} is a multi-vector: each point has several",
            why="its score is a sum over the query's vectors, and no cosine that a threshold could read; it is not "
            "searched yet",
            fix="set vector_name to one with a single vector a point",
        )


def recorded_model(read: Examination) -> Iterator[Finding]:
    """Find that the collection records another embedding model than the configured one."""
    recorded, embedding = read.info.manifest.get("embedding"), read.config.embedding
    models = other_model(embedding, recorded) if recorded else None
    if recorded and models:
        yield Finding(
            check="vectors/model",
            severity="error",
            seen=f"the collection was embedded by {models[0]}, but queries would be embedded by {models[1]}",
            why="vectors of two models have nothing to do with each other: what is found is chance",
            fix=f"set {settings_of(embedding, recorded)} to what is recorded, or index into another collection",
        )


def embedded_again(read: Examination) -> Iterator[Finding]:
    """Find stored vectors that the configured model does not make of their texts."""
    if read.cosines and min(read.cosines) < SAME_MODEL:
        low = sum(cosine < SAME_MODEL for cosine in read.cosines)
        yield Finding(
            check="vectors/embedded_again",
            severity="error",
            seen=f"of {len(read.cosines)} texts embedded again by {read.config.embedding.label}, {low} differ from "
            f"their stored vector: least cosine {min(read.cosines):.3f}, expected at least {SAME_MODEL}",
            why="another model, another prefix or input type, or a text that changed after it was embedded: "
            "similarities are not those that the model was trained for",
            fix="configure the model and prefixes that the collection was made with, or embed the texts again",
        )
    elif not read.cosines:
        yield Finding(
            check="vectors/embedded_again",
            severity="note",
            seen=f"no stored text was embedded again: {read.embedding_fault}",
            why="whether queries are embedded as the chunks were is not known",
        )


def usable(read: Examination) -> Iterator[Finding]:
    """Find points without a vector, and vectors of zeros."""
    missing = sum(point.dense is None for point in read.points)
    zero = sum(point.dense is not None and not any(point.dense) for point in read.points)
    if read.config.vector_name in read.info.vectors and (missing or zero):
        yield Finding(
            check="vectors/usable",
            severity="error",
            seen=f"of {len(read.points)} points, {missing} have no dense vector and {zero} have one of zeros",
            why="a semantic search never finds them",
            fix="embed their texts again and write them: client.update_vectors(...)",
        )


def normalised(read: Examination) -> Iterator[Finding]:
    """Find vectors that are not of length 1 under the dot product."""
    lengths = np.asarray([np.linalg.norm(point.dense) for point in read.points if point.dense])
    if read.info.distance != "dot" or not lengths.size or np.abs(lengths - 1).max() <= UNIT:
        return
    yield Finding(
        check="vectors/normalised",
        severity="warning",
        seen=f"distance Dot, and vectors have lengths from {lengths.min():.3g} to {lengths.max():.3g}",
        why="the dot product ranks long vectors first whatever the query is, and has no upper bound for a threshold",
        fix="divide each vector by its length before it is written, or make the collection with distance Cosine",
    )


def threshold(read: Examination) -> Iterator[Finding]:
    """Find settings for cosine similarity where the collection compares by another distance."""
    distance = read.info.distance
    if not distance or distance == "cosine":
        return
    try:
        with_distance(read.config, read.info)
    except CollectionStateError as error:
        yield Finding(
            check="vectors/threshold",
            severity="error",
            seen=str(error),
            why="a lower score is the nearer there, and a run refuses it",
            fix="make a collection of the same vectors with distance Cosine",
        )
        return
    except ConfigError as error:
        yield Finding(
            check="vectors/threshold",
            severity="error",
            seen=str(error),
            why="read on another scale, these settings would keep or remove everything; a run refuses them",
            fix=f"set retriever.distance: {distance}, and beside it a threshold of that distance, or none",
        )
        return
    yield Finding(
        check="vectors/threshold",
        severity="note",
        seen=f"the distance is {distance}",
        why="scores are not between 0 and 1, and a threshold has no bounds; none is in force unless one is set, and "
        "hybrid search fuses by rrf or dbsf",
    )


def present(read: Examination) -> Iterator[Finding]:
    """Find that the collection lacks the sparse vector that is to be searched."""
    if read.config.mode == "semantic" or read.config.keyword.vector_name in read.info.sparse_vectors:
        return
    have = ", ".join(map(repr, read.info.sparse_vectors)) or "none"
    yield Finding(
        check="keyword/present",
        severity="error",
        seen=f"mode {read.config.mode} searches sparse vector {read.config.keyword.vector_name!r}; the collection has "
        f"{have}",
        why="keyword search has nothing to search",
        fix="set keyword.vector_name or mode, or index the pages again (python -m retrievers index DIR --replace)",
    )


def idf(read: Examination) -> Iterator[Finding]:
    """Find a BM25 vector whose terms are not weighed by how rare they are."""
    name = read.config.keyword.vector_name
    if name in read.info.without_idf and read.config.keyword.scale == "bm25":
        yield Finding(
            check="keyword/idf",
            severity="error",
            seen=f"sparse vector {name!r} has no IDF modifier",
            why="a frequent word counts as much as a rare one, so scores are not BM25",
            fix=f"client.update_collection({read.call}, sparse_vectors_config="
            f"{{{name!r}: models.SparseVectorParams(modifier=models.Modifier.IDF)}})",
        )


def shards(read: Examination) -> Iterator[Finding]:
    """Name shards, each of which counts the rarity of terms by itself."""
    if read.config.keyword.vector_name in read.info.without_idf:
        return
    if read.info.shards > 1 and read.config.keyword.vector_name in read.info.sparse_vectors:
        yield Finding(
            check="keyword/shards",
            severity="warning" if read.config.mode != "semantic" else "note",
            seen=f"the collection is cut into {read.info.shards} shards, and each counts the IDF of terms by itself",
            why="the same chunk has another BM25 score in another shard, so keyword ranks depend on where chunks lie",
            fix="keep a small collection in one shard: client.create_collection(..., shard_number=1)",
        )


def average_length(read: Examination) -> Iterator[Finding]:
    """Find BM25 weights made for texts of another average length.

    A weight v of a term that stands once gives the average A in use: v = (k + 1) / (1 + k · (1 − b + b · length / A)).
    """
    name = read.config.keyword.vector_name
    if read.config.keyword.scale != "bm25":
        return
    encoder = Bm25Encoder(read.config.keyword.language)
    lengths, used = [], []
    for point in read.points:
        length = encoder.length(point.chunk.indexed_text) if point.chunk.text else 0
        least = min(point.sparse.get(name, ()), default=0.0)
        if not length:
            continue
        lengths.append(length)
        # Short of 1 by rounding, or weights of another kind than BM25: no average gives them.
        part = (K + 1) / least - 1 - K * (1 - B) if least > 0 else 0.0
        if part > 0:
            used.append(K * B * length / part)
    if not used:
        return
    actual, assumed = sum(lengths) / len(lengths), median(used)
    if abs(assumed - actual) > TOLERATED * actual:
        yield Finding(
            check="keyword/average_length",
            severity="warning",
            seen=f"weights of {name!r} were made for an average of {assumed:.0f} terms a chunk; that of "
            f"{len(lengths)} chunks is {actual:.0f}",
            why="BM25 corrects for length against the average: with a wrong one long chunks gain or lose on short ones",
            fix=f"make the weights again with an average of {actual:.0f} (avg_len of the encoder; "
            f"python -m retrievers index DIR --keyword.average-length {actual:.0f} --replace)",
        )
