"""Reading a collection for an audit (its properties, a sample of its points, its cluster), and what a finding is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.embedding.models import make_embeddings
from retrievers.errors import RetrievalError, StoreError
from retrievers.records import Chunk
from retrievers.store import CollectionInfo, least, parts, read_info, store_errors
from retrievers.store.embedded import is_embedded
from retrievers.store.payload import to_chunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
SAMPLE = 512
# Points, and ids alone, of one request.
PAGE, IDS = 128, 1_000
EMBEDDED_AGAIN = 8
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding of an audit.

    Attributes:
        check: Name of the check, `area/subject`.
        severity: error: results are wrong, or a run cannot be made; warning: recall or speed is lost; note: a fact to
            know when the figures are read.
        seen: The observation, with its numbers.
        why: Its consequence.
        fix: The remedy, as a setting or as a call of qdrant-client; empty where there is nothing to do.
    """

    check: str
    severity: Severity
    seen: str
    why: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A stored point.

    Attributes:
        chunk: Its payload, read as the settings say.
        payload: Its payload as stored.
        dense: Its vector of the configured name, None where it has none.
        sparse: Weights of its sparse vectors, by name.
    """

    chunk: Chunk
    payload: Mapping[str, Any]
    dense: Sequence[float] | None
    sparse: Mapping[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Examination:
    """A collection as it was read.

    Attributes:
        config: Settings of the retriever that is to search it.
        info: Its properties.
        stored: Its properties in the client's terms.
        points: Points from all over the collection, at most 512.
        cosines: Cosine of each of some stored vectors with its text embedded again; empty where that was not done.
        embedding_fault: Reason why no text was embedded again; empty where it was.
        version: The server's version; empty for an embedded store, and where the key may not ask.
        alias_of: The collection behind the name; empty where the name is its own, and where the key may not ask.
        shards: Its shards and their replicas; None for an embedded store, and where the key may not ask.
        peers: The server's cluster, as `shards`.
        refused: Questions that this key may not ask, with the server's words.
    """

    config: RetrieverConfig
    info: CollectionInfo
    stored: "models.CollectionInfo"
    points: Sequence[Point]
    cosines: Sequence[float] = ()
    embedding_fault: str = ""
    version: str = ""
    alias_of: str = ""
    shards: "models.CollectionClusterInfo | None" = None
    peers: "models.ClusterStatusOneOf1 | None" = None
    refused: Sequence[str] = ()

    @property
    def call(self) -> str:
        """The collection's name as an argument of a client call; an alias stands for its collection."""
        return repr(self.alias_of or self.info.name)


def examine(client: "QdrantClient", config: RetrieverConfig, env: Mapping[str, str]) -> Examination:
    """Read a collection, without writing.

    Args:
        client: An open client.
        config: Names the collection and all that is to search it.
        env: The environment that holds the key of the embedding model.

    Raises:
        CollectionNotFoundError: There is none of that name.
        StoreError: The store cannot be asked.
    """
    info = read_info(client, config)
    with store_errors(config.store, info.name):
        stored = client.get_collection(info.name)
    points = _sample(client, config, info)
    cosines, embedding_fault = _embedded_again(config, env, points)
    read = Examination(
        config=config, info=info, stored=stored, points=points, cosines=cosines, embedding_fault=embedding_fault
    )
    return _with_server(client, read) if config.store.url else read


def _sample(client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo) -> list[Point]:
    """Return points from all over the collection, read in pages that strict mode and the answer's size allow.

    The first ones in the order of their ids are often those of a few pages. A server draws by chance; of an embedded
    collection they are evenly spread.
    """
    embedded = is_embedded(client)
    ids = _spread(client, config, info) if embedded else _drawn(client, config, info)
    points: list[Point] = []
    for batch in parts(ids, least(PAGE, info.limits.results)):
        with store_errors(config.store, info.name):
            records = client.retrieve(info.name, batch, with_payload=True, with_vectors=True)
        points += [_point(record, config) for record in records]
    return points


def _spread(client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo) -> list[Any]:
    ids = list(_ids(client, config, info))
    return ids[:: -(-len(ids) // SAMPLE) or 1]


def _drawn(client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo) -> list[Any]:
    """Return the ids that a server draws by chance; the first ones of a small collection, and of an older server."""
    from qdrant_client import models

    if info.points > SAMPLE:
        chance = models.SampleQuery(sample=models.Sample.RANDOM)
        size = least(SAMPLE, info.limits.results)
        ids: dict[Any, None] = {}
        try:
            # Strict mode may let through a part at a time.
            for _ in range(-(-SAMPLE // size)):
                with store_errors(config.store, info.name):
                    drawn = client.query_points(info.name, query=chance, limit=size, with_payload=False)
                ids |= dict.fromkeys(point.id for point in drawn.points)
            return list(ids)[:SAMPLE]
        except StoreError as error:
            if error.transient or error.away:
                raise
    return list(islice(_ids(client, config, info), SAMPLE))


def _ids(client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo) -> Iterator[Any]:
    """Yield the ids of all points, in their order."""
    offset: Any = None
    while True:
        with store_errors(config.store, info.name):
            records, offset = client.scroll(
                info.name, limit=least(IDS, info.limits.results), offset=offset, with_payload=False, with_vectors=False
            )
        yield from (record.id for record in records)
        if offset is None:
            return


def _point(record: "models.Record", config: RetrieverConfig) -> Point:
    vectors: Any = record.vector
    named = vectors if isinstance(vectors, dict) else {"": vectors}
    dense = named.get(config.vector_name)
    return Point(
        chunk=to_chunk(record.id, record.payload, config.metadata),
        payload=record.payload or {},
        dense=dense if isinstance(dense, list) and not isinstance(dense[0], list) else None,
        sparse={name: vector.values for name, vector in named.items() if hasattr(vector, "values") and name},
    )


def _embedded_again(
    config: RetrieverConfig, env: Mapping[str, str], points: Sequence[Point]
) -> tuple[list[float], str]:
    """Return the cosines of some stored vectors with their texts embedded again, and a reason where there are none."""
    chosen = [point for point in points if point.dense and any(point.dense) and point.chunk.text]
    chosen = chosen[:: max(1, len(chosen) // EMBEDDED_AGAIN)][:EMBEDDED_AGAIN]
    if not chosen:
        return [], "no point has both a vector and a text"
    try:
        vectors = np.asarray(
            make_embeddings(config.embedding, env).embed_documents([point.chunk.indexed_text for point in chosen])
        )
    except RetrievalError as error:
        return [], str(error)
    stored = np.asarray([point.dense for point in chosen], dtype=float)
    if vectors.shape[1] != stored.shape[1]:
        return [], f"{config.embedding.label} makes {vectors.shape[1]} dimensions, the vectors have {stored.shape[1]}"
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(stored, axis=1)
    return [float(cosine) for cosine in (vectors * stored).sum(axis=1) / np.where(lengths > 0, lengths, 1)], ""


def _with_server(client: "QdrantClient", read: Examination) -> Examination:
    from qdrant_client import models

    name, refused = read.info.name, list[str]()

    def ask(question: str, call: Callable[[], Answer]) -> Answer | None:
        # A key for one collection may not ask about the server; that is no fault of the collection.
        try:
            with store_errors(read.config.store, name):
                return call()
        except StoreError as error:
            if error.transient or error.away:
                raise
            refused.append(f"{question}: {error}")
            return None

    server = ask("version of the server", client.info)
    aliases = ask("aliases", client.get_aliases)
    shards = ask("shards of the collection", lambda: client.collection_cluster_info(name))
    cluster = ask("peers of the cluster", client.cluster_status)
    listed = aliases.aliases if aliases else ()
    return replace(
        read,
        version=server.version if server else "",
        alias_of=next((alias.collection_name for alias in listed if alias.alias_name == name), ""),
        shards=shards,
        peers=cluster if isinstance(cluster, models.ClusterStatusOneOf1) else None,
        refused=refused,
    )
