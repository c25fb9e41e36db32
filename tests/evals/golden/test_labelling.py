"""Labels of people: read from saved pages and spreadsheets, and taken into cases."""

import csv
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evals.cases.case import Case
from evals.errors import DatasetError
from evals.golden.labelling import COLUMNS
from evals.golden.labels import Label, Labels, check_unchanged, contradictions, merged, read_labels

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def label(chunk: str = "a", grade: int | None = 2, annotator: str = "ada", **fields: Any) -> Label:
    known: dict[str, Any] = {"case": "q1", "asked": "x", "at": NOON, "depth": 10} | fields
    return Label(chunk=chunk, grade=grade, annotator=annotator, **known)


def labelled(labels: Sequence[Label]) -> Labels:
    return {(one.annotator, one.case, one.chunk): one for one in labels}


def test_labels_of_pages_and_spreadsheets_come_together_and_the_last_counts(tmp_path: Path) -> None:
    page = tmp_path / "ada.jsonl"
    given = [label(), label("b", 0, quotes=("ein Absatz\n„wörtlich“",), note="n", pool=("s",)), label(grade=1)]
    page.write_text("".join(one.model_dump_json(exclude_none=True) + "\n" for one in given))
    sheet = tmp_path / "bob.csv"
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        row = {"case": "q1", "query": "why?", "asked": "x", "depth": 10, "pool": "s t", "chunk_text": "'=1+1"}
        writer.writerow(row | {"chunk": "a", "grade": 3, "quotes": "first\nsecond"})
        writer.writerow(row | {"chunk": "b", "grade": ""})
    labels = read_labels([page, sheet], "bob")
    assert {key: one.grade for key, one in labels.items()} == {
        ("ada", "q1", "a"): 1, ("ada", "q1", "b"): 0, ("bob", "q1", "a"): 3
    }  # fmt: skip
    assert labels["ada", "q1", "b"] == given[1]
    assert (labels["bob", "q1", "a"].quotes, labels["bob", "q1", "a"].pool) == (("first", "second"), ("s", "t"))
    assert labels["bob", "q1", "a"].chunk_text == "=1+1", "a spreadsheet must not take it for a formula"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"case": "q1"}\n{no', ["a.jsonl:1: asked: this field is required", "a.jsonl:2: not valid JSON"]),
        (
            "a.csv",
            "case,chunk,asked,depth,grade\nq1,a,x,10,7\n",
            ["a.csv:2: grade: Input should be less"],
        ),
        ("a.csv", "case,chunk,asked,depth,grade\nq1,a,x,10,3\n", ["a.csv:2: annotator: must not be blank"]),
        ("a.csv", "case,chunk,asked,depth,grade\nq1,a,x,10,\n", ["a.csv: no label in them; label first"]),
        ("none.jsonl", None, ["none.jsonl: cannot be read"]),
    ],
)
def test_faults_of_labels_are_named_with_their_place(
    tmp_path: Path, name: str, text: str | None, said: list[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DatasetError) as caught:
        read_labels([tmp_path / name])
    assert all(one in str(caught.value) for one in said)


PAGE = "/docs/motors"
ASKED = hashlib.sha256(b"How fast?\x001,000 rpm.").hexdigest()[:16]
ROW: dict[str, Any] = {"id": "q1", "query": "How fast?", "reference_answer": "1,000 rpm.", "in_scope": True}


def case(**fields: Any) -> Case:
    return Case.model_validate(ROW | fields)


def given(chunk: str, grade: int | None, annotator: str = "ada", **fields: Any) -> Label:
    known = {"asked": ASKED, "chunk_text": f"Text of {chunk}.", "source_url": PAGE, "heading": "Speed"}
    return label(chunk, grade, annotator, **known | fields)


def test_graded_chunks_become_evidence_and_the_others_are_judged() -> None:
    kept = labelled([given("a", 3, quotes=("Text of",)), given("b", 1), given("c", 0), given("d", None)])
    changed = merged(case(), kept)
    assert changed["evidence"] == [
        {"source_url": PAGE, "heading": "Speed", "quote": "Text of", "grade": 3},
        {"source_url": PAGE, "heading": "Speed", "quote": "Text of b.", "grade": 1},
        {"source_url": PAGE, "heading": "Speed", "quote": "Text of c.", "grade": 0},
    ]
    assert changed["human_verdicts"] == {"a": 1, "b": 1, "c": 0}
    assert changed["labelling"] == {"by": ["ada"], "at": "2026-11-23T12:00:00+00:00", "pool": [], "depth": 10}
    assert Case.model_validate(ROW | changed).labelling is not None


def test_of_several_annotators_the_lower_median_counts_and_the_quotes_of_those_who_found_it_relevant() -> None:
    kept = labelled(
        [
            given("a", 3, quotes=("Text of",), at=NOON + timedelta(minutes=1), pool=("x",)),
            given("a", 2, "bob", quotes=("of  a", "Text   of"), pool=("y",)),
            given("b", 0), given("b", 1, "bob"),
        ]
    )  # fmt: skip
    changed = merged(case(), kept)
    passages = {(item["quote"], item["grade"]) for item in changed["evidence"]}
    assert passages == {("Text   of", 2), ("of  a", 2), ("Text of b.", 0)}
    assert changed["labelling"]["by"] == ["ada", "bob"]
    assert changed["labelling"]["pool"] == ["x", "y"] and changed["labelling"]["at"].startswith("2026-11-23T12:01")


def test_writing_twice_changes_nothing_and_another_grade_replaces_the_first() -> None:
    first = merged(case(), labelled([given("a", 3), given("b", 0)]))
    again = Case.model_validate(ROW | first)
    assert merged(again, labelled([given("a", 3), given("b", 0)])) == first
    other = merged(again, labelled([given("a", 1), given("b", 2)]))
    assert [(item["quote"], item["grade"]) for item in other["evidence"]] == [("Text of a.", 1), ("Text of b.", 2)]
    marked = merged(again, labelled([given("b", 2, quotes=("of b",))]))
    assert [(item["quote"], item["grade"]) for item in marked["evidence"]] == [("Text of a.", 3), ("of b", 2)]


def test_a_case_without_labels_stays() -> None:
    assert merged(case(), labelled([given("a", 3, case="q2")])) == {}
    assert merged(case(), labelled([given("a", None)])) == {}


def test_out_of_scope_gets_no_evidence_and_no_verdict() -> None:
    kept = labelled([given("a", 2), given("b", 0)])
    outside = case(in_scope=False)
    changed = merged(outside, kept)
    assert set(changed) == {"evidence", "labelling"}
    assert [(item["quote"], item["grade"]) for item in changed["evidence"]] == [("Text of b.", 0)]
    assert Case.model_validate(ROW | {"in_scope": False} | changed)
    assert contradictions(outside, kept) == ["q1: chunk a has grade 2, and the case is out of scope"]


def test_labels_against_the_golden_data_are_named() -> None:
    known = case(evidence=[{"source_url": PAGE, "quote": "Text  of a"}], relevant_ids={"b": 2})
    assert contradictions(known, labelled([given("a", 0), given("b", 0), given("c", 0)])) == [
        "q1: chunk a has grade 0, and holds the evidence “Text  of a”",
        "q1: chunk b has grade 0, and stands in relevant_ids",
    ]
    assert "relevant_ids" not in merged(known, labelled([given("b", 0)])), "it stays as it is"


def test_a_changed_case_refuses_all() -> None:
    check_unchanged([case()], labelled([given("a", 1)]))
    with pytest.raises(DatasetError) as refused:
        check_unchanged([case(query="How slow?")], labelled([given("a", 1), given("b", 1, case="gone")]))
    assert "q1: query or reference_answer changed after 1 of 1 labels were given" in str(refused.value)
    assert "gone: 1 labels, and no such case" in str(refused.value)
