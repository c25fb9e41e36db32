"""Datasets as corpora: rows of every format, documents of rows, and every fault with its line."""

import json
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from syrupy.assertion import SnapshotAssertion

from retrievers.config import IndexSettings
from retrievers.errors import IndexingError
from retrievers.indexing.pages import Corpus, read_corpus
from retrievers.indexing.rows import choose, is_table, read_rows, rows_of
from retrievers.records import Chunk
from tests.support.indexing import write_pages

ROWS = [{"_id": "1", "text": "Größe"}, {"_id": "2", "text": "two\nlines"}, {"_id": "3", "text": ""}]
NO_HUB: dict[str, str | None] = {"revision": None, "subset": None, "split": None}
BEIR: list[Any] = [
    {"_id": "d1", "title": "Arms", "text": "An arm has seven joints. Each has an encoder.", "metadata": {}},
    {"_id": "d2", "title": "", "text": "An arm has seven joints. Each has an encoder."},
    {"_id": 3, "title": "Only a title", "text": ""},
    {"_id": "d4", "title": " ", "text": "\n"},
]


def read(source: Path) -> list[tuple[int, dict[str, Any]]]:
    return [(row.number, dict(row.values)) for row in rows_of(source, NO_HUB)]


def corpus(folder: Path, rows: Sequence[Any], **columns: str) -> Corpus:
    file = folder / "corpus.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return read_rows(file, columns, NO_HUB)


def cut(rows: Corpus, **named: Any) -> list[Chunk]:
    return list(rows.cut(IndexSettings.model_validate(named).over(rows.defaults(named))))


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    lines = "\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbf_id,text\r\n1,Gr\xc3\xb6\xc3\x9fe\r\n2,"two\nlines"\r\n\r\n3,\r\n')
    (tmp_path / "a.tsv").write_text('_id\ttext\n1\tGröße\n2\t"two\nlines"\n\n3\t""\n', encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a[1].parquet")
    Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "saved"))
    assert read(tmp_path / "a.jsonl") == list(zip([1, 3, 5], ROWS, strict=True))
    assert read(tmp_path / "a.csv") == read(tmp_path / "a.tsv") == list(zip([2, 3, 6], ROWS, strict=True))
    assert read(tmp_path / "a[1].parquet") == read(tmp_path / "saved") == list(zip([1, 2, 3], ROWS, strict=True))


def test_a_folder_is_read_in_the_order_of_its_files_and_beirs_corpus_alone(tmp_path: Path) -> None:
    write_pages(tmp_path, {"b.jsonl": '{"text": "b"}', "a/x.csv": "text\na\n", "_c.jsonl": "{}", "image.png": ""})
    assert [values["text"] for _, values in read(tmp_path)] == ["a", "b"]
    write_pages(tmp_path, {"corpus.jsonl": '{"text": "c"}'})
    assert [values["text"] for _, values in read(tmp_path)] == ["c"]


def test_a_folder_of_pages_is_no_table_nor_is_a_pipe(tmp_path: Path) -> None:
    for number, (names, table) in enumerate(
        [("a.md b.jsonl", False), ("a.md corpus.jsonl", True), ("a.csv", True), ("a.html", False), ("", False)]
    ):
        files = dict.fromkeys([".keep", *names.split()], "x")
        assert is_table(write_pages(tmp_path / str(number), files)) is table
    os.mkfifo(tmp_path / "corpus.jsonl")
    assert not is_table(tmp_path / "corpus.jsonl")


FAULTS = {
    "no JSON.jsonl": b'{"text": "x"',
    "no object.jsonl": b'["text"]',
    "Latin.jsonl": b'{"text": "a"}\n{"text": "\xff"}',
    "too few fields.csv": b"text,b\n1,2\n1\n",
    "too many fields.csv": b"text\n1,2\n",
    "open quote.csv": b'text\n"x',
    "Latin.csv": b"text\nx\nGr\xf6\n",
    "no.parquet": b"no",
    "empty.jsonl": b"",
    "without text.jsonl": b'{"text": " "}',
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_read_says_why_and_where(tmp_path: Path, name: str, snapshot: SnapshotAssertion) -> None:
    (tmp_path / name).write_bytes(FAULTS[name])
    with pytest.raises(IndexingError) as caught:
        read_rows(tmp_path / name, {}, NO_HUB)
    assert str(caught.value).replace(f"{tmp_path}/", "") == snapshot


def test_a_saved_dataset_and_a_column_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(b"{}")
    with pytest.raises(IndexingError, match="cannot be read behind row or line 0: "):
        read(tmp_path)
    text = pa.array([b"ok", b"\xff\xfe"], type=pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    with pytest.raises(IndexingError, match=r"a\.parquet: cannot be read behind row or line 0: .*invalid start byte"):
        read(tmp_path / "a.parquet")


def test_columns_are_those_named_else_those_with_usual_names() -> None:
    assert choose({}, ["_id", "title", "text", "metadata"], "c") == {"id": "_id", "title": "title", "text": "text"}
    assert choose({}, ["docno", "Body", "LINK"], "c") == {"id": "docno", "text": "Body", "url": "LINK"}
    assert choose({}, ["id", "content", "body", "_id"], "c") == {"id": "_id", "text": "content"}
    named = {"text": "note", "id": "key"}
    assert choose(named, ["text", "note", "key", "id"], "c") == named
    with pytest.raises(IndexingError, match=r"c\.csv: no column 'txt' \(--text-column\); it has 'text'; did you mean"):
        choose({"text": "txt"}, ["text"], "c.csv")
    with pytest.raises(IndexingError, match="it has 'a', 'b': name it: --text-column"):
        choose({}, ["a", "b"], "c.csv")


# Documents


def test_a_document_is_one_chunk_under_its_own_id(tmp_path: Path) -> None:
    rows = corpus(tmp_path, BEIR)
    chunks = cut(rows)
    assert [(c.chunk_id, c.source_document_id, c.title, c.heading, c.indexed_text) for c in chunks] == [
        ("d1", "d1", "Arms", "Arms", f"Arms\n\n{BEIR[0]['text']}"),
        ("d2", "d2", None, None, BEIR[1]["text"]),
        ("3", "3", "Only a title", "Only a title", "Only a title\n\nOnly a title"),
    ]
    assert {(c.source_url, c.file_path, c.start_line, c.module) for c in chunks} == {(None, None, None, None)}
    assert rows.note == f"1 rows without text were left out, from {tmp_path}/corpus.jsonl:4 on"
    assert corpus(tmp_path, [dict(reversed(row.items())) for row in BEIR]).fingerprint == rows.fingerprint
    assert corpus(tmp_path, BEIR[:2]).fingerprint != rows.fingerprint


def test_documents_of_equal_texts_stay_apart_when_they_are_cut(tmp_path: Path) -> None:
    chunks = cut(corpus(tmp_path, BEIR[:2]), max_tokens=16, context="none")
    assert [c.source_document_id for c in chunks] == ["d1"] * (len(chunks) // 2) + ["d2"] * (len(chunks) // 2)
    assert len({c.point_id for c in chunks}) == len(chunks) >= 2
    assert " ".join(c.text for c in chunks if c.source_document_id == "d1") == BEIR[0]["text"]


def test_every_fault_is_named_with_its_line_at_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    rows = [*BEIR[:1], {"_id": "d1", "text": "again"}, {"_id": " ", "text": "x"}, {"_id": "d5", "text": ["x"]}, "x"]
    with pytest.raises(IndexingError) as caught:
        corpus(tmp_path, rows)
    assert [fault.replace(f"{tmp_path}/", "") for fault in caught.value.faults] == snapshot


def test_a_pipe_is_called_none_of_what_it_is_not(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(IndexingError, match="expected a folder of pages, found neither a folder nor a file"):
        read_corpus(tmp_path / "a.jsonl")


def test_a_long_line_is_cut_in_a_few_times_its_memory(tmp_path: Path) -> None:
    text = "word " * 100_000
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    corpus = read_rows(tmp_path / "a.jsonl", {}, NO_HUB)
    settings = IndexSettings(max_tokens=256).over(corpus.defaults({"max_tokens": 256}))
    next(corpus.cut(settings))  # the tokeniser is loaded
    tracemalloc.start()
    cut = [*corpus.cut(settings)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(cut) > 300 and most < 10 * len(text)
