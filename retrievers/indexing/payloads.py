"""A chunk's payload as indexing writes it: the text and every field under the names that the settings give. Pure."""

from collections.abc import Mapping
from typing import Any

from retrievers.config import MetadataConfig
from retrievers.errors import ConfigError
from retrievers.records import METADATA_FIELDS, Chunk
from retrievers.store.payload import DERIVED_FIELDS, payload_keys, to_metadata


def to_payload(chunk: Chunk, config: MetadataConfig) -> dict[str, Any]:
    """Return the payload that `retrievers.store.payload.to_chunk` reads with the same settings, and the preview."""
    fields = {config.map.get(name, name): value for name, value in to_metadata(chunk).items()}
    return {config.text_key: chunk.text} | ({config.nested_under: fields} if config.nested_under else fields)


def written_part(payload: Mapping[str, Any], config: MetadataConfig) -> dict[str, Any]:
    """Return the part of a stored payload that `to_payload` writes; other top-level keys belong to others."""
    fields = (config.map.get(name, name) for name in (*METADATA_FIELDS, *DERIVED_FIELDS))
    keys = (config.text_key, *([config.nested_under] if config.nested_under else fields))
    return {key: payload[key] for key in keys if key in payload}


def check_writable(config: MetadataConfig) -> None:
    """Make sure that no two values have one key, and that a filter can name every key.

    Raises:
        ConfigError: Naming the settings and the key.
    """
    targets = {"metadata.text_key": config.text_key}
    if config.nested_under:
        targets["metadata.nested_under"] = config.nested_under
    targets |= {f"metadata.map.{name}": key for name, key in config.map.items()}
    for setting, key in targets.items():
        if not key or "." in key or '"' in key:
            raise ConfigError(f"{setting}: expected a payload key without dots and quotes to write under, got {key!r}")
    readers = {name: payload_keys(name, config) for name in METADATA_FIELDS} | {
        name: (name,) for name in DERIVED_FIELDS
    }
    for name, key in config.map.items():
        for other in (other for other, keys in readers.items() if other != name and key in _last(keys)):
            raise ConfigError(f"metadata.map: {name} and {other} would both be under the payload key {key!r}")
    used = {config.nested_under} if config.nested_under else {key for keys in readers.values() for key in _last(keys)}
    if config.text_key in used:
        raise ConfigError(
            f"metadata.text_key: the payload key {config.text_key!r} holds other fields already; choose another"
        )


def _last(keys: tuple[str, ...]) -> set[str]:
    return {key.rpartition(".")[2] for key in keys}
