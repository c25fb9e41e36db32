"""Between a chunk and its Qdrant payload, by the names the settings give. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from retrievers.config import REQUIRED_METADATA, MetadataConfig
from retrievers.records import ALIASES, METADATA_FIELDS, Chunk

# Written for readers of the payload, never read back.
DERIVED_FIELDS = ("chunk_text_preview",)
_NAMES = {
    name: (name, *(alias for alias, canonical in ALIASES.items() if canonical == name)) for name in METADATA_FIELDS
}
_OWN_KEYS = frozenset((*METADATA_FIELDS, *DERIVED_FIELDS))
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_ALIASES = {name: names[1:] for name, names in _NAMES.items() if len(names) > 1}


def to_metadata(chunk: Chunk) -> dict[str, Any]:
    """Return the metadata that indexing writes: every known field, and the preview."""
    values = {name: getattr(chunk, name) for name in (*METADATA_FIELDS, *DERIVED_FIELDS)}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v is not None}


def to_chunk(point_id: Any, payload: Mapping[str, Any] | None, config: MetadataConfig) -> Chunk:
    """Read a payload. A value of the wrong type is left out and named in `problems`; nothing is guessed.

    A point without a `chunk_id` is known by its point id, so that scores and golden ids have something to hold on to.
    """
    payload = payload or {}
    text = payload.get(config.text_key)
    metadata = _metadata(payload, config)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, kind in _KINDS.items():
        raw = _find(metadata, name, config.map)
        if raw is None:
            continue
        value = kind.read(raw)
        if value is None:
            problems.append(f"{name}: expected {kind.expected}, got {raw!r}")
        else:
            values[name] = value
    if not isinstance(text, str):
        problems.append(f"text: expected text under payload key {config.text_key!r}, got {text!r}")
    # Golden data and reports need an id for every chunk.
    values.setdefault("chunk_id", str(point_id))
    return Chunk(
        point_id=str(point_id),
        text=_whole(text) if isinstance(text, str) else "",
        problems=tuple(problems),
        extra=_extra(payload, metadata, config),
        **values,
    )


def all_metadata(chunk: Chunk) -> dict[str, Any]:
    """Return every field of a chunk, and the rest of its payload."""
    return {**chunk.extra, **to_metadata(chunk)}


def usual_fields(chunks: Sequence[Chunk]) -> tuple[str, ...]:
    """Return the fields of `REQUIRED_METADATA` that at least half of some chunks have.

    So a field that some chunks lack by mistake is missed, and one that the collection was made without is not.
    """
    counts = {name: sum(getattr(chunk, name) not in (None, "") for chunk in chunks) for name in REQUIRED_METADATA}
    return tuple(name for name, count in counts.items() if chunks and 2 * count >= len(chunks))


def chunk_id(point_id: str, payload: Mapping[str, Any] | None, config: MetadataConfig) -> str:
    """Return the `chunk_id` of `to_chunk` without reading the other fields."""
    raw = _find(_metadata(payload or {}, config), "chunk_id", config.map)
    return _identifier(raw) or point_id


def payload_keys(name: str, config: MetadataConfig) -> tuple[str, ...]:
    """Return the full payload keys a field may have, e.g. `metadata.source_url`."""
    canonical = ALIASES.get(name, name)
    keys = (config.map[canonical],) if canonical in config.map else _NAMES[canonical]
    return tuple(f"{config.nested_under}.{key}" if config.nested_under else key for key in keys)


def filter_path(key: str) -> str:
    """Write a payload key for Qdrant's filters: quoted between the dots where it is not a plain word."""
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in key.split("."))


class _Kind:
    """Reader of a field's raw value; `read` gives None for a value of the wrong type."""

    def __init__(self, expected: str, read: Callable[[Any], Any]) -> None:
        self.expected = expected
        self.read = read


def _text(raw: Any) -> str | None:
    return _whole(raw) if isinstance(raw, str) and raw.strip() else None


def _whole(text: str) -> str:
    """Replace halves of surrogate pairs by U+FFFD: such a text cannot be embedded, hashed, sent or stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _identifier(raw: Any) -> str | None:
    # In Python a bool is an int, in JSON it is not a number.
    return str(raw) if isinstance(raw, int) and not isinstance(raw, bool) else _text(raw)


def _count(raw: Any) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0 else None


def _number(raw: Any) -> float | None:
    return raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None


def _texts(raw: Any) -> tuple[str, ...] | None:
    texts = isinstance(raw, list | tuple) and all(isinstance(item, str) for item in raw)
    return tuple(_whole(text) for text in raw) if texts else None


def _metadata(payload: Mapping[str, Any], config: MetadataConfig) -> Mapping[str, Any]:
    nested = payload.get(config.nested_under) if config.nested_under else payload
    return nested if isinstance(nested, Mapping) else {}


def _extra(payload: Mapping[str, Any], metadata: Mapping[str, Any], config: MetadataConfig) -> Mapping[str, Any]:
    beside = payload.keys() - {config.text_key, config.nested_under} if config.nested_under else ()
    rest = metadata.keys() - _OWN_KEYS - {config.text_key}
    if not beside and not rest:
        return _NOTHING
    return {key: payload[key] for key in payload if key in beside} | {k: metadata[k] for k in metadata if k in rest}


def _find(metadata: Mapping[str, Any], name: str, renamed: Mapping[str, str]) -> Any:
    if name in renamed:
        return metadata.get(renamed[name])
    raw = metadata.get(name)
    if raw is None and name in _ALIASES:
        raw = next((metadata[alias] for alias in _ALIASES[name] if metadata.get(alias) is not None), None)
    return raw


_TEXT = _Kind("text", _text)
_IDENTIFIER = _Kind("text or a whole number", _identifier)
_COUNT = _Kind("a whole number from 0", _count)
_SPECIAL = {
    "chunk_id": _IDENTIFIER,
    "source_document_id": _IDENTIFIER,
    "chunk_index": _COUNT,
    "total_chunks": _COUNT,
    "chunk_token_count": _COUNT,
    "start_line": _COUNT,
    "end_line": _COUNT,
    "page_number": _COUNT,
    "sidebar_position": _Kind("a number", _number),
    "tags": _Kind("a list of texts", _texts),
    "chunk_headings": _Kind("a list of texts", _texts),
}
_KINDS: Mapping[str, _Kind] = {name: _SPECIAL.get(name, _TEXT) for name in METADATA_FIELDS}
