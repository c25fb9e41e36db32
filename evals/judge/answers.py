"""A model's message to a verdict: find the JSON, check it against its schema and the metric's values. Pure."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from retrievers.net.faults import causes
from retrievers.text.secrets import without_secrets

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

Schema = TypeVar("Schema", bound=BaseModel)
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
REFUSALS = frozenset({"refusal", "content_filter", "error_toxic", "safety", "sensitive"})
QUOTED = 160
# Characters of a prompt's beginning that no answer holds by chance, and of an object that equals another by chance.
ECHO, LONG_OBJECT = 100, 60
# What ragas writes before the inputs and outputs of its prompts.
SHOWN = re.compile(r"\b(?:input|output): ", re.IGNORECASE)
# Number of braces without an object before the rest of a text is given up: each costs a pass over the text.
MOST_WRONG = 1000
# The values that a metric allows, by field.
ALLOWED = {"verdict": (0, 1), "rating": (0, 1, 2), "attributed": (0, 1)}


class MalformedError(ValueError):
    """An answer that is no verdict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Answer of a model: its text, its stop reason, and its token counts (as the server gives them, if it does).

    A model may quote a key that it was shown or asked with: secrets are hidden in the text from here on.
    """

    text: str
    finish: str = ""
    tokens_in: Any = None
    tokens_out: Any = None

    def __post_init__(self) -> None:
        """Hide secrets."""
        object.__setattr__(self, "text", without_secrets(self.text))


def read_message(message: "BaseMessage") -> Answer:
    """Return text, stop reason and usage of a LangChain message."""
    usage = getattr(message, "usage_metadata", None) or {}
    metadata = {**message.additional_kwargs, **message.response_metadata}
    finish = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason") or ""
    # OpenAI sends a refusal in place of a text.
    refusal = metadata.get("refusal")
    return Answer(
        text=str(refusal or message.text),
        finish="refusal" if refusal else str(finish),
        tokens_in=usage.get("input_tokens"),
        tokens_out=usage.get("output_tokens"),
    )


def read_early_end(error: BaseException) -> Answer | None:
    """Return the cut or filtered answer that openai's client hides in an error; None for any other error."""
    for cause in causes(error):
        if type(cause).__name__ == "ContentFilterFinishReasonError":
            return Answer(text="", finish="content_filter")
        if type(cause).__name__ == "LengthFinishReasonError":
            completion: Any = getattr(cause, "completion", None)
            text = next((choice.message.content or "" for choice in getattr(completion, "choices", ())), "")
            usage = getattr(completion, "usage", None)
            read, written = (getattr(usage, f"{kind}_tokens", None) for kind in ("prompt", "completion"))
            return Answer(text=text, finish="length", tokens_in=read, tokens_out=written)
    return None


def read_verdict(answer: Answer, schema: type[Schema], prompt: str = "") -> Schema:
    """Find the verdict in an answer: its last JSON object that fits the schema, within any text.

    Args:
        answer: Answer of the model.
        schema: The response model of ragas' metric.
        prompt: The prompt, whose examples are no verdicts.

    Raises:
        MalformedError: There is none, or its values are not those the metric allows; the message says why.
    """
    text = " ".join(answer.text.split())
    quoted = repr(text[:QUOTED] + ("…" if len(text) > QUOTED else ""))
    if answer.finish.lower() in REFUSALS:
        raise MalformedError(f"the model refused to answer ({answer.finish}): {quoted}")
    if answer.finish.lower() in CUT:
        raise MalformedError(
            f"the answer was cut at its token limit (judge.max_output_tokens), it ends: {text[-60:]!r}"
        )
    candidates, verdict, wrong = list(_objects(answer.text)), None, ""
    shown = [one for part in SHOWN.split(prompt)[1:] for one in islice(_objects(part), 1)]
    copied = (candidate in shown and len(json.dumps(candidate)) > LONG_OBJECT for candidate in candidates)
    if (len(prompt) > ECHO and " ".join(prompt.split())[:ECHO] in text) or any(copied):
        raise MalformedError(f"the answer repeats its prompt, or an example in it: {quoted}")
    for candidate in candidates:
        try:
            verdict = schema.model_validate(candidate)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}; got {quoted}"
    if verdict is None:
        raise MalformedError(wrong or (f"expected a JSON object, got {quoted}" if text else "the answer is empty"))
    if reason := outside(verdict):
        raise MalformedError(reason)
    return verdict


def outside(verdict: BaseModel) -> str:
    """Name the value that the metric does not allow; empty when all are allowed."""
    claims = getattr(verdict, "classifications", None)
    if claims is not None and not claims:
        return "no statement of the reference was classified"
    for part in (verdict, *(claims or ())):
        of_statement = f" for {part.statement[:60]!r}" if claims and part is not verdict else ""
        for name, values in ALLOWED.items():
            value = getattr(part, name, values[0])
            if value not in values:
                return f"{name} is {value!r:.60}{of_statement}, expected one of {', '.join(map(str, values))}"
    return ""


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Find the outermost JSON objects in a text, in their order."""
    decoder, start, wrong = json.JSONDecoder(), text.find("{"), 0
    while start >= 0 and wrong < MOST_WRONG:
        try:
            value, end = decoder.raw_decode(text, start)
        # ValueError also for an integer of more digits than Python converts.
        except (ValueError, RecursionError):
            end, wrong = start + 1, wrong + 1
        else:
            if isinstance(value, dict):
                yield value
        start = text.find("{", end)
