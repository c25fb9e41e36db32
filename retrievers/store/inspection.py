"""The keys of a collection's payload, and a proposal of the chunk fields they hold."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from retrievers.config import RetrieverConfig
from retrievers.records import ALIASES, METADATA_FIELDS
from retrievers.store.chunks import records
from retrievers.store.collection import NO_LIMITS, Limits

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

SAMPLE = 256
# Fields that our own indexing writes under some settings: no other key stands for them, and none is missed.
OUR_OWN = ("chunk_context", "chunk_headings", "page_number")
# A place in characters, which is no line and no number of a chunk.
OFFSETS = {"start_index", "end_index", "start_char", "end_char", "start_offset", "end_offset", "offset"}
# Keys under which LangChain and Haystack put what describes a text.
NESTING = ("metadata", "meta")
TEXT_KEYS = ("page_content", "text", "content", "chunk_text", "chunk", "body", "document", "passage")
HINTS: Mapping[str, tuple[str, ...]] = {
    "source_url": ("link", "page_url", "permalink", "href", "source", "uri"),
    "title": ("page_title", "doc_title", "name", "h1"),
    "section_path": ("breadcrumb", "headings", "section", "heading_path", "headers"),
    "heading": ("h2", "section_title", "header"),
    "file_path": ("path", "filename", "file", "filepath", "source"),
    "chunk_index": ("chunk_idx", "idx", "index", "chunk_no", "chunk_number", "position", "seq"),
    "total_chunks": ("chunk_count", "n_chunks", "chunks"),
    "chunk_id": ("id", "uid", "uuid"),
    "content_hash": ("hash", "checksum", "sha256", "md5"),
    "tags": ("keywords", "labels", "categories"),
    "chunk_token_count": ("tokens", "token_count", "n_tokens"),
    "start_line": ("line_start", "line"),
    "end_line": ("line_end",),
}


@dataclass(frozen=True, kw_only=True)
class PayloadKey:
    """A payload key as it occurs in the sample: its types with counts, and an example value."""

    key: str
    types: Mapping[str, int]
    example: str


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A `metadata` setting for the collection, and the fields for which no key was found."""

    text_key: str | None
    nested_under: str
    map: Mapping[str, str]
    same_name: tuple[str, ...]
    missing: tuple[str, ...]


def sample(client: "QdrantClient", config: RetrieverConfig, limits: Limits = NO_LIMITS) -> list[Mapping[str, Any]]:
    """Return the payloads of the first points of the collection, at most 256.

    Raises:
        StoreError: The store failed.
    """
    return [record.payload or {} for record in records(client, config, limits, count=SAMPLE)]


def payload_keys(payloads: Sequence[Mapping[str, Any]]) -> list[PayloadKey]:
    """Return every key of the payloads, nested ones with dots, with types and an example."""
    types: dict[str, Counter[str]] = {}
    examples: dict[str, str] = {}
    for payload in payloads:
        for key, value in _flat(payload):
            types.setdefault(key, Counter())[type(value).__name__] += 1
            examples.setdefault(key, " ".join(str(value).split())[:60])
    return [PayloadKey(key=key, types=dict(types[key]), example=examples[key]) for key in sorted(types)]


def propose(payloads: Sequence[Mapping[str, Any]]) -> Proposal:
    """Guess the `metadata` setting: by equal names, then aliases and common names, then near spellings."""
    nested = next((key for key in NESTING if any(isinstance(p.get(key), Mapping) for p in payloads)), "")
    inner = [p.get(nested) or {} for p in payloads] if nested else payloads
    text = next((key for key in TEXT_KEYS if any(isinstance(p.get(key), str) for p in payloads)), None)
    keys = dict.fromkeys(key for payload in inner for key in payload if key != text)
    same = tuple(name for name in METADATA_FIELDS if name in keys)
    free = {key.lower().replace("-", "_"): key for key in keys if key not in same}
    sought = [name for name in METADATA_FIELDS if name not in (*same, *OUR_OWN)]
    mapping: dict[str, str] = {}
    # What is certain first: chunk_idx is spelt more like chunk_id than like chunk_index.
    for guess in (_by_name, _by_spelling):
        for name in (name for name in sought if name not in mapping):
            if found := guess(name, free):
                mapping[name] = free.pop(found)
    missing = tuple(name for name in sought if name not in mapping)
    return Proposal(text_key=text, nested_under=nested, map=mapping, same_name=same, missing=missing)


def _by_name(name: str, free: Mapping[str, str]) -> str | None:
    aliases = [alias for alias, canonical in ALIASES.items() if canonical == name]
    return next((known for known in (name, *aliases, *HINTS.get(name, ())) if known in free), None)


def _by_spelling(name: str, free: Mapping[str, str]) -> str | None:
    return next(iter(get_close_matches(name, free.keys() - OFFSETS, n=1, cutoff=0.8)), None)


def _flat(payload: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in payload.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
