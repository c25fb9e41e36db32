"""The cost of judging, counted without a call: the same questions to a judge that only counts."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evals.config.judge import BudgetConfig, JudgeConfig, Sample
from evals.judge.asking import USUAL_ANSWER, Schema
from evals.judge.budget import cost, money
from evals.judge.chat import Chat
from evals.judge.store import VerdictStore
from evals.judge.tasks import JUDGED, Task, grade
from retrievers.embedding.tokens import count_tokens

# The share of the second pass.
AGAIN = "judged again"
# Assumed duration of a call without a limit a minute; the plan states this assumption.
SECONDS_PER_CALL = 2.0
# A blank answer of every schema: no question depends on the answer to another.
BLANK: dict[str, Any] = {"reason": "", "verdict": 0, "rating": 0, "entities": [], "classifications": []}


@dataclass(frozen=True, slots=True)
class Share:
    """Calls of one metric, or of all.

    Attributes:
        prompts: Of each distinct question the tokens of its prompt, counted with the packaged tokenizer; None where
            the verdict is stored.
    """

    metric: str
    prompts: Sequence[int | None]

    @property
    def questions(self) -> int:
        """Distinct questions to the judge."""
        return len(self.prompts)

    @property
    def cached(self) -> int:
        """How many of them are in the verdict store."""
        return sum(tokens is None for tokens in self.prompts)

    @property
    def calls(self) -> int:
        """Calls that would be made."""
        return self.questions - self.cached

    @property
    def tokens_in(self) -> int:
        """Tokens of the prompts that would be sent."""
        return sum(tokens or 0 for tokens in self.prompts)

    @property
    def tokens_out(self) -> int:
        """Tokens of their answers, estimated."""
        return self.calls * USUAL_ANSWER


@dataclass(frozen=True, kw_only=True)
class JudgePlan:
    """Calls of a run's judging.

    Attributes:
        config: Settings of the judge.
        shares: Share of each metric; a question that two metrics ask is counted with the first.
        drawn: Number of queries that `shares` are of: all, or those of the sample (of `auto` its first round).
    """

    config: JudgeConfig
    shares: tuple[Share, ...]
    drawn: int

    @property
    def model(self) -> str:
        """`provider:name` of the judge."""
        return self.config.model or ""

    @property
    def sample(self) -> Sample:
        """Which queries are judged, as set."""
        return self.config.sample

    @property
    def total(self) -> Share:
        """All metrics together."""
        return Share("all", [tokens for share in self.shares for tokens in share.prompts])

    @property
    def usd(self) -> float | None:
        """Price of the calls by the price table, None without a price."""
        return cost(self.config.price, self.total.tokens_in, self.total.tokens_out)

    @property
    def seconds(self) -> float:
        """Duration of the calls at the given limits; see `SECONDS_PER_CALL`."""
        total, config = self.total, self.config
        minutes = (
            total.calls / (config.requests_per_minute or math.inf),
            (total.tokens_in + total.tokens_out) / (config.tokens_per_minute or math.inf),
            total.calls * SECONDS_PER_CALL / 60 / config.max_concurrency,
        )
        return 60 * max(minutes)

    @property
    def price(self) -> str:
        """Calls and price in words; empty where all verdicts are stored."""
        calls, first = self.total.calls, "in the first round " if self.sample == "auto" else ""
        return f"{first}up to {calls:,} calls of {self.model}, {money(self.usd, self.model)}" if calls else ""


def stopped(budget: BudgetConfig, plans: Sequence[JudgePlan]) -> str:
    """Return the limit of the budget that the planned calls exceed, as text; empty if none."""
    calls, usd = sum(plan.total.calls for plan in plans), sum(plan.usd or 0.0 for plan in plans)
    needed = (("calls", calls, budget.calls), ("USD", usd, budget.usd))
    return "; ".join(
        f"the budget holds {limit:,} {unit} of {need:,.10g}"
        for unit, need, limit in needed
        if limit is not None and need > limit
    )


def counted(chat: Chat, store: VerdictStore | None, questions: Iterable[Task]) -> list[Share]:
    """Return the share of each metric in questions to a model, of which those in the store cost nothing."""
    counting = _Counting(chat, store)

    async def ask_all() -> None:
        for task in questions:
            counting.metric = task.metric
            await grade(task, counting)

    asyncio.run(ask_all())
    prompts = {name: [tokens for metric, tokens in counting.asked.values() if metric == name] for name in JUDGED}
    return [Share(name, own) for name, own in prompts.items() if own]


class _Counting:
    """A judge that counts the tokens of prompts, and answers out of the store or blank."""

    def __init__(self, chat: Chat, store: VerdictStore | None) -> None:
        self._chat, self._store = chat, store
        # Of each prompt the metric that first asked it, and its tokens; None where the verdict is stored.
        self.metric, self.asked = "", dict[bytes, tuple[str, int | None]]()

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Count a prompt that was not counted yet."""
        key = self._chat.key(prompt, schema)
        kept = self._store.get(key, schema) if self._store else None
        if key not in self.asked:
            self.asked[key] = self.metric, None if kept else count_tokens(prompt)
        if kept:
            return schema.model_validate_json(kept)
        return schema.model_validate({name: BLANK[name] for name in schema.model_fields})
