"""Kept queries as lines of a golden file. Pure."""

from collections.abc import Sequence
from typing import Any

from evals.golden.synthesis.answers import DraftCase
from evals.golden.synthesis.case_writing import Attempt
from evals.golden.synthesis.objections import holder
from retrievers.records import Chunk

# Grade of a passage that answers.
GRADE = 3
TAG = "synthetic"


def written_cases(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the kept queries as rows of a golden file, in their order."""
    return [_row(attempt) for attempt in attempts if attempt.kept]


def _row(attempt: Attempt) -> dict[str, Any]:
    assignment, draft = attempt.assignment, attempt.draft
    assert draft is not None
    row: dict[str, Any] = {"id": assignment.id, "query": draft.query.strip()}
    if isinstance(draft, DraftCase):
        row["reference_answer"] = draft.reference_answer.strip()
        row["evidence"] = [_evidence(quote, assignment.passages) for quote in dict.fromkeys(draft.quotes)]
    return row | {
        "in_scope": assignment.type.in_scope,
        "query_type": assignment.type_name,
        "tags": [TAG],
        "split": assignment.split,
    }


def _evidence(quote: str, passages: Sequence[Chunk]) -> dict[str, Any]:
    chunk = holder(quote, passages)
    assert chunk is not None
    evidence = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote.strip(), "grade": GRADE}
    return {name: value for name, value in evidence.items() if value}
