"""A dataset as a corpus: each row a document, read when it is cut and never kept."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from retrievers.config import IndexSettings
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.file_kinds import paragraphs
from retrievers.indexing.markdown import Page, PageSection
from retrievers.indexing.table_files import Columns, Row, choose, rows_of
from retrievers.records import Chunk
from retrievers.text.quoting import quoted

MOST_FAULTS = 50
# Rows without text that a note names.
SHOWN = 5


class RowCorpus:
    """Documents of a dataset, read row by row; the attributes are complete once all of them are cut.

    Attributes:
        folder: The dataset.
        count: Number of documents.
        faults: Those of rows that cannot be read.
        fingerprint: SHA-256 over every document's id, title, text and address, and the base of the addresses.
    """

    unit = "documents"
    broken: Mapping[str, str] = {}

    def __init__(self, source: Path, asked: Columns, hub: Mapping[str, str | None]) -> None:
        self.folder = source
        self.count = 0
        self.faults: tuple[str, ...] = ()
        self.fingerprint = ""
        self._asked, self._hub = asked, hub
        self._empty: list[str] = []
        self._empty_count = 0

    def defaults(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that differ from those for pages: whole documents with their titles, as BEIR has them."""
        cut = "max_tokens" in named or "overlap" in named
        return {"context": "title"} | ({} if cut else {"splitter": "whole"})

    @property
    def notes(self) -> tuple[str, ...]:
        """One line on the rows that have no text."""
        named = ", ".join(self._empty) + (", …" if self._empty_count > SHOWN else "")
        return (f"{self._empty_count} rows without text were left out: {named}",) if self._empty else ()

    def cut(self, settings: IndexSettings) -> Iterator[Chunk]:
        """Read all rows and cut them into chunks.

        Raises:
            IndexingError: A column is missing, an id is used twice, or rows cannot be read; each with its line.
        """
        first, rows = self._begin()
        columns = choose(self._asked, list(first.values), str(self.folder))
        digest, faults, places = hashlib.sha256(), list[str](), dict[str, tuple[str, int]]()
        self.count, self._empty, self._empty_count = 0, [], 0
        for row in rows:
            document, fault = _document(row, columns)
            before = places.setdefault(document["id"], (row.source, row.number)) if not fault else None
            if before and before != (row.source, row.number):
                fault = f"id {quoted(document['id'])} is used already at {before[0]}:{before[1]}"
            if fault:
                faults.append(f"{row.place}: {fault}")
            elif not document["text"]:
                self._empty_count += 1
                self._empty += [row.place] if self._empty_count <= SHOWN else []
            elif not faults:
                self.count += 1
                digest.update(repr(sorted(document.items())).encode())
                yield from _chunks(document, settings)
            if len(faults) == MOST_FAULTS:
                break
        self.fingerprint = digest.hexdigest()
        if faults:
            raise IndexingError(f"{self.folder}: rows cannot be indexed, nothing was changed:", faults)
        if not self.count:
            raise IndexingError(f"{self.folder}: no row has text in column {columns.text!r}; nothing was changed")

    def _begin(self) -> tuple[Row, Iterator[Row]]:
        try:
            rows = rows_of(self.folder, self._hub)
            first = next(rows, None)
        except OSError as error:
            raise IndexingError(f"{self.folder}: cannot be read: {error.strerror}") from error
        if first is None:
            raise IndexingError(f"{self.folder}: holds no row; nothing was changed")
        if first.fault:
            raise IndexingError(f"{first.place}: {first.fault}")
        return first, chain([first], rows)


def _document(row: Row, columns: Columns) -> tuple[dict[str, str], str]:
    """Return id, title, text and address of a row, and its fault; a title without text is the text."""
    if row.fault:
        return {}, row.fault
    values = {part: row.values.get(column) for part, column in columns.named.items()}
    number = values.get("id", row.number)
    if isinstance(number, bool) or not isinstance(number, str | int) or not str(number).strip():
        return {}, f"expected an id under {columns.id!r}, got {quoted(number)}"
    for part in ("text", "title", "url"):
        if not isinstance(values.get(part), str | None):
            return {}, f"expected text under {getattr(columns, part)!r}, got {quoted(values[part])}"
    texts = {part: str(values.get(part) or "").strip() for part in ("text", "title", "url")}
    texts["text"] = texts["text"] or texts["title"]
    return {"id": str(number), **texts}, ""


def _chunks(document: Mapping[str, str], settings: IndexSettings) -> Iterator[Chunk]:
    """Cut a document; one that stays whole has its own id as the id of its chunk."""
    text = document["text"].replace("\r\n", "\n").replace("\r", "\n")
    page = Page(
        file_path="row",
        # It tells the chunks of documents with equal texts apart.
        source_url=document["id"],
        title=document["title"],
        tags=(),
        sidebar_position=None,
        text=text,
        sections=(PageSection(path=(), runs=(paragraphs(text),)),),
    )
    own = {"source_url": document["url"] or None, "title": document["title"] or None, "module": None, "chapter": None}
    own |= {"heading": own["title"], "section_path": own["title"], "source_document_id": document["id"]}
    # Lines of a text that is itself a value of a row would name no place in a file.
    own |= dict.fromkeys(("file_path", "start_line", "end_line"))
    return (
        replace(chunk, **own)  # type: ignore[arg-type]
        for chunk in chunk_page(page, count_tokens=count_tokens, **settings.named)
    )
