"""Datasets as corpora: documents of rows, whole or cut, and every fault of a row with its line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from retrievers.config import IndexSettings
from retrievers.errors import IndexingError
from retrievers.indexing.rows import Columns, RowCorpus
from retrievers.records import Chunk

BEIR: list[Any] = [
    {"_id": "d1", "title": "Arms", "text": "An arm has seven joints. Each has an encoder.", "metadata": {}},
    {"_id": "d2", "title": "", "text": "An arm has seven joints. Each has an encoder."},
    {"_id": 3, "title": "Only a title", "text": ""},
    {"_id": "d4", "title": " ", "text": "\n"},
]


def corpus(folder: Path, rows: Sequence[Any], **columns: str) -> RowCorpus:
    file = folder / "corpus.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return RowCorpus(file, Columns(**columns), {})


def cut(rows: RowCorpus, **named: Any) -> list[Chunk]:
    named = {"splitter": "whole", "context": "title"} | named
    return list(rows.cut(IndexSettings.model_validate(named).over({})))


def test_a_document_is_one_chunk_under_its_own_id(tmp_path: Path) -> None:
    rows = corpus(tmp_path, BEIR)
    chunks = cut(rows)
    assert [(c.chunk_id, c.source_document_id, c.title, c.indexed_text) for c in chunks] == [
        ("d1", "d1", "Arms", f"Arms\n\n{BEIR[0]['text']}"),
        ("d2", "d2", None, BEIR[1]["text"]),
        ("3", "3", "Only a title", "Only a title\n\nOnly a title"),
    ]
    assert {(c.source_url, c.file_path, c.start_line, c.module) for c in chunks} == {(None, None, None, None)}
    assert (rows.count, rows.notes) == (3, (f"1 rows without text were left out: {tmp_path}/corpus.jsonl:4",))


def test_documents_of_equal_texts_stay_apart_when_they_are_cut(tmp_path: Path) -> None:
    chunks = cut(corpus(tmp_path, BEIR[:2]), splitter="sections", max_tokens=16, context="none")
    assert [c.source_document_id for c in chunks] == ["d1"] * (len(chunks) // 2) + ["d2"] * (len(chunks) // 2)
    assert len({c.point_id for c in chunks}) == len(chunks) >= 2
    assert " ".join(c.text for c in chunks if c.source_document_id == "d1") == BEIR[0]["text"]


def test_columns_may_have_any_name_and_rows_no_id(tmp_path: Path) -> None:
    rows = corpus(tmp_path, [{"note": "One.", "web": "https://x.example/1"}, {"note": "Two."}], text="note", url="web")
    assert [(c.chunk_id, c.source_url, c.source) for c in cut(rows)] == [
        ("1", "https://x.example/1", "https://x.example/1"),
        ("2", None, "2"),
    ]


def test_the_fingerprint_is_that_of_the_documents(tmp_path: Path) -> None:
    def of(rows: Sequence[Any]) -> str:
        read = corpus(tmp_path, rows)
        cut(read)
        return read.fingerprint

    assert of(BEIR) == of([dict(reversed(row.items())) for row in BEIR])
    assert of(BEIR) != of([*BEIR[:2], {"_id": 3, "title": "Another", "text": ""}])


def test_every_fault_is_named_with_its_line_at_once(tmp_path: Path) -> None:
    rows = [*BEIR[:1], {"_id": "d1", "text": "again"}, {"_id": " ", "text": "x"}, {"_id": "d5", "text": ["x"]}, "x"]
    with pytest.raises(IndexingError) as caught:
        cut(corpus(tmp_path, rows))
    file = tmp_path / "corpus.jsonl"
    head, *faults = str(caught.value).split("\n")
    assert head == f"{file}: rows cannot be indexed, nothing was changed:"
    assert [fault.strip() for fault in faults] == [
        f"{file}:2: id 'd1' is used already at {file}:1",
        f"{file}:3: expected an id under '_id', got ' '",
        f"{file}:4: expected text under 'text', got ['x']",
        f"{file}:5: expected an object with a value for each column, got 'x'",
    ]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "holds no row"),
        (BEIR[3:], "no row has text in column 'text'"),
        (["x"], r"jsonl:1: expected an object"),
    ],
)
def test_a_dataset_without_documents_says_so(tmp_path: Path, rows: Sequence[Any], reason: str) -> None:
    with pytest.raises(IndexingError, match=reason):
        cut(corpus(tmp_path, rows))
