"""From a model's answer to a verdict: find the JSON, and check its schema and values. Pure."""

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
# Reasons by which providers say that an answer was cut off, or refused.
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
REFUSALS = frozenset({"refusal", "content_filter", "error_toxic", "safety", "sensitive"})
# Most characters of an answer that a message quotes.
QUOTED = 160
# An answer that holds so many characters of the prompt's beginning repeats the prompt.
ECHO = 100
# An object of more characters that equals an example was copied from it.
LONG_OBJECT = 60
# The words that ragas writes before the inputs and outputs of the examples in its prompts.
EXAMPLE = re.compile(r"\b(?:input|output): ", re.IGNORECASE)
# Most braces at which an object is looked for: each may cost a pass over the text.
MOST_BRACES = 2000
# Field of an answer to the values that a metric allows.
ALLOWED = {"verdict": (0, 1), "rating": (0, 1, 2), "attributed": (0, 1)}


class MalformedError(ValueError):
    """An answer that is no verdict."""


def read_verdict(answer: "AIMessage", schema: type[Schema], prompt: str) -> Schema:
    """Return the verdict in an answer: the last JSON object that fits the schema. Text around it is ignored.

    Args:
        answer: Answer of the model, or its refusal, which OpenAI sends in place of a text.
        schema: The response model of ragas' metric.
        prompt: The prompt. An example in it is no verdict.

    Raises:
        MalformedError: There is no such object, or a value is not one that the metric allows. The message says why.
    """
    metadata = {**answer.additional_kwargs, **answer.response_metadata}
    refusal = metadata.get("refusal")
    ends = [metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason")]
    end = "refusal" if refusal else str(next(filter(None, ends), "")).lower()
    # What a model thinks is no answer: it may be a draft, or quote the prompt.
    given = str(refusal or answer.text).rpartition("</think>")[2]
    # Halves of characters are replaced, and an API key that the answer quotes is hidden.
    written = without_secrets(given.encode(errors="replace").decode())
    text = " ".join(written.split())
    quoted = repr(text[:QUOTED] + ("…" if len(text) > QUOTED else ""))
    if end in REFUSALS:
        raise MalformedError(f"the model refused to answer ({end}): {quoted}")
    if end in CUT:
        raise MalformedError(f"the answer was cut off at judge.max_output_tokens, it ends: {text[-60:]!r}")
    objects, examples = list(_objects(written)), _examples(prompt)
    copied = any(value in examples and len(json.dumps(value)) > LONG_OBJECT for value in objects)
    if copied or (len(prompt) > ECHO and " ".join(prompt.split())[:ECHO] in text):
        raise MalformedError(f"the answer repeats its prompt, or an example in it: {quoted}")
    verdict = None
    fault = f"expected a JSON object, got {quoted}" if text else f"the answer is empty ({end or 'no reason was given'})"
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
    """Return a verdict after checking that its values are allowed, and that it is about the prompt's own input.

    Raises:
        MalformedError: A value is not allowed, or most statements are of an example and not of the reference answer.
    """
    claims = getattr(verdict, "classifications", None)
    if claims == []:
        raise MalformedError("no statement of the reference was classified")
    if claims:
        *examples, reference = [str(example.get("answer", "")).casefold() for example in _examples(prompt)] or [""]
        statements = [claim.statement.strip().casefold() for claim in claims]
        copied = [text for text in statements if text in " ".join(examples) and text not in reference]
        if 2 * len(copied) > len(statements):
            raise MalformedError(f"most statements are of an example in the prompt, such as {copied[0][:80]!r}")
    for judged in (verdict, *(claims or ())):
        for name, allowed in ALLOWED.items():
            if (value := getattr(judged, name, allowed[0])) not in allowed:
                raise MalformedError(f"{name} is {value!r:.60}, expected one of {', '.join(map(str, allowed))}")
    return verdict


def _examples(prompt: str) -> list[dict[str, Any]]:
    """Return the inputs and outputs of the examples in a prompt, and last the input that it asks about."""
    return [example for text in EXAMPLE.split(prompt)[1:] for example in islice(_objects(text), 1)]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of a text, in their order."""
    end = 0
    for brace in islice(re.finditer("{", text), MOST_BRACES):
        if brace.start() >= end:
            # Models break lines within texts. An integer of more digits than Python converts is a ValueError as well.
            with suppress(ValueError, RecursionError):
                value, end = json.JSONDecoder(strict=False).raw_decode(text, brace.start())
                yield value
