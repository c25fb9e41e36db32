"""A dataset as a corpus: rows of JSON Lines, CSV, Parquet and Hugging Face datasets, each a document."""

import csv
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from retrievers.config import IndexSettings
from retrievers.config.files import load_json
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError, nearest
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import Page, PageSection
from retrievers.indexing.pages import KINDS, paragraphs
from retrievers.records import Chunk
from retrievers.text.quoting import quoted

# Names that are looked for, the likeliest first: BEIR's, TREC's, LangChain's, and those of datasets on the hub.
USUAL: Mapping[str, Sequence[str]] = {
    "text": ("text", "contents", "content", "page_content", "body", "passage", "passage_text", "document", "abstract"),
    "title": ("title", "headline", "name"),
    "url": ("url", "source_url", "link", "source"),
    "id": ("_id", "id", "doc_id", "docid", "docno", "document_id", "source_document_id", "pid", "corpus-id"),
}
HUB = "hub:"
BEIR = "corpus.jsonl"
# Bytes of one row; a longer line is no row.
MOST_ROW_BYTES = 64 * 2**20
BATCH = 512
# What `Dataset.save_to_disk` leaves in its folder.
SAVED = ("state.json", "dataset_dict.json")
MOST_FAULTS = 50


class Row(NamedTuple):
    """A row: its values by column, or the fault of one that cannot be read.

    Attributes:
        place: File or name of the dataset, and the number, for messages.
        number: Line of the file on which it starts, from 1; of Parquet and of datasets the number of the row.
    """

    place: str
    number: int
    values: Mapping[str, Any]
    fault: str = ""


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


class RowCorpus:
    """Documents of a dataset, read row by row; the attributes are complete once all of them are cut.

    Attributes:
        folder: The dataset.
        count: Number of documents.
        faults: Those of rows that cannot be read.
        fingerprint: SHA-256 over every document's id, title, text and address, and the base of the addresses.
        empty: The rows that have no text.
    """

    unit = "documents"
    broken: Mapping[str, str] = {}
    faults: tuple[str, ...] = ()

    def __init__(self, source: Path, asked: Columns, hub: Mapping[str, str | None]) -> None:
        self.folder, self._asked, self._hub = source, asked, hub
        self.count, self.fingerprint = 0, ""
        self.empty: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """One line on the rows that have no text."""
        return (f"{len(self.empty)} rows without text were left out, from {self.empty[0]} on",) if self.empty else ()

    def defaults(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that differ from those for pages: whole documents with their titles, as BEIR has them."""
        cut = "max_tokens" in named or "overlap" in named
        return {"context": "title"} | ({} if cut else {"splitter": "whole"})

    def cut(self, settings: IndexSettings) -> Iterator[Chunk]:
        """Read all rows and cut them into chunks.

        Raises:
            IndexingError: A column is missing, an id is used twice, or rows cannot be read; each with its line.
        """
        columns, digest, faults, places = self._asked, hashlib.sha256(), list[str](), dict[str, str]()
        self.count, self.empty = 0, []
        for row in rows_of(self.folder, self._hub):
            if not row.fault and not places:
                columns = choose(self._asked, list(row.values), str(self.folder))
            document, fault = _document(row, columns)
            if not fault and places.setdefault(document["id"], row.place) != row.place:
                fault = f"id {quoted(document['id'])} is used already at {places[document['id']]}"
            if fault:
                faults.append(f"{row.place}: {fault}")
                if len(faults) == MOST_FAULTS:
                    break
            elif not document["text"]:
                self.empty.append(row.place)
            elif not faults:
                self.count += 1
                digest.update(repr(sorted(document.items())).encode())
                yield from _chunks(document, settings)
        self.fingerprint = digest.hexdigest()
        if faults:
            raise IndexingError(f"{self.folder}: rows cannot be indexed, nothing was changed:", faults)
        if not self.count:
            raise IndexingError(f"{self.folder}: holds no row with text; nothing was changed")


def is_table(source: Path) -> bool:
    """Return True for a dataset, in place of a folder of pages."""
    if _is_dataset(source) or (source / BEIR).is_file():
        return True
    if source.is_file():
        return source.suffix.lower() in READERS
    pages = any(file.suffix.lower() in KINDS for file in source.rglob("*"))
    return not pages and bool(table_files(source))


def table_files(folder: Path) -> list[Path]:
    """Return the files of a folder of data: BEIR's `corpus.jsonl`, else all of its tables, in order; none in others."""
    if (folder / BEIR).is_file():
        return [folder / BEIR]
    named = (f for f in folder.rglob("*") if f.suffix.lower() in READERS and f.name[0] not in "._")
    return sorted(file for file in named if file.is_file())


def rows_of(source: Path, hub: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield the rows of a file, of a folder, or of a dataset of the hub (`hub:OWNER/NAME`), in their order.

    Args:
        source: The dataset.
        hub: `revision`, `subset` and `split` of a dataset of the hub or of one that was saved to disk.

    Raises:
        IndexingError: It cannot be read.
    """
    hosted = _is_dataset(source)
    for file in [source] if hosted or source.is_file() else table_files(source):
        read, number = partial(_dataset_rows, hub=hub) if hosted else READERS[file.suffix.lower()], 0
        try:
            for number, values, fault in read(file):
                yield Row(f"{file}:{number}", number, values, fault)
        except Exception as error:  # each library has its own
            said = f"{type(error).__name__}: {error}"
            raise IndexingError(f"{file}: cannot be read behind row or line {number}: {said}") from error


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


# Readers of a file: number, values and fault of each row

Read = Iterator[tuple[int, Mapping[str, Any], str]]


def _json_rows(file: Path) -> Read:
    with file.open("rb") as opened:
        for number, line in enumerate(iter(lambda: opened.readline(MOST_ROW_BYTES), b""), 1):
            if line.strip():
                try:
                    values = load_json(line.decode("utf-8-sig" if number == 1 else "utf-8"))
                    fault = "" if isinstance(values, dict) else f"expected an object by columns, got {quoted(values)}"
                except ValueError as error:  # not UTF-8 is one too
                    values, fault = {}, str(error)
                yield number, values, fault


def _csv_rows(file: Path, delimiter: str = ",") -> Read:
    csv.field_size_limit(MOST_ROW_BYTES)
    with file.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.reader(opened, delimiter=delimiter, strict=True)
        header = next(reader, [])
        start = reader.line_num + 1
        for fields in reader:
            fault = "" if len(fields) == len(header) else f"{len(fields)} fields, but the header has {len(header)}"
            if fields:
                yield start, dict(zip(header, fields, strict=False)), fault
            start = reader.line_num + 1


def _parquet_rows(file: Path) -> Read:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as table:
        rows = (row for batch in table.iter_batches(batch_size=BATCH) for row in batch.to_pylist())
        yield from ((number, row, "") for number, row in enumerate(rows, 1))


def _dataset_rows(source: Path, hub: Mapping[str, str | None]) -> Read:
    # It would tell of its use, and count the download.
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
    os.environ.update(quiet | os.environ)
    from datasets import DatasetDict, load_dataset, load_from_disk

    split = hub["split"] or "train"
    if str(source).startswith(HUB):
        name, revision = str(source).removeprefix(HUB), hub["revision"]
        rows = load_dataset(name, hub["subset"], revision=revision, split=split, streaming=True)
    else:
        saved = load_from_disk(str(source))
        saved = saved[split] if isinstance(saved, DatasetDict) else saved
        # Nothing is decoded: a column of images may name addresses.
        rows = (row for table in saved.with_format("arrow").iter(BATCH) for row in table.to_pylist())
    yield from ((number, values, "") for number, values in enumerate(rows, 1))


def _is_dataset(source: Path) -> bool:
    return str(source).startswith(HUB) or any((source / name).is_file() for name in SAVED)


READERS: Mapping[str, Callable[[Path], Read]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".csv": _csv_rows,
    ".tsv": partial(_csv_rows, delimiter="\t"),
    ".parquet": _parquet_rows,
}


# Documents


def _document(row: Row, columns: Columns) -> tuple[dict[str, str], str]:
    """Return id, title, text and address of a row, and its fault; a title without text is the text."""
    if row.fault:
        return {}, row.fault
    values = {part: row.values.get(column) for part, column in columns.named.items()}
    number = values.pop("id", row.number)
    if isinstance(number, bool) or not isinstance(number, str | int) or not str(number).strip():
        return {}, f"expected an id under {columns.id!r}, got {quoted(number)}"
    other = next((part for part, value in values.items() if not isinstance(value, str | None)), None)
    if other:
        return {}, f"expected text under {columns.named[other]!r}, got {quoted(values[other])}"
    texts = {part: (values.get(part) or "").strip() for part in ("text", "title", "url")}
    return {"id": str(number), **texts, "text": texts["text"] or texts["title"]}, ""


def _chunks(document: Mapping[str, str], settings: IndexSettings) -> Iterator[Chunk]:
    """Cut a document; one that stays whole has its own id as the id of its chunk."""
    text = document["text"].replace("\r\n", "\n").replace("\r", "\n")
    page = Page(
        file_path="row",
        # It tells the chunks of documents with equal texts apart.
        source_url=document["id"],
        title=document["title"],
        text=text,
        sections=(PageSection(path=(), runs=(paragraphs(text),)),),
        origins=(),  # lines of a text that is itself a value of a row would name no place in a file
    )
    title = document["title"] or None
    own: dict[str, Any] = dict.fromkeys(("title", "heading", "section_path"), title)
    own |= {"source_url": document["url"] or None, "source_document_id": document["id"]}
    own |= dict.fromkeys(("module", "chapter", "file_path"))
    return (replace(chunk, **own) for chunk in chunk_page(page, count_tokens=count_tokens, **settings.named))
