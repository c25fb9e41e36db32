"""A dataset as a corpus: rows of JSON Lines, Parquet and Hugging Face datasets, each a document."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from retrievers.config.files import load_json
from retrievers.errors import IndexingError
from retrievers.indexing.markdown import Page
from retrievers.indexing.pages import KINDS, Corpus, text_page
from retrievers.text.shown import quoted

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
MOST_FAULTS = 50
# What `Dataset.save_to_disk` leaves in its folder.
SAVED = ("state.json", "dataset_dict.json")


# The number of a row and its values by column, or the fault of one that cannot be read. The number is that of the line
# on which it starts, from 1; of Parquet and of datasets that of the row.
Row = tuple[int, "Mapping[str, Any] | ValueError"]


def read_rows(source: Path) -> Corpus:
    """Read the documents of a dataset: a file of JSON Lines or Parquet, or a folder of them.

    Raises:
        IndexingError: No column holds the text, an id is used twice, or rows cannot be read; each with its line.
    """
    documents, places, empty, faults = list[Page](), dict[str, str](), list[str](), list[str]()
    columns, digest = dict[str, str](), hashlib.sha256()
    for place, (number, values) in rows_of(source):
        try:
            if isinstance(values, ValueError):
                raise values
            columns = columns or columns_of(list(values), str(source))
            document = _document(number, values, columns)
            if (first := places.setdefault(document["id"], place)) != place:
                raise ValueError(f"id {quoted(document['id'])} is used already at {first}")
        except ValueError as error:
            faults.append(f"{place}: {error}")
            if len(faults) == MOST_FAULTS:
                break
            continue
        if document["text"]:
            digest.update(repr(sorted(document.items())).encode())
            documents.append(_page(document))
        else:
            empty.append(place)
    if faults:
        raise IndexingError(f"{source}: rows cannot be indexed, nothing was changed:", faults)
    if not documents:
        raise IndexingError(f"{source}: holds no row with text; nothing was changed")
    return Corpus(
        folder=source,
        pages=tuple(documents),
        fingerprint=digest.hexdigest(),
        note=f"{len(empty)} rows without text were left out, from {empty[0]} on" if empty else "",
        unit="documents",
    )


def is_table(source: Path) -> bool:
    """Return True for a dataset, in place of a folder of pages."""
    files = table_files(source)
    pages = any(file.suffix.lower() in KINDS for file in source.rglob("*"))
    return bool(files) and (files[0] in (source, source / BEIR) or not pages)


def table_files(source: Path) -> list[Path]:
    """Return what a dataset is read from: itself, BEIR's `corpus.jsonl`, or all tables of a folder, in order."""
    if (source / BEIR).is_file():
        return [source / BEIR]
    named = [source] if source.is_file() else [file for file in source.rglob("*") if file.name[0] not in "._"]
    return sorted(file for file in named if file.suffix.lower() in READERS and file.is_file())


def rows_of(source: Path, revision: str | None = None, split: str | None = None) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file, of a folder, or of a Hugging Face dataset, in their order, each after its place.

    Args:
        source: The file or folder, which `Dataset.save_to_disk` may have written; or `hub:OWNER/NAME`.
        revision: Commit of a dataset of the hub.
        split: Split of a dataset of the hub.

    Raises:
        IndexingError: It cannot be read.
    """
    is_dataset = str(source).startswith(HUB) or (source / SAVED[0]).is_file()
    for file in [source] if is_dataset else table_files(source):
        number = 0
        try:
            rows = _dataset_rows(str(source), revision, split) if is_dataset else READERS[file.suffix.lower()](file)
            for number, values in rows:
                yield f"{file}:{number}", (number, values)
        except Exception as error:  # each library has its own
            said = f"{type(error).__name__}: {error}"
            raise IndexingError(f"{file}: cannot be read behind row or line {number}: {said}") from error


def columns_of(present: Sequence[str], source: str) -> dict[str, str]:
    """Return the columns of a dataset that hold the parts of a document: the first of the usual names of each.

    Raises:
        IndexingError: None could hold the text.
    """
    lower = {name.lower(): name for name in reversed(present)}
    # The likeliest name comes last, and so is the one that stays.
    columns = {part: lower[name] for part, names in USUAL.items() for name in reversed(names) if name in lower}
    if "text" not in columns:
        there = f"expected a column {' or '.join(USUAL['text'])}, found {', '.join(map(repr, present)) or 'none'}"
        raise IndexingError(f"{source}: {there}; rename the one that holds the text")
    return columns


# Readers


def _json_rows(file: Path) -> Iterator[Row]:
    with file.open("rb") as opened:
        for number, line in enumerate(iter(lambda: opened.readline(MOST_ROW_BYTES), b""), 1):
            if line.strip():
                try:
                    values = load_json(line.decode("utf-8-sig" if number == 1 else "utf-8"))
                    no_object = ValueError(f"expected an object by columns, got {quoted(values)}")
                    yield number, values if isinstance(values, dict) else no_object
                except ValueError as error:  # not UTF-8 is one too
                    yield number, error


def _parquet_rows(file: Path) -> Iterator[Row]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as table:
        yield from _numbered(table.iter_batches(batch_size=BATCH))


def _dataset_rows(source: str, revision: str | None, split: str | None) -> Iterator[Row]:
    # It would tell of its use, and count the download.
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
    os.environ.update(quiet | os.environ)
    from datasets import load_dataset, load_from_disk

    if source.startswith(HUB):
        rows = load_dataset(source.removeprefix(HUB), revision=revision, split=split, streaming=True)
    else:
        rows = load_from_disk(source)
    # Nothing is decoded: a column of images may name addresses.
    yield from _numbered(rows.with_format("arrow").iter(BATCH))


def _numbered(tables: Iterator[Any]) -> Iterator[Row]:
    return enumerate((row for table in tables for row in table.to_pylist()), 1)


READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".parquet": _parquet_rows,
}


# Documents


def _document(number: int, row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, str]:
    """Return id, title, text and address of a row; a title without text is the text, the number of the row its id.

    Raises:
        ValueError: It has a value of another kind.
    """
    values = {part: row.get(column) for part, column in columns.items()}
    document_id = values.pop("id", number)
    if isinstance(document_id, bool) or not isinstance(document_id, str | int) or not str(document_id).strip():
        raise ValueError(f"expected an id under {columns['id']!r}, got {quoted(document_id)}")
    for part, value in values.items():
        if not isinstance(value, str | None):
            raise ValueError(f"expected text under {columns[part]!r}, got {quoted(value)}")
    texts = {part: (values.get(part) or "").strip() for part in ("text", "title", "url")}
    return {"id": str(document_id), **texts, "text": texts["text"] or texts["title"]}


def _page(document: Mapping[str, str]) -> Page:
    """Return a document as a page; its id tells its chunks from those of equal texts, and is that of a whole one."""
    title, url = document["title"], document["url"]
    facts = {"source_url": url or None, "title": title or None, "source_document_id": document["id"], "tags": ()}
    page = text_page(document["text"], "row", document["id"])
    # Lines of a text that is itself a value of a row would name no place in a file.
    return replace(page, title=title, origins=(), row=facts)
