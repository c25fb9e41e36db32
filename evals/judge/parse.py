"""A model's text to a verdict: JSON found, held against its schema and against the values the metric allows. Pure."""

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evals.judge.chat import Answer

Schema = TypeVar("Schema", bound=BaseModel)
LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})
REFUSALS = frozenset({"refusal", "content_filter", "error_toxic", "safety", "sensitive"})
QUOTED = 160


class MalformedError(ValueError):
    """An answer that is no verdict.

    Attributes:
        type: `Truncated`, `Refusal`, `EmptyAnswer`, `NoJson`, `InvalidJson`, `WrongSchema` or `OutOfRange`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.type = kind


def read_verdict(answer: Answer, schema: type[Schema]) -> Schema:
    """The verdict in an answer: its last JSON object that fits the schema, whatever stands around it.

    Args:
        answer: What the model said.
        schema: The response model of ragas' metric.

    Raises:
        MalformedError: There is none, or its values are not those the metric allows.
    """
    finish = answer.finish.lower()
    if finish in REFUSALS:
        raise MalformedError("Refusal", f"the model refused to answer ({answer.finish})")
    found: Schema | None = None
    wrong = ""
    for candidate in _objects(answer.text):
        try:
            found = schema.model_validate(candidate)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if found is None:
        raise _unreadable(answer, finish in LENGTH, wrong)
    outside = _outside(found)
    if outside:
        raise MalformedError("OutOfRange", outside)
    return found


def _unreadable(answer: Answer, cut: bool, wrong: str) -> MalformedError:
    text = " ".join(answer.text.split())
    quoted = repr(text[:QUOTED] + ("…" if len(text) > QUOTED else ""))
    if cut:
        return MalformedError(
            "Truncated", f"the answer was cut at its token limit (judge.max_output_tokens), it ends: {text[-60:]!r}"
        )
    if not text:
        return MalformedError("EmptyAnswer", "the answer is empty")
    if wrong:
        return MalformedError("WrongSchema", f"{wrong}; got {quoted}")
    if "{" in text:
        return MalformedError("InvalidJson", f"the answer holds no whole JSON object: {quoted}")
    return MalformedError("NoJson", f"expected a JSON object, got prose: {quoted}")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, in their order."""
    decoder, place = json.JSONDecoder(), text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (json.JSONDecodeError, RecursionError):
            end = place + 1
        else:
            if isinstance(value, dict):
                yield value
        place = text.find("{", end)


def _outside(found: BaseModel) -> str:
    """What is not a value the metric allows, empty when all are."""
    allowed = {"verdict": (0, 1), "rating": (0, 1, 2)}
    for name, values in allowed.items():
        value = getattr(found, name, values[0])
        if value not in values:
            return f"{name} is {value}, expected one of {', '.join(map(str, values))}"
    claims = getattr(found, "classifications", None)
    if claims is not None and not claims:
        return "no statement of the reference was classified"
    for claim in claims or ():
        if claim.attributed not in (0, 1):
            return f"attributed is {claim.attributed} for {claim.statement[:60]!r}, expected 0 or 1"
    return ""
