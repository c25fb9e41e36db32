"""A model's answer to a verdict: find the JSON, check it against its schema and the metric's values. Pure."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from retrievers.text.shown import without_secrets

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

Schema = TypeVar("Schema", bound=BaseModel)
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
REFUSALS = frozenset({"refusal", "content_filter", "error_toxic", "safety", "sensitive"})
QUOTED = 160
# Characters of a prompt's beginning that no answer holds by chance.
ECHO = 100
# Most characters of an object that may equal an example by chance.
LONG_OBJECT = 60
# What ragas writes before the inputs and outputs of its prompts.
SHOWN = re.compile(r"\b(?:input|output): ", re.IGNORECASE)
# Braces before the rest of a text is given up: each may cost a pass over it.
MOST_BRACES = 2000
# The values that a metric allows, by field.
ALLOWED = {"verdict": (0, 1), "rating": (0, 1, 2), "attributed": (0, 1)}


class MalformedError(ValueError):
    """An answer that is no verdict."""


def read_verdict(answer: "AIMessage", schema: type[Schema], prompt: str) -> Schema:
    """Return the verdict in an answer: its last JSON object that fits the schema, within any text.

    Args:
        answer: Answer of the model, or its refusal, which OpenAI sends in place of a text.
        schema: The response model of ragas' metric.
        prompt: The prompt, whose examples are no verdicts.

    Raises:
        MalformedError: There is none, or its values are not those the metric allows; the message says why.
    """
    metadata = {**answer.additional_kwargs, **answer.response_metadata}
    refusal = metadata.get("refusal")
    ends = [metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason")]
    end = "refusal" if refusal else str(next(filter(None, ends), "")).lower()
    # Without halves of characters, and without keys that it was asked with and quotes.
    written = without_secrets(str(refusal or answer.text).encode(errors="replace").decode())
    text = " ".join(written.split())
    quoted = repr(text[:QUOTED] + ("…" if len(text) > QUOTED else ""))
    if end in REFUSALS:
        raise MalformedError(f"the model refused to answer ({end}): {quoted}")
    if end in CUT:
        raise MalformedError(f"the answer was cut off at judge.max_output_tokens, it ends: {text[-60:]!r}")
    objects, examples = list(_objects(written)), _shown(prompt)
    copied = any(value in examples and len(json.dumps(value)) > LONG_OBJECT for value in objects)
    if copied or (len(prompt) > ECHO and " ".join(prompt.split())[:ECHO] in text):
        raise MalformedError(f"the answer repeats its prompt, or an example in it: {quoted}")
    verdict = None
    fault = f"expected a JSON object, got {quoted}" if text else "the answer is empty"
    for value in objects:
        try:
            # An escape may stand for half a character, which no file can hold.
            verdict = schema.model_validate_json(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            fault = f"{'.'.join(map(str, first['loc']))}: {first['msg']}; got {quoted}"
    if verdict is None:
        raise MalformedError(fault)
    return checked(verdict, prompt)


def checked(verdict: Schema, prompt: str) -> Schema:
    """Return a verdict whose values are all among those that the metric allows, on what its prompt asks about.

    Raises:
        MalformedError: One is not, or most statements are those of an example in place of the reference answer's.
    """
    claims = getattr(verdict, "classifications", None)
    if claims == []:
        raise MalformedError("no statement of the reference was classified")
    *examples, reference = [str(shown.get("answer", "")).casefold() for shown in _shown(prompt)] or [""]
    said = [claim.statement.strip().casefold() for claim in claims or ()]
    copied = [statement for statement in said if statement in " ".join(examples) and statement not in reference]
    if 2 * len(copied) > len(said):
        raise MalformedError(f"most statements are of an example in the prompt, such as {copied[0][:80]!r}")
    for judged in (verdict, *(claims or ())):
        for name, allowed in ALLOWED.items():
            if (value := getattr(judged, name, allowed[0])) not in allowed:
                raise MalformedError(f"{name} is {value!r:.60}, expected one of {', '.join(map(str, allowed))}")
    return verdict


def _shown(prompt: str) -> list[dict[str, Any]]:
    """Return inputs and outputs of a prompt's examples, and last its own input."""
    return [shown for part in SHOWN.split(prompt)[1:] for shown in islice(_objects(part), 1)]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in a text, in their order."""
    end = 0
    for brace in islice(re.finditer("{", text), MOST_BRACES):
        if brace.start() >= end:
            # Also an integer of more digits than Python converts is a ValueError.
            with suppress(ValueError, RecursionError):
                value, end = json.JSONDecoder().raw_decode(text, brace.start())
                yield value
