"""Read a dataset as a corpus. Each row of JSON Lines or Parquet is a document."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from retrievers.config.files import load_json
from retrievers.errors import IndexingError
from retrievers.indexing.markdown import Page
from retrievers.indexing.pages import Corpus, text_page
from retrievers.text.shown import quoted

BEIR = "corpus.jsonl"
# Most bytes of one row.
MOST_ROW_BYTES = 64 * 2**20
BATCH = 512
MOST_FAULTS = 50
# The number of a row, and its values by column or the fault because of which it cannot be read. The number is that of
# the line in JSON Lines and that of the row in Parquet, from 1.
Row = tuple[int, "Mapping[str, Any] | ValueError"]


def read_rows(source: Path) -> Corpus:
    """Read the documents of a dataset: a file of JSON Lines or Parquet with the columns of BEIR.

    The column `text` is needed. The columns `_id` (or `id`), `title` and `url` are read if they exist.

    Raises:
        IndexingError: No row has text, an id is used twice, or rows cannot be read. Each fault names its line.
    """
    documents, places, empty, faults = list[Page](), dict[str, str](), list[str](), list[str]()
    digest = hashlib.sha256()
    for place, (number, values) in rows_of(source):
        try:
            if isinstance(values, ValueError):
                raise values
            document = _document(number, values)
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
        raise IndexingError(f"{source}: no row has text in a column 'text': rename yours so; nothing was changed")
    return Corpus(
        folder=source,
        pages=tuple(documents),
        fingerprint=digest.hexdigest(),
        note=f"{len(empty)} rows without text were left out, from {empty[0]} on" if empty else "",
        unit="documents",
    )


def table_of(source: Path) -> Path | None:
    """Return the file of a dataset, which is `corpus.jsonl` in a BEIR folder; None for a folder of pages."""
    file = source / BEIR if source.is_dir() else source
    return file if file.is_file() and file.suffix.lower() in READERS else None


def rows_of(file: Path) -> Iterator[tuple[str, Row]]:
    """Yield the place and the row for all rows of a file, in their order.

    Raises:
        IndexingError: The file cannot be read.
    """
    number = 0
    try:
        for number, values in READERS[file.suffix.lower()](file):
            yield f"{file}:{number}", (number, values)
    except Exception as error:  # each library has its own
        fault = f"{type(error).__name__}: {error}"
        raise IndexingError(f"{file}: cannot be read behind row or line {number}: {fault}") from error


# Readers


def json_rows(file: Path) -> Iterator[Row]:
    """Yield the objects of JSON Lines by the numbers of their lines, or why a line is none."""
    with file.open("rb") as opened:
        for number, line in enumerate(iter(lambda: opened.readline(MOST_ROW_BYTES), b""), 1):
            if line.strip():
                try:
                    values = load_json(line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\n"))
                    if not isinstance(values, dict):
                        raise ValueError(f"expected a JSON object, got {quoted(values)}")
                    yield number, values
                except ValueError as error:  # not UTF-8 is one too
                    yield number, error


def _parquet_rows(file: Path) -> Iterator[Row]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as table:
        rows = (row for batch in table.iter_batches(batch_size=BATCH) for row in batch.to_pylist())
        yield from enumerate(rows, 1)


READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": json_rows,
    ".ndjson": json_rows,
    ".parquet": _parquet_rows,
}


# Documents


def _document(number: int, row: Mapping[str, Any]) -> dict[str, str]:
    """Return the id, title, text and address of a row.

    If the column `text` is empty, the title is the text. If there is no id, the number of the row is the id.

    Raises:
        ValueError: A column has a value of another kind.
    """
    document_id = row.get("_id", row.get("id", number))
    if isinstance(document_id, bool) or not isinstance(document_id, str | int) or not str(document_id).strip():
        raise ValueError(f"expected an id, a text or a whole number, under '_id' or 'id', got {quoted(document_id)}")
    texts = {name: "" if row.get(name) is None else row[name] for name in ("text", "title", "url")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"expected text under {name!r}, got {quoted(value)}")
    text, title, url = (value.strip() for value in texts.values())
    # Without the column `text` the texts may be in another one: titles alone would be indexed without a word.
    return {"id": str(document_id), "text": text or (title if "text" in row else ""), "title": title, "url": url}


def _page(document: Mapping[str, str]) -> Page:
    """Make a page of a document. The document's id is the address, so that equal texts get different chunk ids."""
    title, url = document["title"], document["url"]
    facts = {"source_url": url or None, "title": title or None, "source_document_id": document["id"], "tags": ()}
    page = text_page(document["text"], "row", document["id"])
    # The text is the value of a row: its lines would name no place in a file.
    return replace(page, title=title, origins=(), row=facts)
