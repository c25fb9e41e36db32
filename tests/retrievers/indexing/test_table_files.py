"""Rows of every kind of table, with the place of each."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from retrievers.errors import IndexingError
from retrievers.indexing.rows import is_table, rows_of
from tests.support.indexing import write_pages

ROWS = [{"_id": "1", "text": "Größe"}, {"_id": "2", "text": "two\nlines"}, {"_id": "3", "text": ""}]
NO_HUB: dict[str, str | None] = {"revision": None, "subset": None, "split": None}


def read(source: Path) -> list[tuple[int, dict[str, Any]]]:
    return [(row.number, dict(row.values)) for row in rows_of(source, NO_HUB)]


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    lines = "\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbf_id,text\r\n1,Gr\xc3\xb6\xc3\x9fe\r\n2,"two\nlines"\r\n3,\r\n')
    (tmp_path / "a.tsv").write_text('_id\ttext\n1\tGröße\n2\t"two\nlines"\n3\t""\n', encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "saved"))
    assert read(tmp_path / "a.jsonl") == list(zip([1, 3, 5], ROWS, strict=True))
    assert read(tmp_path / "a.csv") == read(tmp_path / "a.tsv") == list(zip([2, 3, 5], ROWS, strict=True))
    assert read(tmp_path / "a.parquet") == read(tmp_path / "saved") == list(zip([1, 2, 3], ROWS, strict=True))


def test_a_column_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    text = pa.array([b"ok", b"\xff\xfe"], type=pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    with pytest.raises(
        IndexingError, match=r"a\.parquet: a column of text is not UTF-8 behind row 0 \(invalid start byte"
    ):
        read(tmp_path / "a.parquet")


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    for name in ("corpus.jsonl", "b.csv"):
        os.mkfifo(tmp_path / name)
        assert not is_table(tmp_path / name)
    assert not is_table(tmp_path) and read(tmp_path) == []


def test_a_folder_is_read_in_the_order_of_its_files_and_beirs_corpus_alone(tmp_path: Path) -> None:
    write_pages(tmp_path, {"b.jsonl": '{"text": "b"}', "a/x.csv": "text\na\n", "_c.jsonl": "{}", "image.png": ""})
    assert [values["text"] for _, values in read(tmp_path)] == ["a", "b"]
    write_pages(tmp_path, {"corpus.jsonl": '{"text": "c"}'})
    assert [values["text"] for _, values in read(tmp_path)] == ["c"]


@pytest.mark.parametrize(
    ("files", "table"),
    [
        ({"a.md": "x", "b.jsonl": "{}"}, False),
        ({"a.md": "x", "corpus.jsonl": "{}"}, True),
        ({"a.csv": "x"}, True),
        ({"a.html": "x"}, False),
        ({}, False),
    ],
)
def test_a_folder_of_pages_is_no_table(tmp_path: Path, files: dict[str, str], table: bool) -> None:
    assert is_table(write_pages(tmp_path / "in", {".keep": "", **files})) is table


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.jsonl", b'{"text": "x"', "not valid JSON"),
        ("a.jsonl", b'["text"]', "expected an object with a value for each column"),
        ("a.jsonl", b'{"text": "\xff"}', "not UTF-8 (byte 10 of the line"),
        ("a.csv", b"a,b\n1\n", "1 fields, but the header has 2"),
    ],
)
def test_a_broken_row_says_why(tmp_path: Path, name: str, content: bytes, fault: str) -> None:
    (tmp_path / name).write_bytes(content)
    [row] = rows_of(tmp_path / name, NO_HUB)
    assert row.fault.startswith(fault)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.csv", b'a\n"x', r"a\.csv:2: not valid CSV: unexpected end of data"),
        ("a.csv", b"a\nx\nGr\xf6\n", r"not UTF-8 behind line \d .*iconv"),
        ("a.parquet", b"no", "cannot be read as Parquet"),
        ("state.json", b"{}", "cannot be read: "),
    ],
)
def test_a_broken_file_says_why(tmp_path: Path, name: str, content: bytes, fault: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(IndexingError, match=fault):
        list(rows_of(tmp_path if name == "state.json" else tmp_path / name, NO_HUB))
