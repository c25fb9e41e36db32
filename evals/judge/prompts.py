"""ragas' prompts, word for word, without building their schema and examples again for every question.

A prompt of ragas is the same text for every question but for the input at its end; the text before it takes ten times
as long to build as the rest.
"""

from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError
from ragas.prompt.metrics.base_prompt import BasePrompt

PROBE = "\N{INVERTED QUESTION MARK}"


class QuickPrompt:
    """Stands in for a prompt of ragas where a metric renders it."""

    def __init__(self, prompt: Any) -> None:
        self._prompt = prompt

    def to_string(self, data: BaseModel) -> str:
        """Return the prompt's own `to_string`."""
        kind: Any = type(self._prompt)
        around = _around(kind, type(data))
        if around is None:
            text: str = self._prompt.to_string(data)
            return text
        return around[0] + _as_json(data) + around[1]


def quicken(metric: Any) -> Any:
    """Let a metric of ragas render its prompts by `QuickPrompt`; returns the metric."""
    for name, value in vars(metric).items():
        if isinstance(value, BasePrompt):
            setattr(metric, name, QuickPrompt(value))
    return metric


@lru_cache(maxsize=64)
def _around(prompt: Any, data: type[BaseModel]) -> tuple[str, str] | None:
    """Return the texts before and after the input; None where more than the input differs between questions."""
    try:
        first, second = (data(**dict.fromkeys(data.model_fields, text)) for text in (PROBE, f"{PROBE} {PROBE}\n"))
    except ValidationError:  # not all that is put in is text
        return None
    rendered: str = prompt().to_string(first)
    before, example, after = rendered.rpartition(_as_json(first))
    same = example and before + _as_json(second) + after == prompt().to_string(second)
    return (before, after) if same else None


def _as_json(data: BaseModel) -> str:
    return data.model_dump_json(indent=4, exclude_none=True)
