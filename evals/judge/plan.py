"""The cost of judging, counted without a call: the same questions to a judge that only counts."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals.judge.asking import USUAL_ANSWER, Schema
from evals.judge.chat import Chat
from evals.judge.store import VerdictStore
from evals.judge.tasks import JUDGED, Task, grade
from retrievers.embedding.tokens import count_tokens

# A blank answer of every schema: no question depends on the answer to another.
BLANK: dict[str, Any] = {"reason": "", "verdict": 0, "rating": 0, "entities": [], "classifications": []}


@dataclass(frozen=True, slots=True)
class Share:
    """Calls of one metric, or of all.

    Attributes:
        prompts: Of each distinct question the tokens of its prompt, counted with the packaged tokenizer; None where
            the verdict is stored. A question that two metrics ask is counted with the first.
    """

    metric: str
    prompts: Sequence[int | None]

    @classmethod
    def total(cls, shares: "Sequence[Share]") -> "Share":
        """Return all metrics together."""
        return cls("all", [tokens for share in shares for tokens in share.prompts])

    @property
    def cached(self) -> int:
        """Number of questions whose verdict is stored."""
        return sum(tokens is None for tokens in self.prompts)

    @property
    def calls(self) -> int:
        """Calls that would be made."""
        return len(self.prompts) - self.cached

    @property
    def tokens_in(self) -> int:
        """Tokens of the prompts that would be sent."""
        return sum(tokens or 0 for tokens in self.prompts)

    @property
    def tokens_out(self) -> int:
        """Tokens of their answers, estimated."""
        return self.calls * USUAL_ANSWER


def counted(chat: Chat, store: VerdictStore, questions: Sequence[Task]) -> list[Share]:
    """Return the share of each metric in questions to a model, of which those in the store cost nothing."""
    counting, shares = _Counting(chat, store), list[Share]()

    async def ask(metric: str) -> None:
        for task in questions:
            if task.metric == metric:
                await grade(task, counting)

    for metric in JUDGED:
        before = len(counting.prompts)
        asyncio.run(ask(metric))
        if new := list(counting.prompts.values())[before:]:
            shares.append(Share(metric, new))
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
