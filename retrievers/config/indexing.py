"""The settings of indexing: how pages are cut, and which context is embedded with each chunk."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from retrievers.config.settings import Settings, field

Context = Literal["none", "title", "path"]
Splitter = Literal["sections", "whole"]
# Settings of a new collection that are not named, and settings of a collection that was made before they were recorded.
DEFAULTS: Mapping[str, Any] = {
    "context": "none", "splitter": "sections", "max_tokens": 256, "merge_small": False,
}  # fmt: skip


class IndexSettings(Settings):
    """Settings that make a collection from pages. A setting that is left out is the one that the collection records.

    Attributes:
        context: Text before that of a chunk when it is embedded and indexed for BM25: nothing, the title of its page,
            or the title and the headings above it. The chunk's own text stays as it stands in the page. The default for
            a new collection is `path` if its pages have headings, `title` if it is made of rows, else `none`.
        splitter: How text is cut: section by section into whole blocks (`sections`), or not at all (`whole`).
        max_tokens: Token budget of a chunk, its context included.
        merge_small: True to put neighbouring sections of one parent into one chunk while they fit into the budget.
    """

    context: Context | None = field(
        None, "before a chunk's text: none, title, or path (headings; the default where there are any)"
    )
    splitter: Splitter | None = field(None, "how text is cut: sections (by headings), or whole (not at all)")
    max_tokens: int | None = field(None, "token budget of a chunk with its context (256)", ge=16, le=4096)
    merge_small: bool | None = field(None, "small neighbouring sections of a parent make one chunk (false)")

    @property
    def named(self) -> dict[str, Any]:
        """The settings that are not left out."""
        return {name: value for name in IndexSettings.model_fields if (value := getattr(self, name)) is not None}

    def over(self, recorded: Mapping[str, Any]) -> Self:
        """Complete the settings: given values first, then those that the collection records, then the defaults."""
        filled = {**DEFAULTS, **recorded, **self.named}
        return self.model_copy(update={name: filled[name] for name in DEFAULTS})


def recorded_settings(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with which a collection was made; empty if another program made it."""
    return {**DEFAULTS, **manifest.get("index", {})} if "embedding" in manifest else {}
