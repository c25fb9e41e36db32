"""The cost of judging, counted without a call: the same questions to a judge that only counts."""

import asyncio
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evals.collect.observations import Observation
from evals.config.judge import BudgetConfig, Sample
from evals.judge.asking import USUAL_ANSWER, Schema
from evals.judge.budget import cost
from evals.judge.judge import Judge, repeated
from evals.judge.store import VerdictStore
from evals.judge.tasks import JUDGED, Task, grade, tasks
from evals.sampling.order import among, judging_order, sample_size
from retrievers.embedding.tokens import count_tokens

# The share of the second pass.
AGAIN = "judged again"
# Assumed duration of a call without a limit a minute; the plan states this assumption.
SECONDS_PER_CALL = 2.0
# A blank answer of every schema: no question depends on the answer to another.
BLANK: dict[str, Any] = {"reason": "", "verdict": 0, "rating": 0, "entities": [], "classifications": []}


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Calls of one metric.

    Attributes:
        questions: Distinct calls of the judge; `cached`, how many of them are in the verdict store.
        tokens_in: Tokens of the prompts that are not, counted with the packaged tokenizer.
    """

    metric: str
    questions: int
    cached: int
    tokens_in: int

    @property
    def calls(self) -> int:
        """Calls that would be made."""
        return self.questions - self.cached

    @property
    def tokens_out(self) -> int:
        """Tokens of their answers, estimated."""
        return self.calls * USUAL_ANSWER


@dataclass(frozen=True, kw_only=True)
class JudgePlan:
    """Calls of a run's judging.

    Attributes:
        model: `provider:name` of the judge.
        shares: Share of each metric; a question that two metrics ask is counted with the first.
        usd: Price of the calls by the price table, None without a price.
        seconds: Duration of the calls at the given limits; see `SECONDS_PER_CALL`.
        sample: Which queries are judged, as set.
        drawn: Number of queries that `shares` are of: all, or those of the sample (of `auto` its first round).
    """

    model: str
    shares: tuple[Share, ...]
    usd: float | None
    seconds: float
    sample: Sample
    drawn: int

    @property
    def total(self) -> Share:
        """All metrics together."""
        return _total("all", self.shares)


def plan(
    judge: Judge,
    metrics: Collection[str],
    observations: Sequence[Observation],
    again: Sequence[Observation],
    seed: int,
) -> JudgePlan:
    """Count the calls that judging these selections, or the sample of their queries, would take. No call is made.

    Args:
        judge: Judge with its model, limits, prices and store.
        metrics: Names of metrics; those that need no judge are passed over.
        observations: The selections; several of one query are as many selections.
        again: One for each query, of which some are judged a second time, if the settings say so.
        seed: Seed of that choice, and of the sample.
    """
    config, order = judge.config, judging_order((o.case for o in observations), seed)
    drawn = order[: sample_size(config.sample, len(order))]
    shares = _counted(judge, judge.store, tasks(metrics, among(drawn, observations), seed))
    if config.rejudge:
        repeats = repeated(among(drawn, again), config.rejudge, seed)
        shares.append(_total(AGAIN, _counted(judge, None, tasks(metrics, repeats, seed))))
    total = _total("all", shares)
    minutes = (
        total.calls / (config.requests_per_minute or math.inf),
        (total.tokens_in + total.tokens_out) / (config.tokens_per_minute or math.inf),
        total.calls * SECONDS_PER_CALL / 60 / config.max_concurrency,
    )
    return JudgePlan(
        model=judge.model,
        shares=tuple(shares),
        usd=cost(config.price, total.tokens_in, total.tokens_out),
        seconds=60 * max(minutes),
        sample=config.sample,
        drawn=len(drawn),
    )


def stopped(budget: BudgetConfig, plans: Sequence[JudgePlan]) -> str:
    """Return the limit of the budget that the planned calls exceed, as text; empty if none."""
    calls, usd = sum(plan.total.calls for plan in plans), sum(plan.usd or 0.0 for plan in plans)
    needed = (("calls", calls, budget.calls), ("USD", usd, budget.usd))
    return "; ".join(
        f"the budget holds {limit:,} {unit} of {need:,.10g}"
        for unit, need, limit in needed
        if limit is not None and need > limit
    )


def _total(metric: str, shares: Sequence[Share]) -> Share:
    return Share(
        metric=metric,
        questions=sum(share.questions for share in shares),
        cached=sum(share.cached for share in shares),
        tokens_in=sum(share.tokens_in for share in shares),
    )


def _counted(judge: Judge, store: VerdictStore | None, questions: Iterable[Task]) -> list[Share]:
    """Return the share of each metric in the questions, of which those in the store cost nothing."""
    counting = _Counting(judge, store)

    async def ask_all() -> None:
        for task in questions:
            counting.metric = task.metric
            await grade(task, counting)

    asyncio.run(ask_all())
    return [_total(name, own) for name in JUDGED if (own := [s for s in counting.asked.values() if s.metric == name])]


class _Counting:
    """A judge that counts what prompts cost, and answers out of the store or blank."""

    def __init__(self, judge: Judge, store: VerdictStore | None) -> None:
        self._judge, self._store = judge, store
        self.metric, self.asked = "", dict[bytes, Share]()

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Count a prompt that was not counted yet."""
        key = self._judge.chat.key(prompt, schema)
        kept = self._store.get(key, schema) if self._store else None
        if key not in self.asked:
            tokens = 0 if kept else count_tokens(prompt)
            self.asked[key] = Share(metric=self.metric, questions=1, cached=int(bool(kept)), tokens_in=tokens)
        if kept:
            return schema.model_validate_json(kept)
        return schema.model_validate({name: BLANK[name] for name in schema.model_fields})
