"""What datasets and pages of other programs have, and what is said of it."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from retrievers.config import IndexSettings
from retrievers.errors import IndexingError
from retrievers.indexing.pages import read_corpus
from retrievers.indexing.rows import read_rows

NO_HUB: dict[str, str | None] = {"revision": None, "subset": None, "split": None}


def test_whole_floats_are_ids_and_columns_that_are_not_stored_are_named_once(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1.0, "text": "a", "lang": "de", "n": null}\n{"id": 2.0, "text": "b", "lang": "en"}\n')
    corpus = read_rows(file, {}, NO_HUB)
    assert [page.row["source_document_id"] for page in corpus.pages if page.row] == ["1", "2"]
    assert corpus.notes == ("columns that are not stored: 'lang' (a document has id, title, text and url)",)
    file.write_text('{"id": 1.5, "text": "a"}\n')
    with pytest.raises(IndexingError, match=r"expected an id under 'id', got 1\.5"):
        read_rows(file, {}, NO_HUB)


def test_another_separator_than_that_of_the_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;text\n1;hello\n")
    with pytest.raises(IndexingError, match=r"as if fields were separated by ';'; separate them by ',' in a \.csv"):
        read_rows(tmp_path / "a.csv", {}, NO_HUB)


def test_a_pipe_is_called_none_of_what_it_is_not(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(IndexingError, match="expected a folder of pages, found neither a folder nor a file"):
        read_corpus(tmp_path / "a.jsonl")


def test_a_single_tag_is_to_be_a_list(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ntags: one\n---\n\nText.\n")
    assert read_corpus(tmp_path).broken == {"a.md": "front matter: tags: Input should be a valid list, got 'one'"}


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
