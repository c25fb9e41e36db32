"""Cases as records of MLflow and back; records that somebody else made."""

from typing import Any

import pytest

from evals.errors import DatasetError
from evals.golden.case import Case
from evals.golden.in_memory import golden_set
from evals.golden.mlflow_records import records_of, rows_of

FULL = {
    "id": "full",
    "query": "how far?",
    "reference_answer": "10 km",
    "evidence": [{"source_url": "/docs/a", "heading": "A", "quote": "ten kilometres", "grade": 3}],
    "relevant_ids": {"c1": 2, "c2": 0},
    "human_verdicts": {"c1": 1},
    "in_scope": True,
    "query_type": "factual",
    "expected_topics": ["distance"],
    "source_url_pattern": "^/docs",
    "min_results": 2,
    "tags": ["x"],
    "split": "test",
    "labelling": {"by": ["ada"], "at": "2026-11-23T12:00:00+00:00", "pool": ["hybrid"], "depth": 10},
}
OUT = {"id": "a-out", "query": "why?", "in_scope": False}
CASES = [Case.model_validate(FULL), Case.model_validate(OUT)]


def test_every_field_of_every_case_returns_in_its_place() -> None:
    assert FULL.keys() == Case.model_fields.keys()
    rows, skeletons = rows_of(records_of(CASES)[::-1])
    assert list(golden_set(rows).cases) == CASES
    assert skeletons == 0


def test_an_answer_that_was_edited_in_mlflow_is_the_answer() -> None:
    [record, _] = records_of(CASES)
    record["expectations"]["expected_response"] = "6 miles"
    assert rows_of([record])[0][0]["reference_answer"] == "6 miles"


@pytest.mark.parametrize(
    ("inputs", "expectations", "row"),
    [
        ({"question": "Who?"}, {"expected_response": "Ada"}, {"query": "Who?", "reference_answer": "Ada"}),
        ({"question": "Who?"}, {"expected_facts": ["A.", "B."]}, {"query": "Who?", "reference_answer": "A. B."}),
        ({"request_text": "Who?", "k": 5}, {}, {"query": "Who?"}),
        (
            {"messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "Who?"}]},
            {},
            {"query": "Who?"},
        ),
        (
            {"query": "Who?"},
            {"expected_retrieved_context": [{"content": "Ada did", "doc_uri": "/d"}, {"doc_uri": "/e"}]},
            {"query": "Who?", "evidence": [{"quote": "Ada did", "source_url": "/d"}]},
        ),
    ],
)
def test_records_of_others_become_skeletons(inputs: Any, expectations: Any, row: dict[str, Any]) -> None:
    rows, skeletons = rows_of([{"inputs": inputs, "expectations": expectations, "tags": {}}])
    assert rows == [{"id": "case-001"} | row]
    assert skeletons == ("evidence" not in row)


def test_cases_with_one_query_are_two_records_and_come_back() -> None:
    cases = [CASES[0], Case.model_validate(FULL | {"id": "b"})]
    records = records_of(cases)
    assert [record["inputs"] for record in records] == [{"query": "how far?"}, {"query": "how far?", "case_id": "b"}]
    rows, skeletons = rows_of(records)
    assert ([Case.model_validate(row) for row in rows], skeletons) == (cases, 0)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"inputs": {"k": 5, "deep": 2}}, "record 1: expected a question in inputs, got"),
        ({"inputs": {"query": "a"}, "expectations": {"golden_case": {"id": "x", "bad": 1}}}, "bad: unknown field"),
    ],
)
def test_a_record_that_is_no_case_is_refused(record: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        rows_of([record])
