"""A model's text to a verdict: find the JSON, check it against its schema and the metric's values. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evals.judge.ask.answers import ModelAnswer

Schema = TypeVar("Schema", bound=BaseModel)
LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})
REFUSALS = frozenset({"refusal", "content_filter", "error_toxic", "safety", "sensitive"})
# First words of a model that refuses to answer.
PROSE_REFUSAL = re.compile(
    r"(i'?m|i am) (very |really |so |truly )?(sorry|afraid|unable|not able|not allowed)\b|sorry\b"
    r"|(unfortunately|regrettably),? i\b|(i|we) (can'?t|cannot|can not|won'?t|will not|must decline|apologi[sz]e)\b"
    r"|as an? (ai|language model|large language model)\b",
    re.IGNORECASE,
)
QUOTED = 160
# Number of braces without an object before the rest of a text is given up: each costs a pass over the text.
MOST_WRONG = 1000


class MalformedError(ValueError):
    """An answer that is no verdict.

    Attributes:
        type: `Truncated`, `Refusal`, `EmptyAnswer`, `NoJson`, `InvalidJson`, `WrongSchema` or `OutOfRange`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.type = kind


def read_verdict(answer: ModelAnswer, schema: type[Schema]) -> Schema:
    """Find the verdict in an answer: its last JSON object that fits the schema, within any text.

    Args:
        answer: Answer of the model.
        schema: The response model of ragas' metric.

    Raises:
        MalformedError: There is none, or its values are not those the metric allows.
    """
    finish = answer.finish.lower()
    if finish in REFUSALS:
        raise MalformedError("Refusal", f"the model refused to answer ({answer.finish}): {_quoted(answer.text)}")
    verdict: Schema | None = None
    wrong = ""
    for candidate in _objects(answer.text):
        try:
            verdict = schema.model_validate(candidate)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if verdict is None:
        raise _unreadable(answer, finish in LENGTH, wrong)
    if reason := outside(verdict):
        raise MalformedError("OutOfRange", reason)
    return verdict


def _unreadable(answer: ModelAnswer, cut: bool, wrong: str) -> MalformedError:
    text, quoted = " ".join(answer.text.split()), _quoted(answer.text)
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
    if PROSE_REFUSAL.match(text.replace("’", "'")):
        return MalformedError("Refusal", f"the model refused to answer: {quoted}")
    return MalformedError("NoJson", f"expected a JSON object, got prose: {quoted}")


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return repr(line[:QUOTED] + ("…" if len(line) > QUOTED else ""))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Find the outermost JSON objects in a text, in their order."""
    decoder, start, wrong = json.JSONDecoder(), text.find("{"), 0
    while start >= 0 and wrong < MOST_WRONG:
        try:
            value, end = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            end, wrong = start + 1, wrong + 1
        else:
            if isinstance(value, dict):
                yield value
        start = text.find("{", end)


def outside(verdict: BaseModel) -> str:
    """Name the value that the metric does not allow; empty when all are allowed."""
    allowed = {"verdict": (0, 1), "rating": (0, 1, 2)}
    for name, values in allowed.items():
        value = getattr(verdict, name, values[0])
        if value not in values:
            return f"{name} is {value}, expected one of {', '.join(map(str, values))}"
    claims = getattr(verdict, "classifications", None)
    if claims is not None and not claims:
        return "no statement of the reference was classified"
    for claim in claims or ():
        if claim.attributed not in (0, 1):
            return f"attributed is {claim.attributed} for {claim.statement[:60]!r}, expected 0 or 1"
    return ""
