"""Checks of the vector index (built or not, its status, quantisation) and of the server that runs it."""

from collections.abc import Iterator
from typing import Any

from retrievers.doctor.examine import Examination, Finding

# The first version that keeps a collection's metadata, and the first with the query API that every search uses.
KEEPS_METADATA, HAS_QUERY_API = (1, 16), (1, 10)
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


def version(read: Examination) -> Iterator[Finding]:
    """Find a server that lacks what a run needs."""
    numbers = tuple(int(part) for part in read.version.split(".")[:2] if part.isdigit())
    if not numbers or numbers >= KEEPS_METADATA:
        return
    old = numbers < HAS_QUERY_API
    yield Finding(
        check="server/version",
        severity="error" if old else "warning",
        seen=f"the server is Qdrant {read.version}",
        why="it has no query API, by which every search is made"
        if old
        else "it keeps no record of the embedding model with a collection, so that a wrong model is noticed late",
        fix="upgrade the server, one minor version after the other",
    )


def replicas(read: Examination) -> Iterator[Finding]:
    """Find replicas that do not answer, and shards on the move."""
    if read.shards is None:
        return
    states = [(shard.shard_id, str(shard.state.value)) for shard in read.shards.local_shards]
    states += [(shard.shard_id, str(shard.state.value)) for shard in read.shards.remote_shards]
    down = sorted({(shard, state) for shard, state in states if state != "Active"})
    if down:
        active = {shard for shard, state in states if state == "Active"}
        lost = sorted({shard for shard, _ in down} - active)
        yield Finding(
            check="server/replicas",
            severity="error" if lost else "warning",
            seen="replicas are not active: " + ", ".join(f"shard {shard} {state}" for shard, state in down),
            why=f"shard {', '.join(map(str, lost))} has no active replica: its chunks are not found"
            if lost
            else "answers come from the other replicas, and change when these come back",
            fix="wait for recovery, or bring the node back: see client.collection_cluster_info(...)",
        )
    if read.shards.shard_transfers:
        yield Finding(
            check="server/transfers",
            severity="warning",
            seen=f"{len(read.shards.shard_transfers)} shard transfers are under way",
            why="latency is that of a cluster at work",
            fix="measure when client.collection_cluster_info(...).shard_transfers is empty",
        )


def peers(read: Examination) -> Iterator[Finding]:
    """Find a peer of the cluster that does not answer: its replicas still say that they are active."""
    for address, failure in (read.peers.message_send_failures if read.peers else {}).items():
        yield Finding(
            check="server/peers",
            severity="error",
            seen=f"peer {address} does not answer ({failure.count} messages failed), and its replicas still count as "
            "active",
            why="a request that needs it waits for its timeout; shards without another replica are not found",
            fix="bring the node back, or remove it: DELETE /cluster/peer/ID after moving its shards",
        )


def strict_mode(read: Examination) -> Iterator[Finding]:
    """Find limits of the strict mode that are below what a run needs."""
    limits, config = read.info.limits, read.config
    strict = read.stored.config.strict_mode_config
    if strict is None or not strict.enabled:
        return
    allow = f"client.update_collection({read.call}, strict_mode_config=models.StrictModeConfig("
    if limits.results and limits.results < config.candidates:
        yield Finding(
            check="server/query_limit",
            severity="error",
            seen=f"strict mode allows {limits.results} results a query (max_query_limit); candidates is "
            f"{config.candidates}",
            why="every search is refused",
            fix=f"set candidates to {limits.results} or less, or {allow}max_query_limit={config.candidates}))",
        )
    if not limits.exact:
        yield Finding(
            check="server/exact_search",
            severity="note",
            seen="strict mode allows no exact search and no exact counts (search_allow_exact)",
            why="exact search is refused, what the index misses (index/ann_recall_at_5) cannot be measured, and the "
            "number of points is an estimate",
            fix=f"{allow}search_allow_exact=True))",
        )
    if strict.read_rate_limit:
        yield Finding(
            check="server/rate_limit",
            severity="note",
            seen=f"strict mode allows {strict.read_rate_limit} reads a minute (read_rate_limit), each query counted",
            why="a run of many queries waits for it; latencies are measured without the waits",
            fix=f"{allow}read_rate_limit=...)) for the time of a run",
        )


def alias(read: Examination) -> Iterator[Finding]:
    """Name the collection behind an alias."""
    if read.alias_of:
        yield Finding(
            check="server/alias",
            severity="note",
            seen=f"{read.info.name!r} is an alias of collection {read.alias_of!r}",
            why="it may be pointed at another collection between two runs; runs record the collection's fingerprint",
        )


def rights(read: Examination) -> Iterator[Finding]:
    """Name what could not be asked."""
    for refused in read.refused:
        yield Finding(
            check="server/rights",
            severity="note",
            seen=f"not asked: {refused}",
            why="this key or a proxy does not let it through; a run does not need it, but its checks are not made",
        )
