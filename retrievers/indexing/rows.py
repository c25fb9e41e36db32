"""A dataset as a corpus: rows of JSON Lines, CSV, Parquet and Hugging Face datasets, each a document."""

import csv
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

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
PARQUET_BATCH = 512
# What `Dataset.save_to_disk` leaves in its folder.
SAVED = "state.json"
MOST_FAULTS = 50
# Rows without text that a note names.
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row: its values by column, or the fault of a row that cannot be read.

    Attributes:
        source: File, or name of the dataset.
        number: Line of the file on which it starts, from 1; of Parquet and of datasets the number of the row.
    """

    source: str
    number: int
    values: Mapping[str, Any]
    fault: str = ""

    @property
    def place(self) -> str:
        """Source and number, for messages."""
        return f"{self.source}:{self.number}"


def is_table(source: Path) -> bool:
    """Return True for a dataset, in place of a folder of pages."""
    if str(source).startswith(HUB):
        return True
    if source.is_file():
        return source.suffix.lower() in READERS
    pages = any(file.suffix.lower() in KINDS for file in source.rglob("*"))
    return _is_saved(source) or (source / BEIR).is_file() or (not pages and bool(table_files(source)))


def table_files(folder: Path) -> list[Path]:
    """Return the files of a folder of data: BEIR's `corpus.jsonl`, else all of its tables, in order; none in others."""
    beir = folder / BEIR
    if beir.is_file():
        return [beir]
    if not folder.is_dir() or _is_saved(folder):
        return []
    named = (f for f in folder.rglob("*") if f.suffix.lower() in READERS and not f.name.startswith((".", "_")))
    return sorted(file for file in named if file.is_file())


def rows_of(source: Path, hub: Mapping[str, str | None]) -> Iterator[Row]:
    """Read the rows of a file, of a folder, or of a dataset of the hub (`hub:OWNER/NAME`), in their order.

    Args:
        source: The dataset.
        hub: `revision`, `subset` and `split` of a dataset of the hub or of one that was saved to disk.

    Raises:
        IndexingError: It cannot be read.
    """
    if str(source).startswith(HUB) or _is_saved(source):
        return _dataset_rows(source, hub)
    files = [source] if source.is_file() else table_files(source)
    return chain.from_iterable(READERS[file.suffix.lower()](file) for file in files)


def _json_rows(file: Path) -> Iterator[Row]:
    with file.open("rb") as opened:
        for number, line in enumerate(iter(lambda: opened.readline(MOST_ROW_BYTES), b""), 1):
            if not line.strip():
                continue
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                values = load_json(text)
                if not isinstance(values, dict):
                    raise ValueError(f"expected an object with a value for each column, got {quoted(values)}")
                yield Row(source=str(file), number=number, values=values)
            except UnicodeDecodeError as error:
                fault = f"not UTF-8 (byte {error.start} of the line: {error.reason})"
                yield Row(source=str(file), number=number, values={}, fault=fault)
            except ValueError as error:
                yield Row(source=str(file), number=number, values={}, fault=str(error))


def _csv_rows(file: Path, delimiter: str = ",") -> Iterator[Row]:
    csv.field_size_limit(min(sys.maxsize, MOST_ROW_BYTES))
    with file.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.reader(opened, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            start = reader.line_num + 1
            for fields in reader:
                fault = "" if len(fields) == len(header) else f"{len(fields)} fields, but the header has {len(header)}"
                if fields:
                    values = dict(zip(header, fields, strict=False))
                    yield Row(source=str(file), number=start, values=values, fault=fault)
                start = reader.line_num + 1
        except csv.Error as error:
            raise IndexingError(f"{file}:{reader.line_num}: not valid CSV: {error}") from None
        except UnicodeDecodeError as error:
            raise IndexingError(
                f"{file}: not UTF-8 behind line {reader.line_num} ({error.reason}); convert it, for example: "
                "iconv -f LATIN1 -t UTF-8"
            ) from None


def _parquet_rows(file: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            number = 0
            for batch in table.iter_batches(batch_size=PARQUET_BATCH):
                for values in batch.to_pylist():
                    number += 1
                    yield Row(source=str(file), number=number, values=values)
    except UnicodeDecodeError as error:
        raise IndexingError(
            f"{file}: a column of text is not UTF-8 behind row {number} ({error.reason}: {error.object[:20]!r}); "
            "expected text in UTF-8"
        ) from None
    except pyarrow.ArrowException as error:
        raise IndexingError(f"{file}: cannot be read as Parquet: {error}") from error


def _dataset_rows(source: Path, hub: Mapping[str, str | None]) -> Iterator[Row]:
    for name in ("HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        os.environ.setdefault(name, "1")
    # It would count the download.
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    from datasets import DatasetDict, load_dataset, load_from_disk

    try:
        if str(source).startswith(HUB):
            name = str(source).removeprefix(HUB)
            split = hub["split"] or "train"
            rows = load_dataset(name, hub["subset"], revision=hub["revision"], split=split, streaming=True)
        else:
            rows = load_from_disk(str(source))
            if isinstance(rows, DatasetDict):
                rows = rows[hub["split"] or "train"]
            # Nothing is decoded: a column of images may name addresses.
            rows = (row for table in rows.with_format("arrow").iter(PARQUET_BATCH) for row in table.to_pylist())
        yield from _numbered(rows, str(source))
    except IndexingError:
        raise
    except Exception as error:  # its errors are of many libraries
        raise IndexingError(f"{source}: cannot be read: {type(error).__name__}: {error}") from error


def _numbered(rows: Iterable[Mapping[str, Any]], source: str) -> Iterator[Row]:
    return (Row(source=source, number=number, values=values) for number, values in enumerate(rows, 1))


def _is_saved(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (SAVED, "dataset_dict.json"))


READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".csv": _csv_rows,
    ".tsv": lambda file: _csv_rows(file, "\t"),
    ".parquet": _parquet_rows,
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
