import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evals.cases.case import Case

EVIDENCE = {"source_url": "/docs/a", "quote": "a quote"}
ANSWERED: dict[str, Any] = {"id": "a", "query": "q", "evidence": [EVIDENCE], "reference_answer": "yes"}
IN_SCOPE: dict[str, Any] = {"id": "a", "query": "q", "evidence": [EVIDENCE]}
OUT_OF_SCOPE: dict[str, Any] = {"id": "a", "query": "q", "in_scope": False}


def test_a_case_needs_only_id_query_and_what_is_relevant() -> None:
    case = Case.model_validate(IN_SCOPE)
    assert (case.in_scope, case.min_results, case.evidence[0].grade) == (True, 1, 1)
    assert (case.split, case.tags, case.expected_topics, case.relevant_ids) == (None, [], [], {})


@pytest.mark.parametrize(
    "row",
    [
        IN_SCOPE,
        OUT_OF_SCOPE,
        {"id": "a", "query": "q", "relevant_ids": {"x": 2, "y": 0, "z": -1}},
        {**IN_SCOPE, "evidence": [{"source_url": "/docs/a", "heading": "H"}]},
        {**OUT_OF_SCOPE, "relevant_ids": {"judged": 0}},
        {**IN_SCOPE, "query": " ".join(["w"] * 512)},
        {**IN_SCOPE, "query": "w" * 4_000},
        {**IN_SCOPE, "evidence": [{**EVIDENCE, "grade": 10}], "min_results": 100},
        {**ANSWERED, "human_verdicts": {"x": 1, "y": 0}},
        {**ANSWERED, "human_verdicts": {"x": 0}},
        {**ANSWERED, "human_verdicts": {}},
        {**OUT_OF_SCOPE, "human_verdicts": {}},
    ],
)
def test_accepted(row: dict[str, Any]) -> None:
    case = Case.model_validate(row).model_dump(exclude_unset=True)
    assert case == row


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**OUT_OF_SCOPE, "evidence": [EVIDENCE]}, "an out-of-scope case must not have evidence"),
        ({**OUT_OF_SCOPE, "relevant_ids": {"x": 1}}, "an out-of-scope case must not have evidence"),
        ({**IN_SCOPE, "query": ""}, "must not be blank"),
        ({**IN_SCOPE, "query": " \t\n"}, "must not be blank"),
        ({**IN_SCOPE, "id": " "}, "must not be blank"),
        ({**IN_SCOPE, "evidence": [{**EVIDENCE, "quote": " \n "}]}, "must not be blank"),
        ({**IN_SCOPE, "expected_topics": ["imu", " "]}, "must not be blank"),
        ({**IN_SCOPE, "query": " ".join(["w"] * 513)}, "is too long: 513 words and 1025 characters"),
        ({**IN_SCOPE, "query": "w" * 4_001}, "is too long: 1 words and 4001 characters"),
        ({**IN_SCOPE, "evidence": [{"grade": 2}]}, "needs a quote, a heading or the source_url of a page"),
        ({**IN_SCOPE, "evidence": [{**EVIDENCE, "grade": -1}]}, "greater than or equal to 0"),
        ({**IN_SCOPE, "evidence": [{**EVIDENCE, "grade": 11}]}, "less than or equal to 10"),
        ({**IN_SCOPE, "evidence": [{**EVIDENCE, "page": 3}]}, "Extra inputs are not permitted"),
        ({**IN_SCOPE, "querry": "q"}, "Extra inputs are not permitted"),
        ({**IN_SCOPE, "relevant_ids": {"x": True}}, "valid integer"),
        ({**IN_SCOPE, "source_url_pattern": "("}, "is not a regular expression of RE2's syntax"),
        (
            {**IN_SCOPE, "source_url_pattern": "(" * 5_000},
            "a regular expression of 5,000 characters",
        ),
        ({**IN_SCOPE, "source_url_pattern": "a{99999999999}"}, "repeats more than 1,000 times"),
        ({**ANSWERED, "human_verdicts": {"x": 2, "y": 1}}, "verdicts must be 1 (useful) or 0, got {'x': 2}"),
        ({**ANSWERED, "human_verdicts": {"x": -1}}, "verdicts must be 1 (useful) or 0"),
        ({**ANSWERED, "human_verdicts": {"x": True}}, "valid integer"),
        ({**ANSWERED, "human_verdicts": {"x": "1"}}, "valid integer"),
        ({**ANSWERED, "human_verdicts": {"x": None}}, "valid integer"),
        ({**ANSWERED, "human_verdicts": {" ": 1}}, "must not be blank"),
        ({**ANSWERED, "human_verdicts": ["x"]}, "valid dictionary"),
        ({**IN_SCOPE, "human_verdicts": {"x": 1}}, "human_verdicts need a reference_answer"),
        (
            {**OUT_OF_SCOPE, "reference_answer": "yes", "human_verdicts": {"x": 0}},
            "an out-of-scope case must not have human_verdicts",
        ),
        ({**IN_SCOPE, "min_results": 0}, "greater than or equal to 1"),
        ({**IN_SCOPE, "in_scope": "yes"}, "valid boolean"),
        ({**IN_SCOPE, "id": 7}, "valid string"),
    ],
)
def test_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        Case.model_validate(row)


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
passages = st.builds(
    lambda url, heading, quote, grade: {"source_url": url, "heading": heading, "quote": quote, "grade": grade},
    words,
    words,
    words,
    st.integers(1, 10),
)


@given(words, words, st.lists(passages, min_size=1, max_size=3), st.lists(words, max_size=3), st.integers(1, 100))
def test_a_case_survives_json(
    name: str, query: str, items: list[dict[str, Any]], topics: list[str], least: int
) -> None:
    case = Case.model_validate(
        {"id": name, "query": query, "evidence": items, "expected_topics": topics, "min_results": least}
    )
    assert Case.model_validate_json(case.model_dump_json()) == case


def test_the_documentation_names_every_field_and_its_example_is_valid() -> None:
    text = (Path(__file__).parents[3] / "docs" / "golden.md").read_text(encoding="utf-8")
    assert [name for name in Case.model_fields if f"`{name}`" not in text] == []
    [example] = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert Case.model_validate_json(example).human_verdicts


@pytest.mark.parametrize(
    ("changes", "unlabelled"),
    [
        ({}, False),
        ({"evidence": []}, True),
        ({"evidence": [], "relevant_ids": {"x": 0}}, True),
        ({"evidence": [], "relevant_ids": {"x": 1}}, False),
        ({"evidence": [{**EVIDENCE, "grade": 0}]}, True),
        ({"evidence": [], "in_scope": False}, False),
    ],
)
def test_a_case_without_anything_relevant_is_unlabelled_in_scope_alone(changes: Any, unlabelled: bool) -> None:
    assert Case.model_validate({**IN_SCOPE, **changes}).is_unlabelled is unlabelled
