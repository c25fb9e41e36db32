"""The columns of a dataset: which holds the text, the title, the address and the id of a document. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrievers.errors import IndexingError, nearest

# Names that are looked for, the likeliest first: BEIR's, TREC's, LangChain's, and those of datasets on the hub.
USUAL: Mapping[str, Sequence[str]] = {
    "text": ("text", "contents", "content", "page_content", "body", "passage", "passage_text", "document", "abstract"),
    "title": ("title", "headline", "name"),
    "url": ("url", "source_url", "link", "source"),
    "id": ("_id", "id", "doc_id", "docid", "docno", "document_id", "source_document_id", "pid", "corpus-id"),
}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns by what they hold; None where there is none. Without an id, documents are known by their row's number."""

    text: str | None = None
    title: str | None = None
    url: str | None = None
    id: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """The columns that are given."""
        return {part: column for part in USUAL if (column := getattr(self, part)) is not None}


def choose(asked: Columns, present: Sequence[str], source: str) -> Columns:
    """Return the columns of a dataset: those that are asked for, else the first of the usual names.

    Raises:
        IndexingError: It has no such column, or none that could hold the text.
    """
    there = f"it has {', '.join(map(repr, present)) or 'none'}"
    for part, column in asked.named.items():
        if column not in present:
            raise IndexingError(f"{source}: no column {column!r} (--{part}-column); {there}{nearest(column, present)}")
    lower = {name.lower(): name for name in reversed(present)}
    usual = {part: next((lower[name] for name in names if name in lower), None) for part, names in USUAL.items()}
    columns = Columns(**{**usual, **asked.named})
    if columns.text is None:
        raise IndexingError(f"{source}: no column that is called as a text usually is; {there}: name it: --text-column")
    return columns
