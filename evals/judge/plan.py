"""The cost of judging, counted without a call: the same questions to a judge that only counts."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from evals.judge.asking import Schema
from evals.judge.chat import Chat
from evals.judge.store import VerdictStore
from evals.judge.tasks import JUDGED, Task, grade
from retrievers.embedding.tokens import count_tokens

Prompts = Sequence[int | None]
"""Of each distinct question the tokens of its prompt, by the packaged tokenizer; None where the verdict is stored."""
# A blank answer of every schema: no question depends on the answer to another.
BLANK: dict[str, Any] = {"reason": "", "verdict": 0, "rating": 0, "entities": [], "classifications": []}


def counted(chat: Chat, store: VerdictStore, questions: Sequence[Task]) -> Mapping[str, Prompts]:
    """Return the prompts of each metric in questions to a model; what two metrics ask is counted with the first."""
    counting, shares = _Counting(chat, store), dict[str, Prompts]()

    async def ask(metric: str) -> None:
        for task in questions:
            if task.metric == metric:
                await grade(task, counting)

    for metric in JUDGED:
        before = len(counting.prompts)
        asyncio.run(ask(metric))
        if new := [*counting.prompts.values()][before:]:
            shares[metric] = new
    return shares


class _Counting:
    """A judge that counts the tokens of each prompt once, and gives blank answers.

    Attributes:
        prompts: Tokens of each prompt, by its key, in the order of asking; None where the verdict is stored.
    """

    def __init__(self, chat: Chat, store: VerdictStore) -> None:
        self._chat, self._store = chat, store
        self.prompts: dict[bytes, int | None] = {}

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        key = self._chat.key(prompt, schema)
        if key not in self.prompts:
            self.prompts[key] = None if self._store.get(key, schema, prompt) else count_tokens(prompt)
        return schema.model_validate({name: BLANK[name] for name in schema.model_fields})
