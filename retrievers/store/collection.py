"""The properties of a collection, and a proposal of the payload keys that hold the fields of chunks."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from retrievers.config import RetrieverConfig
from retrievers.config.files import packaged_yaml
from retrievers.config.indexing import recorded_settings
from retrievers.config.layers import flatten
from retrievers.errors import CollectionNotFoundError, StoreError, nearest
from retrievers.records import ALIASES, METADATA_FIELDS, SECTION_SEPARATOR
from retrievers.store.opening import location, store_errors
from retrievers.text import well_formed

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
            raise CollectionNotFoundError(f"no collection {name!r} at {location(config.store, name)}: {has}")
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


class Kind(NamedTuple):
    """A kind of payload values.

    Attributes:
        expected: Its name in messages.
        read: Converts a value for a chunk. None for a value of another kind.
    """

    expected: str
    read: Callable[[Any], Any]


TEXT = Kind("text", lambda raw: well_formed(raw) if isinstance(raw, str) and raw.strip() else None)
IDENTIFIER = Kind("text or a whole number", lambda raw: str(raw) if type(raw) is int else TEXT.read(raw))
TEXTS = Kind("a list of texts", lambda raw: tuple(map(well_formed, raw)) if _are_texts(raw) else None)
PATH = Kind("text or a list of texts", lambda raw: TEXT.read(SECTION_SEPARATOR.join(raw) if _are_texts(raw) else raw))
# In Python a bool is an int. In JSON it is no number.
COUNT = Kind("a whole number from 0", lambda raw: raw if type(raw) is int and raw >= 0 else None)
NUMBER = Kind("a number", lambda raw: raw if type(raw) in (int, float) else None)
COUNTS = ("chunk_index", "total_chunks", "chunk_token_count", "start_line", "end_line", "page_number")
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(METADATA_FIELDS, TEXT),
    **dict.fromkeys(("chunk_id", "source_document_id"), IDENTIFIER),
    **dict.fromkeys(COUNTS, COUNT),
    **dict.fromkeys(("tags", "chunk_headings"), TEXTS),
    "sidebar_position": NUMBER,
    "section_path": PATH,
}
"""The kind of each field of a chunk."""


def values_by_key(payloads: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return all values of each payload key, in the alphabetical order of the keys. Nested keys are joined by dots."""
    values: dict[str, list[Any]] = {}
    for payload in payloads:
        for key, value in flatten(payload):
            values.setdefault(key, []).append(value)
    return dict(sorted(values.items()))


def propose(payloads: Sequence[Mapping[str, Any]]) -> Proposal:
    """Propose the `metadata` setting: by equal names, then by aliases, then by the names in `payload_names.yaml`.

    Of several keys for the text, or for the other fields, the one counts that most payloads have.
    """
    usual = packaged_yaml(__package__, "payload_names.yaml")
    texts = Counter(key for key in usual["text"] for p in payloads if isinstance(p.get(key), str))
    text = max(texts, key=texts.__getitem__, default=None)
    nests = Counter(key for key in usual["nesting"] for p in payloads if isinstance(p.get(key), Mapping))
    nested = max(nests, key=nests.__getitem__, default="")
    if nests[nested] < sum(p.keys().isdisjoint(nests) and len(p) > 1 for p in payloads):
        nested = ""
    inner = [p[nested] for p in payloads if isinstance(p.get(nested), Mapping)] if nested else payloads
    keys = dict.fromkeys(key for payload in inner for key in payload if key != text)
    same = tuple(name for name in METADATA_FIELDS if name in keys)
    free = {key.lower().replace("-", "_"): key for key in keys if key not in same}
    sought = [name for name in METADATA_FIELDS if name not in (*same, *OUR_OWN)]
    mapping: dict[str, str] = {}
    for name in sought:
        aliases = [alias for alias, canonical in ALIASES.items() if canonical == name]
        known = [key for key in (name, *aliases, *usual["fields"].get(name, ())) if key in free]
        if key := next((key for key in known if _fits(name, [p.get(free[key]) for p in inner])), None):
            mapping[name] = free.pop(key)
    missing = tuple(name for name in sought if name not in mapping)
    return Proposal(text_key=text, nested_under=nested, map=mapping, same_name=same, missing=missing)


def _fits(name: str, values: Sequence[Any]) -> bool:
    """Return True if a field can take at least half of the values, and no value twice if it is the chunk's id."""
    given = [raw for raw in values if raw is not None]
    read = [value for raw in given if (value := KINDS[name].read(raw)) is not None]
    return 2 * len(read) >= len(given) and (name != "chunk_id" or len({*read}) == len(read))


def _are_texts(raw: Any) -> bool:
    return isinstance(raw, list | tuple) and all(isinstance(item, str) for item in raw)
