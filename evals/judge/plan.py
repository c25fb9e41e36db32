"""The cost of judging, counted without a call: the same questions to a judge that only counts."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.config.judge import BudgetConfig, JudgeConfig
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
        calls, model = self.total.calls, self.config.model
        first = "in the first round " if self.config.sample == "auto" else ""
        return f"{first}up to {calls:,} calls of {model}, {money(self.usd, model)}" if calls else ""


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
    by_metric = {name: [tokens for metric, tokens in counting.prompts.values() if metric == name] for name in JUDGED}
    return [Share(name, prompts) for name, prompts in by_metric.items() if prompts]


@dataclass
class _Counting:
    """A judge that counts the tokens of prompts, and answers out of the store or blank.

    Attributes:
        metric: The metric that asks.
        prompts: Of each prompt, by its key, the metric that first asked it, and its tokens; None where the verdict is
            stored.
    """

    chat: Chat
    store: VerdictStore | None
    metric: str = ""
    prompts: dict[bytes, tuple[str, int | None]] = field(default_factory=dict)

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Count a prompt that was not counted yet."""
        key = self.chat.key(prompt, schema)
        stored = self.store.get(key, schema, prompt) if self.store else None
        if key not in self.prompts:
            self.prompts[key] = self.metric, None if stored else count_tokens(prompt)
        if stored:
            return schema.model_validate_json(stored)
        return schema.model_validate({name: BLANK[name] for name in schema.model_fields})
