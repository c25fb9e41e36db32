"""Checks of the sparse vector that keyword search reads: there, weighed by IDF, of the right average length."""

from collections.abc import Iterator
from statistics import median

from retrievers.doctor.examination import Examination
from retrievers.doctor.finding import Finding
from retrievers.embedding.bm25 import B, Bm25Encoder, K

# Relative deviation of the average length from which scores of short and long chunks shift by more than a tenth.
TOLERATED = 0.3


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
