import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from evals.collect.observations import Failure, Unscored
from evals.report.document import document, plain_score, rows
from tests.support.results import GATES, result, without_scores

DOCUMENTED = Path(__file__).parents[3] / "docs" / "report.md"


@pytest.fixture
def made() -> dict[str, Any]:
    written = json.dumps(document(result()), allow_nan=False)
    loaded: dict[str, Any] = json.loads(written)
    return loaded


def row(made: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in made["queries"] if one["id"] == name)


def test_the_document_is_json_with_the_fields_that_its_description_names(made: dict[str, Any]) -> None:
    report, query = DOCUMENTED.read_text(encoding="utf-8").partition("## The schema")[0].split("A query:")
    for text, found in ((report, made), (query, made["queries"][0])):
        first_cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == set(found)


def test_a_run_passed_when_all_its_criteria_are_met(made: dict[str, Any]) -> None:
    assert made["passed"] is False
    assert document(result(gates=GATES[:1]))["passed"] is True
    assert document(result(gates=()))["passed"] is True
    assert made["criteria"][1] == {
        "metric": "content/topic_match", "condition": ">= 0.4", "figure": None, "passed": False,
        "reason": "no value: no topics", "undecided": False,
    }  # fmt: skip


def test_metrics_keep_all_digits_and_the_reason_for_a_missing_value(made: dict[str, Any]) -> None:
    assert made["metrics"]["ranking/precision_at_3"]["value"] == 1 / 6
    assert made["metrics"]["content/topic_match"] == {
        "value": None, "ci_low": None, "ci_high": None, "n": 0, "n_unscored": 2, "n_failed": 0, "n_missing": 0,
        "bound_low": None, "bound_high": None, "note": "the case names no topics",
    }  # fmt: skip


def test_a_row_says_what_was_returned_and_what_it_was_worth(made: dict[str, Any]) -> None:
    found = row(made, "right")
    assert [(hit["rank"], hit["score"], hit["chunk_id"], hit["grade"]) for hit in found["retrieved"]] == [
        (1, 0.9, "a", 2),
        (2, 0.5, "b", 0),
    ]
    assert found["retrieved"][0] == {
        "rank": 1, "score": 0.9, "chunk_id": "a", "source": "a.md:1-2", "breadcrumb": "m › Heading of a", "grade": 2,
        "preview": "text of a", "judge": None, "claims": None,
    }  # fmt: skip
    assert (found["relevant"], found["top_score"], found["best_below_threshold"]) == ({"a": 2, "c": 1}, 0.9, [])


def test_where_nothing_was_returned_the_three_best_candidates_are_shown(made: dict[str, Any]) -> None:
    found = row(made, "empty")
    assert found["retrieved"] == []
    assert [hit["chunk_id"] for hit in found["best_below_threshold"]] == ["d1", "d2", "d3"]


def test_a_row_has_the_scores_of_the_metrics_that_are_over_it(made: dict[str, Any]) -> None:
    assert row(made, "wrong")["scores"] == {"scope/abstention": 0.0}
    assert row(made, "empty")["scores"] == {
        "ranking/hit_rate_at_5": 0.0,
        "ragas/id_context_recall": {"failed": "ValueError: no contexts"},
        "content/topic_match": {"unscored": "the case names no topics"},
    }


def test_a_row_has_its_verdict(made: dict[str, Any]) -> None:
    found = row(made, "empty")
    assert found["outcome"] == "FAILURE"
    assert found["reasons"] == ["returned 0 chunks, expected at least 1", "and more", "and yet more"]
    assert (found["time_ms"], found["metadata_accuracy"], found["content_relevance"]) == (1.5, None, 0.0)


def test_rows_are_in_the_order_of_the_golden_data() -> None:
    assert [one["id"] for one in rows(result())] == ["right", "wrong", "empty"]


@pytest.mark.parametrize(
    ("score", "plain"),
    [
        (0.25, 0.25),
        (1, 1),
        (Unscored(reason="why"), {"unscored": "why"}),
        (Failure(type="Timeout", message="30 s"), {"failed": "Timeout: 30 s"}),
    ],
)
def test_a_score_is_a_number_or_says_why_there_is_none(score: Any, plain: Any) -> None:
    assert plain_score(score) == plain


def test_a_value_that_is_no_number_never_reaches_the_file() -> None:
    broken = document(result(scores={"ranking/hit_rate_at_5": {"right": math.nan}}))
    with pytest.raises(ValueError, match="not JSON compliant"):
        json.dumps(broken, allow_nan=False)


def test_what_a_retriever_without_scores_cannot_give_is_null() -> None:
    made = json.loads(json.dumps(document(without_scores()), allow_nan=False))
    found = row(made, "right")
    assert [hit["score"] for hit in found["retrieved"]] == [None, None]
    assert (found["top_score"], found["relevant"], found["relevant_complete"]) == (None, {"a": 2, "c": 1}, False)
    assert {one["relevant_complete"] for one in document(result())["queries"]} == {True}
    assert (made["facts"]["relevance"], made["facts"]["collection"]) == ("returned", None)
