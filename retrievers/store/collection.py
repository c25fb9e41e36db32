"""The properties of a collection, its limits on one request, and how its server runs it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from retrievers.config import RetrieverConfig
from retrievers.config.indexing import recorded_settings
from retrievers.errors import CollectionNotFoundError, EmbeddingMismatchError, StoreError, nearest
from retrievers.store.errors import store_errors
from retrievers.store.location import location

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Response = TypeVar("Response")
Item = TypeVar("Item")
MANIFEST_KEY = "retrieval_evals"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a collection on one request; None for one that it does not set.

    Attributes:
        results: Points that a query or a page of a scroll may ask for (`max_query_limit`).
        queries: Queries of a batch (`search_max_batchsize`, and no more than a minute's `read_rate_limit`).
        points: Points that are written at once (`upsert_max_batchsize`).
        values: Values of one condition of a filter (`condition_max_size`).
        exact: True if exact search and exact counts are allowed (`search_allow_exact`).
        unindexed: True if filters may name keys without an index (`unindexed_filtering_retrieve`).
    """

    results: int | None = None
    queries: int | None = None
    points: int | None = None
    values: int | None = None
    exact: bool = True
    unindexed: bool = True


NO_LIMITS = Limits()


def limits_of(config: Any) -> Limits:
    """Read the limits in a collection's configuration."""
    strict = getattr(config, "strict_mode_config", None)
    if strict is None or not strict.enabled:
        return NO_LIMITS
    queries = [limit for limit in (strict.search_max_batchsize, strict.read_rate_limit) if limit]
    return Limits(
        results=strict.max_query_limit,
        queries=min(queries, default=None),
        points=strict.upsert_max_batchsize,
        values=strict.condition_max_size,
        exact=strict.search_allow_exact is not False,
        unindexed=strict.unindexed_filtering_retrieve is not False,
    )


def least(size: int, *limits: int | None) -> int:
    """Return a size, or the least of the set limits where that is less."""
    return min([size, *(limit for limit in limits if limit)])


def parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield items in their order, in batches of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(frozen=True, kw_only=True)
class CollectionInfo:
    """Properties of a collection.

    Attributes:
        points: Number of points.
        vector_name: Name of the dense vector that will be searched: that of the settings, or, where they name none and
            no vector is without a name, the only one.
        dimension: Length of the vector that will be searched; 0 where there is no dense one of that name.
        distance: Its distance, lower case; empty where there is none.
        vectors: Every named vector with its length ('' is the unnamed one).
        multivectors: Those under whose name each point has several vectors.
        datatype: Number type of the vector that will be searched; empty for float32.
        without_idf: Those of the sparse vectors whose scores the store does not weigh by how rare a term is.
        shards: Number of parts that it is cut into on its server.
        limits: Limits on one request.
        ef_construct: Beam of a search in the HNSW index of the dense vector, unless a search names another.
        in_hnsw: True if an HNSW index of dense vectors is built, so that a search may miss near vectors.
        quantization: Kind of quantisation of the dense vector; empty without any.
        indexed: The payload keys that have an index, as filters write them, with its type.
        manifest: Record of `retrievers index`: embedding model, state, fingerprint of the pages; empty otherwise.
    """

    name: str
    points: int
    vector_name: str = ""
    dimension: int
    distance: str
    vectors: Mapping[str, int]
    sparse_vectors: tuple[str, ...]
    manifest: Mapping[str, Any]
    multivectors: tuple[str, ...] = ()
    datatype: str = ""
    without_idf: tuple[str, ...] = ()
    shards: int = 1
    limits: Limits = NO_LIMITS
    ef_construct: int = 100
    in_hnsw: bool = False
    quantization: str = ""
    indexed: Mapping[str, str] = field(default_factory=dict)

    @property
    def index(self) -> Mapping[str, Any]:
        """The recorded settings of indexing; empty where `retrievers index` did not make it."""
        return recorded_settings(self.manifest)

    @property
    def is_approximate(self) -> bool:
        """True if a search may miss near vectors, unless `search_params` has it exact."""
        return self.in_hnsw or bool(self.quantization)

    @property
    def lost(self) -> int:
        """Number of indexed points that are missing; 0 where their number was not recorded."""
        recorded = self.manifest.get("points", 0) if self.manifest.get("state") == "complete" else 0
        return max(0, recorded - self.points)


def describe(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo:
    """Read the properties of a collection, and check that it has the vector to be searched.

    Raises:
        CollectionNotFoundError: There is none of that name; the nearest names are given.
        EmbeddingMismatchError: It has no dense vector of the configured name, several under it for each point, or whole
            numbers.
        StoreError: The store cannot be asked.
    """
    info = read_info(client, config)
    if info.vector_name in info.multivectors:
        raise EmbeddingMismatchError(
            f"vector {info.vector_name!r} of collection {info.name!r} is a multi-vector, of which each point has "
            "several (as ColBERT makes): its score is a sum over the query's vectors, which is not searched yet; set "
            "vector_name to one with a single vector a point"
        )
    if info.vector_name not in info.vectors:
        have = ", ".join(map(repr, info.vectors)) or "none"
        raise EmbeddingMismatchError(
            f"collection {info.name!r} has no dense vector {config.vector_name!r}: it has {have}; set vector_name"
        )
    if info.datatype == "uint8":
        raise EmbeddingMismatchError(
            f"collection {info.name!r} keeps vectors as whole numbers from 0 to 255 (uint8), which no model of text "
            "makes; make one of float32 or float16"
        )
    return info


def read_info(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo:
    """Read the properties of a collection with any vectors.

    Raises:
        CollectionNotFoundError: There is none of that name; the nearest names are given.
        StoreError: The store cannot be asked.
    """
    name = config.collection
    with store_errors(config.store, name):
        # Asked first: the client's own error for a missing collection differs by transport and version.
        if not client.collection_exists(name):
            names = [c.name for c in client.get_collections().collections]
            have = f"it has {', '.join(map(repr, sorted(names)[:10]))}" if names else "it has none"
            raise CollectionNotFoundError(
                f"no collection {name!r} at {location(config.store)}: {have}{nearest(name, names)} "
                "(set collection to another name, or make it with: python -m retrievers index DIR)"
            )
        info = client.get_collection(name)
        limits = limits_of(info.config)
        # A strict server may forbid exact counts; its estimate is better than no run.
        count = client.count(name, exact=limits.exact).count
    params = info.config.params
    dense = params.vectors if isinstance(params.vectors, dict) else {"": params.vectors} if params.vectors else {}
    vectors = {key: value for key, value in dense.items() if value is not None}
    single = [key for key, value in vectors.items() if not value.multivector_config]
    vector_name = config.vector_name or (single[0] if "" not in vectors and len(single) == 1 else "")
    chosen = vectors.get(vector_name)
    return CollectionInfo(
        name=name,
        vector_name=vector_name,
        points=count,
        dimension=chosen.size if chosen else 0,
        distance=str(chosen.distance.value).lower() if chosen else "",
        vectors={key: value.size for key, value in vectors.items()},
        multivectors=tuple(key for key, value in vectors.items() if value.multivector_config),
        datatype=str(getattr(chosen.datatype, "value", chosen.datatype) or "") if chosen else "",
        sparse_vectors=tuple(params.sparse_vectors or ()),
        without_idf=tuple(name for name, sparse in (params.sparse_vectors or {}).items() if sparse.modifier != "idf"),
        shards=getattr(params, "shard_number", None) or 1,
        limits=limits,
        ef_construct=_ef_construct(info, chosen),
        # The server counts the vectors of all names, and sparse ones, which always have an index.
        in_hnsw=(info.indexed_vectors_count or 0) > count * len(params.sparse_vectors or {}),
        quantization=_quantization(info, chosen),
        indexed={key: str(index.data_type.value) for key, index in (info.payload_schema or {}).items()},
        manifest=(getattr(info.config, "metadata", None) or {}).get(MANIFEST_KEY, {}),
    )


def _ef_construct(info: "models.CollectionInfo", vector: "models.VectorParams | None") -> int:
    own = vector.hnsw_config.ef_construct if vector and vector.hnsw_config else None
    return own or info.config.hnsw_config.ef_construct


def _quantization(info: "models.CollectionInfo", vector: "models.VectorParams | None") -> str:
    settings = (vector.quantization_config if vector else None) or info.config.quantization_config
    return next(iter(settings.model_dump(exclude_none=True)), "") if settings else ""


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
