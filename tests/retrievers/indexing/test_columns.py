"""Columns of a dataset: those that are named, else those with the usual names."""

import re

import pytest

from retrievers.errors import IndexingError
from retrievers.indexing.rows import Columns, choose


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (["_id", "title", "text", "metadata"], Columns(id="_id", title="title", text="text")),
        (["docno", "Body", "LINK"], Columns(id="docno", text="Body", url="LINK")),
        (["contents"], Columns(text="contents")),
    ],
)
def test_usual_names_need_no_setting(present: list[str], expected: Columns) -> None:
    assert choose(Columns(), present, "c.csv") == expected


def test_named_columns_come_first() -> None:
    assert choose(Columns(text="note", id="key"), ["text", "note", "key", "id"], "c.csv") == Columns(
        text="note", id="key"
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Columns(text="txt"), "c.csv: no column 'txt' (--text-column); it has 'text', 'id'; did you mean 'text'?"),
        (Columns(url="zzz"), "c.csv: no column 'zzz' (--url-column); it has 'text', 'id'"),
    ],
)
def test_a_missing_column_is_named_with_those_there_are(asked: Columns, message: str) -> None:
    with pytest.raises(IndexingError, match=f"^{re.escape(message)}$"):
        choose(asked, ["text", "id"], "c.csv")


def test_a_text_that_is_called_otherwise_has_to_be_named() -> None:
    with pytest.raises(IndexingError, match=r"it has 'a', 'b': name it: --text-column"):
        choose(Columns(), ["a", "b"], "c.csv")
