"""The keys of a judge's verdicts."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

from evals.judge.ask.chat import Chat


class Keys:
    """Makes the keys under which a chat model's verdicts are kept."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._ragas = version("ragas")

    def key(self, prompt: str, schema: type[BaseModel]) -> bytes:
        """Return the key of a prompt's verdict."""
        return verdict_key(
            provider=self._chat.provider,
            model=self._chat.name,
            parameters=self._chat.parameters,
            prompt=prompt,
            schema=schema_text(schema),
            ragas=self._ragas,
        )


@cache
def schema_text(schema: type[BaseModel]) -> str:
    """Return a response schema as JSON text."""
    return json.dumps(schema.model_json_schema(), sort_keys=True)


def verdict_key(
    *, provider: str, model: str, parameters: Mapping[str, Any], prompt: str, schema: str, ragas: str
) -> bytes:
    """Return the key of a verdict, 32 bytes: a hash of everything that the answer depends on.

    Args:
        provider: Such as `cohere`.
        model: Name of the model.
        parameters: Sampling parameters, and the address if it is not the provider's own.
        prompt: The whole prompt.
        schema: The response schema as JSON.
        ragas: Version of ragas, whose prompt it is.
    """
    whole = json.dumps([provider, model, dict(parameters), prompt, schema, ragas], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()
