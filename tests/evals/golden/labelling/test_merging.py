"""Labels into cases: evidence, verdicts, origin; and what speaks against the golden data."""

from datetime import timedelta
from typing import Any

import pytest

from evals.errors import DatasetError
from evals.golden.case import Case
from evals.golden.commands.label_merging import check_unchanged, contradictions, merged
from evals.golden.labelling.labels import Label, asked, standing
from tests.evals.golden.labelling.test_labels import NOON, label

PAGE = "/docs/motors"
ROW: dict[str, Any] = {"id": "q1", "query": "How fast?", "reference_answer": "1,000 rpm.", "in_scope": True}


def case(**fields: Any) -> Case:
    return Case.model_validate(ROW | fields)


def given(chunk: str, grade: int | None, annotator: str = "ada", **fields: Any) -> Label:
    known = {"asked": asked(case()), "chunk_text": f"Text of {chunk}.", "source_url": PAGE, "heading": "Speed"}
    return label(chunk, grade, annotator, **known | fields)


def test_graded_chunks_become_evidence_and_the_others_are_judged() -> None:
    kept = standing([given("a", 3, quotes=("Text of",)), given("b", 1), given("c", 0), given("d", None)])
    changed = merged(case(), kept)
    assert changed["evidence"] == [
        {"source_url": PAGE, "heading": "Speed", "quote": "Text of", "grade": 3},
        {"source_url": PAGE, "heading": "Speed", "quote": "Text of b.", "grade": 1},
        {"source_url": PAGE, "heading": "Speed", "quote": "Text of c.", "grade": 0},
    ]
    assert changed["human_verdicts"] == {"a": 1, "b": 1, "c": 0}
    assert changed["labelling"] == {"by": ["ada"], "at": "2026-11-23T12:00:00+00:00", "pool": [], "depth": 10}
    assert Case.model_validate(ROW | changed).labelling is not None


def test_the_judges_question_alone_leaves_evidence_as_it_is() -> None:
    kept = standing([given("a", 3, quotes=("Text of",)), given("c", 0), given("d", None)])
    assert merged(case(human_verdicts={"e": 1}), kept, evidence=False) == {"human_verdicts": {"e": 1, "a": 1, "c": 0}}
    assert merged(case(reference_answer=None), kept, evidence=False) == {}


def test_of_several_annotators_the_lower_median_counts_and_the_quotes_of_those_who_found_it_relevant() -> None:
    kept = standing(
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
    first = merged(case(), standing([given("a", 3), given("b", 0)]))
    labelled = Case.model_validate(ROW | first)
    assert merged(labelled, standing([given("a", 3), given("b", 0)])) == first
    again = merged(labelled, standing([given("a", 1), given("b", 2)]))
    assert [(item["quote"], item["grade"]) for item in again["evidence"]] == [("Text of a.", 1), ("Text of b.", 2)]
    marked = merged(labelled, standing([given("b", 2, quotes=("of b",))]))
    assert [(item["quote"], item["grade"]) for item in marked["evidence"]] == [("Text of a.", 3), ("of b", 2)]


def test_a_case_without_labels_stays() -> None:
    assert merged(case(), standing([given("a", 3, case="q2")])) == {}
    assert merged(case(), standing([given("a", None)])) == {}


def test_out_of_scope_gets_no_evidence_and_no_verdict() -> None:
    kept = standing([given("a", 2), given("b", 0)])
    outside = case(in_scope=False)
    changed = merged(outside, kept)
    assert set(changed) == {"evidence", "labelling"}
    assert [(item["quote"], item["grade"]) for item in changed["evidence"]] == [("Text of b.", 0)]
    assert Case.model_validate(ROW | {"in_scope": False} | changed)
    assert contradictions(outside, kept) == ["q1: chunk a has grade 2, and the case is out of scope"]


def test_labels_against_the_golden_data_are_named() -> None:
    known = case(evidence=[{"source_url": PAGE, "quote": "Text  of a"}], relevant_ids={"b": 2})
    assert contradictions(known, standing([given("a", 0), given("b", 0), given("c", 0)])) == [
        "q1: chunk a has grade 0, and holds the evidence “Text  of a”",
        "q1: chunk b has grade 0, and stands in relevant_ids",
    ]
    assert "relevant_ids" not in merged(known, standing([given("b", 0)])), "it stays as it is"


def test_a_changed_case_refuses_all() -> None:
    check_unchanged([case()], standing([given("a", 1)]))
    with pytest.raises(DatasetError) as refused:
        check_unchanged([case(query="How slow?")], standing([given("a", 1), given("b", 1, case="gone")]))
    assert "q1: query or reference_answer changed after 1 of 1 labels were given" in str(refused.value)
    assert "gone: 1 labels, and no such case" in str(refused.value)
