"""The keys of a collection's payload, and a proposal of the chunk fields they hold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from retrievers.config.layers import flatten
from retrievers.records import ALIASES, METADATA_FIELDS

SAMPLE = 256
# Fields that our own indexing writes under some settings: no other key stands for them, and none is missed.
OUR_OWN = ("chunk_context", "chunk_headings", "page_number")


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


def payload_keys(payloads: Sequence[Mapping[str, Any]]) -> list[PayloadKey]:
    """Return every key of the payloads, nested ones with dots, with types and an example."""
    types: dict[str, Counter[str]] = {}
    examples: dict[str, str] = {}
    for payload in payloads:
        for key, value in flatten(payload):
            types.setdefault(key, Counter())[type(value).__name__] += 1
            examples.setdefault(key, " ".join(str(value).split())[:60])
    return [PayloadKey(key=key, types=dict(types[key]), example=examples[key]) for key in sorted(types)]


def propose(payloads: Sequence[Mapping[str, Any]]) -> Proposal:
    """Guess the `metadata` setting: by equal names, then aliases and the names in `payload_names.yaml`."""
    usual = yaml.safe_load(files(__package__).joinpath("payload_names.yaml").read_text(encoding="utf-8"))
    nested = next((key for key in usual["nesting"] if any(isinstance(p.get(key), Mapping) for p in payloads)), "")
    inner = [p.get(nested) or {} for p in payloads] if nested else payloads
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
