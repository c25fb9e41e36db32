"""Checks of the deployment: version, shards, replicas and peers, strict mode, alias, rights of the key."""

from collections.abc import Iterator

from retrievers.doctor.examination import Examination
from retrievers.doctor.finding import Finding

# The first version that keeps a collection's metadata, and the first with the query API that every search uses.
KEEPS_METADATA, HAS_QUERY_API = (1, 16), (1, 10)


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
