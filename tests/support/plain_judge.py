"""The least that can stand between ragas' metrics and a model: prompts and answers pass through as they are."""

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from ragas.llms.base import InstructorBaseRagasLLM


class PlainJudge(InstructorBaseRagasLLM):  # type: ignore[misc]
    """A ragas LLM out of a function from prompt to answer, without repair, cache or limits."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self.ask = ask

    def generate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        return response_model.model_validate_json(self.ask(prompt))

    async def agenerate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        return await asyncio.to_thread(self.generate, prompt, response_model)


def scored(metric: Any, **values: Any) -> float:
    """Return the value that a metric of `ragas.metrics.collections` gives."""
    return float(asyncio.run(metric.ascore(**values)).value)
