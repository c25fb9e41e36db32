"""Reads the prompts of ragas' context metrics as a model reads them: which question is asked, and about what.

Nothing of ragas is imported: what counts is what the prompt says, and a prompt that says something else is not read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

SCHEMA = "complies with the following schema as specified in JSON Schema:"
INPUT = "Now perform the same with the following input\ninput:"


class Metric(Enum):
    """Which question a prompt asks."""

    PRECISION = "context precision"
    RECALL = "context recall"
    RELEVANCE = "context relevance"
    ENTITIES = "context entity recall"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Return the question of a prompt.

    Attributes:
        metric: Whose prompt it is.
        context: The chunk, or the chunks joined by line breaks; for entities the text they are extracted from.
        query: Empty for entities, whose prompt has none.
        reference: Empty for relevance and entities.
        judge: Which of the two judges of context relevance is asked, 1 or 2; 0 elsewhere.
    """

    metric: Metric
    context: str
    query: str = ""
    reference: str = ""
    judge: int = 0


BY_SCHEMA = MappingProxyType(
    {
        "ContextPrecisionOutput": Metric.PRECISION,
        "ContextRecallOutput": Metric.RECALL,
        "ContextRelevanceOutput": Metric.RELEVANCE,
        "EntitiesList": Metric.ENTITIES,
    }
)
"""The title of the schema that a prompt wants its answer in."""
JUDGES = MappingProxyType({1: "You are a world class expert", 2: "As a specially designed expert"})
FIELDS = MappingProxyType(
    {
        Metric.PRECISION: {"question": "query", "context": "context", "answer": "reference"},
        Metric.RECALL: {"question": "query", "context": "context", "answer": "reference"},
        Metric.RELEVANCE: {"user_input": "query", "context": "context"},
        Metric.ENTITIES: {"text": "context"},
    }
)


def read_prompt(text: str) -> Question | None:
    """Return the question of a prompt within an adapter's text; None if it is not from ragas."""
    metric = BY_SCHEMA.get(_json_after(text, SCHEMA).get("title", ""))
    given = _json_after(text, INPUT)
    if metric is None or set(given) != set(FIELDS[metric]):
        return None
    values = {FIELDS[metric][name]: value for name, value in given.items()}
    return Question(metric=metric, judge=_judge(text) if metric is Metric.RELEVANCE else 0, **values)


def _judge(text: str) -> int:
    instruction, _, _ = text.partition(SCHEMA)
    return next(number for number, opening in JUDGES.items() if opening in instruction)


def _json_after(text: str, mark: str) -> Mapping[str, Any]:
    """Return the JSON object that follows the mark; empty if there is none."""
    _, found, rest = text.partition(mark)
    try:
        value, _ = json.JSONDecoder().raw_decode(rest.lstrip()) if found else ({}, 0)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
