"""The keys of a judge's verdicts."""

import json
from functools import cache
from importlib.metadata import version

from pydantic import BaseModel

from evals.judge.cache import verdict_key
from evals.judge.chat import Chat


class Keys:
    """Makes the keys under which a chat model's verdicts are kept."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._ragas = version("ragas")

    def key(self, prompt: str, schema: type[BaseModel]) -> bytes:
        """The key of a prompt's verdict."""
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
    """A response schema as JSON text."""
    return json.dumps(schema.model_json_schema(), sort_keys=True)
