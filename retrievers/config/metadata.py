"""Names of a chunk's fields in a collection's payload."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, field_validator

from retrievers.config.settings import Settings
from retrievers.errors import nearest
from retrievers.records import ALIASES, METADATA_FIELDS

REQUIRED_METADATA = ("source_url", "title", "section_path", "chunk_index", "total_chunks", "content_hash")
ALWAYS_THERE = ("point_id", "text", "chunk_text_preview")


class MetadataConfig(Settings):
    """Names of a chunk's fields in a collection's payload.

    Attributes:
        text_key: Payload key of the text (LangChain writes `page_content`).
        nested_under: Payload key that holds the other fields (LangChain writes `metadata`); empty for a flat payload.
        map: Canonical field name to payload key, for the fields whose key differs.
        required: Fields that every chunk must have; when left out, those of `REQUIRED_METADATA` that at least half of
            the chunks have.
    """

    text_key: str = Field("page_content", description="payload key of the chunk's text")
    nested_under: str = Field("metadata", description="payload key that holds the other fields; '' if they are flat")
    map: Mapping[str, str] = Field(default_factory=dict, description="field name: payload key, where they differ")
    required: tuple[str, ...] | None = Field(
        None, description="fields that every chunk must have (default: the usual ones that the collection has)"
    )

    @property
    def layout(self) -> dict[str, Any]:
        """Under which payload keys text and fields are, as a collection that `retrievers index` made records it."""
        moved = {name: key for name, key in self.map.items() if key != name}
        return {"text_key": self.text_key, "nested_under": self.nested_under, "map": moved}

    def unread(self, layout: Mapping[str, Any]) -> dict[str, Any]:
        """Name the parts of a recorded layout that these settings would miss. A field in `map` differs on purpose."""
        own = self.layout
        missed = {key: layout[key] for key in ("text_key", "nested_under") if layout[key] != own[key]}
        moved = {n: key for n, key in layout["map"].items() if n not in self.map and ALIASES.get(key) != n}
        return missed | ({"map": moved} if moved else {})

    @field_validator("map")
    @classmethod
    def _canonical_keys(cls, mapping: Mapping[str, str]) -> Mapping[str, str]:
        return {known_field(name, METADATA_FIELDS): key for name, key in mapping.items()}

    @field_validator("required")
    @classmethod
    def _canonical_names(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return names and tuple(dict.fromkeys(known_field(name, (*METADATA_FIELDS, *ALWAYS_THERE)) for name in names))


def known_field(name: str, fields: Sequence[str]) -> str:
    """Return the canonical name of a field.

    Raises:
        ValueError: It is none of `fields`; the nearest is given.
    """
    canonical = ALIASES.get(name, name)
    if canonical not in fields:
        raise ValueError(f"{name!r} is not a field of a chunk{nearest(name, (*fields, *ALIASES))}")
    return canonical
