"""Labels on disk: written before the next, by several at once, after a line cut short."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evals.errors import DatasetError
from evals.golden.labelling.labels import Label, LabelFile, standing

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def label(chunk: str = "a", grade: int | None = 2, annotator: str = "ada", **fields: Any) -> Label:
    known: dict[str, Any] = {"case": "q1", "asked": "x", "at": NOON, "depth": 10} | fields
    return Label(chunk=chunk, grade=grade, annotator=annotator, **known)


def test_a_label_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    file = LabelFile(tmp_path / "labels.jsonl")
    assert file.labels() == []
    whole = label(quotes=("ein Absatz\n„wörtlich“",), note="n", chunk_text="t", heading="h", pool=("s",))
    file.append(whole)
    file.append(label(grade=None))
    assert file.labels() == [whole, label(grade=None)]
    assert LabelFile(file.path).labels() == file.labels()


def test_the_last_label_counts_and_undoing_takes_it_back() -> None:
    lines = [label(), label(grade=1), label("b"), label("b", undone=True), label(annotator="bob", grade=0)]
    assert {key: kept.grade for key, kept in standing(lines).items()} == {
        ("ada", "q1", "a"): 1,
        ("bob", "q1", "a"): 0,
    }


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    names = ["ada", "bob"]

    def work(name: str) -> None:
        own = LabelFile(tmp_path / "labels.jsonl")
        for number in range(40):
            own.append(label(str(number), number % 4, name))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, names))
    kept = standing(LabelFile(tmp_path / "labels.jsonl").labels())
    assert set(kept) == {(name, "q1", str(number)) for name in names for number in range(40)}


def test_a_line_that_was_cut_short_is_left_out_and_the_next_label_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    LabelFile(file).append(label())
    file.write_text(file.read_text() + '{"case": "q1", "chu')
    assert LabelFile(file).labels() == [label()]
    other = LabelFile(file)
    other.append(label("b"))
    assert other.labels() == LabelFile(file).labels() == [label(), label("b")]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"case": "q1"}', r"labels.jsonl:2: expected a label, got asked: Field required"),
        ("[1]", r"labels.jsonl:2: expected a label"),
        (json.dumps(label().model_dump(mode="json") | {"grade": 4}), "grade: Input should be less than or equal to 3"),
        (json.dumps(label().model_dump(mode="json") | {"at": "2026-11-23T12:00:00"}), "at: Input should have timezone"),
    ],
)
def test_a_line_that_is_no_label_is_named(tmp_path: Path, line: str, fault: str) -> None:
    file = LabelFile(tmp_path / "labels.jsonl")
    file.append(label())
    file.path.write_text(file.path.read_text() + line + "\n")
    with pytest.raises(DatasetError, match=fault):
        file.labels()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="the label cannot be written"):
        LabelFile(tmp_path).append(label())
