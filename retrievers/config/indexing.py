"""The settings of indexing: how pages are cut, and what is embedded with each chunk."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field

from retrievers.config.base import Settings

Context = Literal["none", "title", "path"]
# The settings of a new collection where none are named.
DEFAULTS: Mapping[str, Any] = {"context": "none", "max_tokens": 256}
# Those of a collection that was made before they were recorded.
UNRECORDED: Mapping[str, Any] = {"context": "none", "max_tokens": 256}


class IndexSettings(Settings):
    """How a collection is made from pages. A setting that is left out is the collection's own, whatever it is.

    Attributes:
        context: Text before that of a chunk when it is embedded and indexed for BM25: nothing, the title of its page,
            or the title and the headings above it. The chunk's own text stays as it stands in the page.
        max_tokens: Token budget of a chunk, its context included.
    """

    context: Context | None = Field(None, description="embedded before a chunk's text: none, title or path (headings)")
    max_tokens: int | None = Field(None, ge=16, le=4096, description="token budget of a chunk with its context")

    @property
    def named(self) -> dict[str, Any]:
        """The settings that are given."""
        return {name: value for name in IndexSettings.model_fields if (value := getattr(self, name)) is not None}

    def over(self, recorded: Mapping[str, Any]) -> Self:
        """Fill what is left out from a collection's record, and from the defaults where that is empty."""
        return self.model_validate({**self.model_dump(), **(recorded or DEFAULTS), **self.named})


def recorded_settings(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a collection was made with; empty where `retrievers index` did not make it."""
    if "embedding" not in manifest:
        return {}
    # Earlier versions recorded the budget alone.
    earlier = {name: manifest[name] for name in ("max_tokens",) if name in manifest}
    return {**UNRECORDED, **earlier, **manifest.get("index", {})}
