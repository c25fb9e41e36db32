"""The properties of a collection, and a proposal of the payload keys that hold the fields of chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from retrievers.config import RetrieverConfig
from retrievers.config.files import packaged_yaml
from retrievers.config.indexing import recorded_settings
from retrievers.config.layers import flatten
from retrievers.errors import CollectionNotFoundError, StoreError, nearest
from retrievers.records import ALIASES, METADATA_FIELDS
from retrievers.store.opening import location, store_errors

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

MANIFEST_KEY = "retrieval_evals"
# Points that are read to look at a collection.
SAMPLE = 256
# Fields that only our own indexing writes, under some settings: they are never proposed and never missed.
OUR_OWN = ("chunk_context", "chunk_headings", "page_number")


@dataclass(frozen=True, kw_only=True)
class CollectionInfo:
    """Properties of a collection.

    Attributes:
        points: Number of points.
        vector_name: Name of the dense vector that will be searched. It is the name in the settings; if they have none,
            the name of the only dense vector.
        dimension: Length of the vector that will be searched; 0 if there is no dense vector of that name.
        distance: Distance of that vector, in lower case; empty if there is no such vector.
        vectors: Length of every dense vector by its name ('' for the unnamed one). Multi-vectors are left out.
        sparse_vectors: For each sparse vector by its name, True if the store weighs terms by how rare they are (IDF).
        takes_filters: True if filters may name keys without an index. In Qdrant Cloud's strict mode they may not.
        indexed: Type of the index of each payload key that has one. Keys are written as in filters.
        manifest: Record of `retrievers index`: embedding model, state, fingerprint of the pages. Empty if another
            program made the collection.
    """

    name: str
    points: int
    vector_name: str = ""
    dimension: int
    distance: str
    vectors: Mapping[str, int]
    sparse_vectors: Mapping[str, bool]
    manifest: Mapping[str, Any]
    takes_filters: bool = True
    indexed: Mapping[str, str] = field(default_factory=dict)

    @property
    def index(self) -> Mapping[str, Any]:
        """The recorded settings of indexing; empty if another program made the collection."""
        return recorded_settings(self.manifest)


def describe(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo:
    """Read the properties of a collection, and check that it has the vector to be searched.

    Raises:
        CollectionNotFoundError: There is no collection of that name. The message gives the nearest names.
        StoreError: It has no dense vector of the configured name, or the store cannot be asked.
    """
    info = read_info(client, config)
    if info.vector_name not in info.vectors:
        has = f"{', '.join(map(repr, info.vectors)) or 'none'} (multi-vectors are not searched); set vector_name"
        raise StoreError(f"collection {info.name!r} has no dense vector {info.vector_name!r}: it has {has}")
    return info


def read_info(client: "QdrantClient", config: RetrieverConfig) -> CollectionInfo:
    """Read the properties of a collection, whatever vectors it has.

    Raises:
        CollectionNotFoundError: There is no collection of that name. The message gives the nearest names.
        StoreError: The store cannot be asked.
    """
    name = config.collection
    with store_errors(config.store, name):
        # The client's own error for a missing collection differs by transport and version.
        if not client.collection_exists(name):
            names = sorted(collection.name for collection in client.get_collections().collections)
            has = f"it has {', '.join(map(repr, names[:10])) or 'none'}{nearest(name, names)} (index makes it)"
            raise CollectionNotFoundError(f"no collection {name!r} at {location(config.store)}: {has}")
        stored = client.get_collection(name)
        count = client.count(name).count
    params, strict = stored.config.params, stored.config.strict_mode_config
    vectors = {key: value for key, value in by_name(params.vectors).items() if not value.multivector_config}
    chosen_name = config.vector_name or (next(iter(vectors)) if len(vectors) == 1 else "")
    chosen = vectors.get(chosen_name)
    return CollectionInfo(
        name=name,
        vector_name=chosen_name,
        points=count,
        dimension=chosen.size if chosen else 0,
        distance=str(chosen.distance.value).lower() if chosen else "",
        vectors={key: value.size for key, value in vectors.items()},
        sparse_vectors={key: value.modifier == "idf" for key, value in (params.sparse_vectors or {}).items()},
        takes_filters=not (strict and strict.enabled and strict.unindexed_filtering_retrieve is False),
        indexed={key: str(index.data_type.value) for key, index in (stored.payload_schema or {}).items()},
        manifest=(stored.config.metadata or {}).get(MANIFEST_KEY, {}),
    )


def by_name(vectors: Any) -> Mapping[str, Any]:
    """Return the dense vectors of a point or of a collection by name. The unnamed vector has the name ''."""
    return vectors if isinstance(vectors, dict) else {"": vectors} if vectors else {}


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposed `metadata` setting for a collection.

    Attributes:
        text_key: Payload key of the text; None if no key was found.
        nested_under: Payload key that holds the other fields; empty if they are not nested.
        map: Payload key of each field that has another name in the payload.
        same_name: Fields that have their own names in the payload.
        missing: Fields for which no key was found.
    """

    text_key: str | None
    nested_under: str
    map: Mapping[str, str]
    same_name: tuple[str, ...]
    missing: tuple[str, ...]


def values_by_key(payloads: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return all values of each payload key, in the alphabetical order of the keys. Nested keys are joined by dots."""
    values: dict[str, list[Any]] = {}
    for payload in payloads:
        for key, value in flatten(payload):
            values.setdefault(key, []).append(value)
    return dict(sorted(values.items()))


def propose(payloads: Sequence[Mapping[str, Any]]) -> Proposal:
    """Propose the `metadata` setting: by equal names, then by aliases, then by the names in `payload_names.yaml`."""
    usual = packaged_yaml(__package__, "payload_names.yaml")
    nested = next((key for key in usual["nesting"] if any(isinstance(p.get(key), Mapping) for p in payloads)), "")
    inner = [p[nested] for p in payloads if isinstance(p.get(nested), Mapping)] if nested else payloads
    text = next((key for key in usual["text"] if any(isinstance(p.get(key), str) for p in payloads)), None)
    keys = dict.fromkeys(key for payload in inner for key in payload if key != text)
    same = tuple(name for name in METADATA_FIELDS if name in keys)
    free = {key.lower().replace("-", "_"): key for key in keys if key not in same}
    sought = [name for name in METADATA_FIELDS if name not in (*same, *OUR_OWN)]
    mapping: dict[str, str] = {}
    for name in sought:
        aliases = [alias for alias, canonical in ALIASES.items() if canonical == name]
        if key := next((key for key in (name, *aliases, *usual["fields"].get(name, ())) if key in free), None):
            mapping[name] = free.pop(key)
    missing = tuple(name for name in sought if name not in mapping)
    return Proposal(text_key=text, nested_under=nested, map=mapping, same_name=same, missing=missing)
