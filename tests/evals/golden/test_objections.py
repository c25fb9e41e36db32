"""The checks that need no model."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals.golden.prompts import DraftCase
from evals.golden.texts import copied_share
from evals.golden.writing import text_objection
from retrievers.records import Chunk

TEXT = (
    "Inverse kinematics searches the joint angles that put the gripper at a pose.\nIt has no solution for a pose out "
    "of reach, and several where the arm has more joints than the pose has coordinates."
)
PASSAGE = Chunk(chunk_id="ik", point_id="ik", text=TEXT)
OTHER = Chunk(chunk_id="topic", point_id="topic", text="A topic is a named channel between nodes of a robot.")
RIGHT = DraftCase(
    query="When can a robot arm reach a target in more than one way?",
    reference_answer="When it has more joints than the pose has coordinates.",
    quotes=["several where the arm has more joints  than the pose has coordinates"],
)


def objection(passages: tuple[Chunk, ...] = (PASSAGE,), **changes: Any) -> str:
    given = text_objection(RIGHT.model_copy(update=changes), passages, len(passages))
    return given.kind if given else ""


def test_a_right_query_has_none() -> None:
    assert objection() == ""


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("no query", {"query": " "}),
        ("no query", {"query": "why " * 61}),
        ("copies", {"query": "Which method searches the joint angles that put the gripper at a pose?"}),
        ("copies", {"query": TEXT.splitlines()[0].upper()}),
        ("quote", {"quotes": []}),
        ("quote", {"quotes": ["the joint"]}),
        ("quote", {"quotes": ["It has no solution for a target out of reach"]}),
        ("quote", {"quotes": [*RIGHT.quotes, "It has a solution"]}),
        ("unsupported", {"reference_answer": " "}),
    ],
)
def test_each_fault_is_objected_to(kind: str, changes: dict[str, Any]) -> None:
    assert objection(**changes) == kind


def test_a_comparison_needs_a_quote_of_each_passage() -> None:
    both = (PASSAGE, OTHER)
    assert objection(passages=both) == "quote"
    assert objection(passages=both, quotes=[*RIGHT.quotes, "a named channel between nodes"]) == ""


def test_the_share_of_copied_stretches_of_four_words() -> None:
    assert copied_share("one two three four five", "Zero one two, three four. Six") == 0.5
    assert copied_share("one two three", "one two three") == 0
    assert copied_share("什么是机器人", "机器人是什么") == 0
    assert copied_share("机器人是", "这里机器人是什么") == 1


def test_no_query_of_the_handbook_copies(handbook: Path) -> None:
    for line in (handbook / "golden.jsonl").read_text().splitlines():
        case = json.loads(line)
        assert all(copied_share(case["query"], evidence["quote"]) == 0 for evidence in case.get("evidence", []))
