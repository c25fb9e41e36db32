"""The deployment of a collection on a server: version, shards, replicas, and the settings of its indexes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.store.collection import CollectionInfo, read_info
from retrievers.store.errors import store_errors

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


Response = TypeVar("Response")


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Deployment of a collection on a server.

    Attributes:
        version: The server's version, None where it does not tell.
        shards: Parts that the collection is cut into, each with its own index and its own term counts.
        replicas: Copies of each shard.
        hnsw: Settings of the index of the vector that is searched.
        quantization: Quantisation of its vectors, None without any.
        datatype: Number type of its vectors, None for float32.
        alias_of: The collection behind the name, None where the name is the collection's own, or unknown.
    """

    version: str | None = None
    shards: int = 1
    replicas: int = 1
    hnsw: Mapping[str, Any] = field(default_factory=dict)
    quantization: Mapping[str, Any] | None = None
    datatype: str | None = None
    alias_of: str | None = None


def survey(client: "QdrantClient", config: RetrieverConfig) -> tuple[CollectionInfo, Deployment | None]:
    """Read the current properties of a collection, and its deployment; an embedded store has none.

    A key for this collection alone is enough: hidden properties are left out.

    Raises:
        CollectionNotFoundError: There is none of that name.
        StoreError: The store cannot be asked.
    """
    info = read_info(client, config)
    if not config.store.url:
        return info, None
    with store_errors(config.store, config.collection):
        config_there = client.get_collection(config.collection).config
    params = config_there.params
    dense: Any = params.vectors
    chosen = dense.get(config.vector_name) if isinstance(dense, dict) else dense
    quantization = _plain(getattr(chosen, "quantization_config", None)) or _plain(config_there.quantization_config)
    datatype = getattr(chosen, "datatype", None)
    deployment = Deployment(
        shards=params.shard_number or 1,
        replicas=params.replication_factor or 1,
        hnsw=_plain(config_there.hnsw_config) | _plain(getattr(chosen, "hnsw_config", None)),
        quantization=quantization or None,
        datatype=datatype and str(datatype.value),
    )
    return info, replace(deployment, version=_version(client, config), alias_of=_alias_of(client, config))


def _plain(settings: Any) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_none=True) if settings else {}


def _version(client: "QdrantClient", config: RetrieverConfig) -> str | None:
    info = _shown(config, client.info)
    return info.version if info else None


def _alias_of(client: "QdrantClient", config: RetrieverConfig) -> str | None:
    listed = _shown(config, client.get_aliases)
    aliases = listed.aliases if listed else ()
    return next((alias.collection_name for alias in aliases if alias.alias_name == config.collection), None)


def _shown(config: RetrieverConfig, ask: Callable[[], Response]) -> Response | None:
    """Return the server's answer; None where this key may not see it."""
    try:
        with store_errors(config.store, config.collection):
            return ask()
    except StoreError as error:
        if error.transient:
            raise
        return None
