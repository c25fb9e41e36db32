"""Checks of the vector index: built or not, its status, quantisation."""

from collections.abc import Iterator
from typing import Any

from retrievers.doctor.examination import Examination
from retrievers.doctor.finding import Finding

# Share of vectors that must be in the index for it to count as built: the last segment stays without one.
BUILT = 0.8
# KB of vectors from which a server of today builds an index by default (`indexing_threshold`).
DEFAULT_THRESHOLD_KB = 10_000
FLOAT_BYTES = {"float16": 2, "uint8": 1}


def status(read: Examination) -> Iterator[Finding]:
    """Find a collection whose optimizer failed or has not ended."""
    call = f"client.update_collection({read.call}, optimizers_config=models.OptimizersConfigDiff())"
    optimizer = read.stored.optimizer_status
    if read.stored.status == "red" or not isinstance(optimizer, str):
        words = getattr(optimizer, "error", "no reason given")
        yield Finding(
            check="index/status",
            severity="error",
            seen=f"status {read.stored.status}; the optimizer failed: {words}",
            why="segments are not optimised any more: vectors stay unindexed, and writes may fail",
            fix=f"see the log of the server, free its disk or memory, then {call}",
        )
    elif read.stored.status == "yellow":
        yield Finding(
            check="index/status",
            severity="warning",
            seen="status yellow: the optimizer is at work",
            why="recall and latency change while the index is built, so a measurement is of no lasting use",
            fix=f"wait until client.get_collection({read.call}).status is green, then measure",
        )
    elif read.stored.status == "grey":
        yield Finding(
            check="index/status",
            severity="warning",
            seen="status grey: optimisation is due, and waits for the next write",
            why="the index does not cover what was written last",
            fix=f"start it with {call}",
        )


def indexed(read: Examination) -> Iterator[Finding]:
    """Find vectors that should have an index and have none."""
    size_kb, share = _vectors_kb(read), _indexed_share(read)
    threshold = read.stored.config.optimizer_config.indexing_threshold
    hnsw = read.stored.config.hnsw_config
    if read.stored.status == "yellow" or (size_kb <= DEFAULT_THRESHOLD_KB and threshold != 0):
        return
    held = f"{size_kb:,.0f} KB of vectors"
    if hnsw.m == 0:
        yield Finding(
            check="index/indexed",
            severity="warning",
            seen=f"{held}, and HNSW is off (m is 0)",
            why="every search compares the query with every vector: exact, and slower with every point",
            fix=f"client.update_collection({read.call}, hnsw_config=models.HnswConfigDiff(m=16))",
        )
    elif threshold == 0:
        yield Finding(
            check="index/indexed",
            severity="warning" if size_kb > DEFAULT_THRESHOLD_KB else "note",
            seen=f"{held}, and indexing is off (indexing_threshold is 0), as a bulk upload leaves it",
            why="every search compares the query with every vector: exact, and slower with every point",
            fix=f"client.update_collection({read.call}, "
            f"optimizers_config=models.OptimizersConfigDiff(indexing_threshold={DEFAULT_THRESHOLD_KB}))",
        )
    elif share < BUILT and size_kb / max(1, read.stored.segments_count) > (threshold or DEFAULT_THRESHOLD_KB):
        yield Finding(
            check="index/indexed",
            severity="error",
            seen=f"the index holds {share:.0%} of the dense vectors ({held} in {read.stored.segments_count} segments, "
            f"indexing_threshold {threshold or DEFAULT_THRESHOLD_KB:,} KB), and the optimizer rests",
            why="the rest is compared one by one: slow, and with search_params.indexed_only it is not found at all",
            fix="look at the log of the server for a failed optimisation, then "
            f"client.update_collection({read.call}, optimizers_config=models.OptimizersConfigDiff())",
        )


def quantization(read: Examination) -> Iterator[Finding]:
    """Name quantisation, and the rescoring that it needs."""
    chosen: Any = _vector(read)
    settings = getattr(chosen, "quantization_config", None) or read.stored.config.quantization_config
    if settings is None:
        return
    kind = next(iter(settings.model_dump(exclude_none=True)), "unknown")
    # The server rescores by itself where the quantised scores are too coarse to order anything: binary ones.
    alone = kind not in ("binary", "turbo")
    yield Finding(
        check="index/quantization",
        severity="warning" if alone else "note",
        seen=f"vectors have {kind} quantisation"
        + (", and a search that does not ask for rescoring gets none" if alone else ", rescored by default"),
        why="quantised scores differ from the exact ones: neighbours are lost, and a threshold cuts elsewhere"
        if alone
        else "neighbours that the quantised search misses are not brought back by rescoring; oversampling finds more",
        fix="search_params: {quantization: {rescore: true, oversampling: 2}}; of a client of your own: "
        "client.query_points(..., search_params=models.SearchParams("
        "quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)))",
    )


def _vector(read: Examination) -> Any:
    vectors = read.stored.config.params.vectors
    return vectors.get(read.config.vector_name) if isinstance(vectors, dict) else vectors


def _vectors_kb(read: Examination) -> float:
    width = FLOAT_BYTES.get(str(getattr(getattr(_vector(read), "datatype", None), "value", "")), 4)
    return read.info.points * read.info.dimension * width / 1024


def _indexed_share(read: Examination) -> float:
    """Return the share of dense vectors in an index.

    The server's count adds up all vectors of all names, and counts sparse ones, which always have an index.
    """
    points = max(1, read.info.points)
    dense = (read.stored.indexed_vectors_count or 0) - points * len(read.info.sparse_vectors)
    return max(0.0, min(1.0, dense / (points * max(1, len(read.info.vectors)))))
