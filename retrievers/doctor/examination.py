"""All that an audit reads of a collection; every check is a function of this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk
from retrievers.store import CollectionInfo

if TYPE_CHECKING:
    from qdrant_client import models


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
