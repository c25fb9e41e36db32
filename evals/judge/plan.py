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
        tokens_out: Tokens of their answers, estimated.
    """

    metric: str
    questions: int
    cached: int
    tokens_in: int
    tokens_out: int

    @property
    def calls(self) -> int:
        """Calls that would be made."""
        return self.questions - self.cached

    @classmethod
    def joined(cls, metric: str, shares: "Sequence[Share]") -> "Share":
        """Return shares together."""
        names = ("questions", "cached", "tokens_in", "tokens_out")
        return cls(metric=metric, **{name: sum(getattr(share, name) for share in shares) for name in names})


@dataclass(frozen=True, kw_only=True)
class JudgePlan:
    """Calls of a run's judging.

    Attributes:
        model: `provider:name` of the judge.
        shares: Share of each metric; a question that two metrics ask is counted with the first.
        usd: Price of the calls by the price table, None without a price.
        seconds: Duration of the calls at the given limits; see `SECONDS_PER_CALL`.
        sample: Which queries are judged, as set; `margin`, that of `judge.stop`, which ends judging earlier.
        drawn: Number of queries that `shares` are of: all, or those of the sample (of `auto` its first round).
    """

    model: str
    shares: tuple[Share, ...]
    usd: float | None = None
    seconds: float = 0.0
    sample: Sample = "all"
    margin: float | None = None
    drawn: int = 0

    @property
    def total(self) -> Share:
        """All metrics together."""
        return Share.joined("all", self.shares)


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
    drawn = sample_size(config.sample, len(order))
    first, second = _Counting(judge), _Counting(judge, past_the_store=True)
    shares = first.count(tasks(metrics, among(order[:drawn], observations), seed))
    if config.rejudge:
        repeats = repeated(among(order[:drawn], again), config.rejudge, seed)
        shares = (*shares, Share.joined(AGAIN, second.count(tasks(metrics, repeats, seed))))
    total = Share.joined("all", shares)
    minutes = (
        total.calls / (config.requests_per_minute or math.inf),
        (total.tokens_in + total.tokens_out) / (config.tokens_per_minute or math.inf),
        total.calls * SECONDS_PER_CALL / 60 / config.max_concurrency,
    )
    return JudgePlan(
        model=judge.model,
        shares=shares,
        usd=cost(config.price, total.tokens_in, total.tokens_out),
        seconds=60 * max(minutes),
        sample=config.sample,
        margin=config.stop.margin,
        drawn=drawn,
    )


def stopped(budget: BudgetConfig, plans: Sequence[JudgePlan]) -> str:
    """Return the part of these calls together that a budget leaves out, empty when it covers everything."""
    calls, usd = sum(plan.total.calls for plan in plans), sum(plan.usd or 0.0 for plan in plans)
    needed = (("calls", calls, budget.calls), ("USD", usd, budget.usd))
    return "; ".join(
        f"the budget holds {limit:,} {unit} of {need:,.10g}"
        for unit, need, limit in needed
        if limit is not None and need > limit
    )


class _Counting:
    """A judge that counts what prompts cost, and answers out of the store or blank."""

    def __init__(self, judge: Judge, *, past_the_store: bool = False) -> None:
        self._judge, self._store = judge, None if past_the_store else judge.store
        self._metric, self._asked = "", dict[bytes, Share]()
        # Usual length of an answer, by schema; None where none was stored.
        self._lengths: dict[str, float | None] = {}

    def count(self, questions: Iterable[Task]) -> tuple[Share, ...]:
        """Count further questions, and return what was counted so far, by metric."""

        async def all_of_them() -> None:
            for task in questions:
                self._metric = task.metric
                await grade(task, self)

        asyncio.run(all_of_them())
        counted = {name: [one for one in self._asked.values() if one.metric == name] for name in JUDGED}
        return tuple(Share.joined(name, shares) for name, shares in counted.items() if shares)

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Count a prompt that was not counted yet; the answer is the stored one, or else blank."""
        key, kind, store = self._judge.chat.key(prompt, schema), schema.__name__, self._judge.store
        kept = self._store.get(key, schema) if self._store else None
        if kind not in self._lengths:
            self._lengths[kind] = store.mean_tokens_out(self._judge.model, kind) if store else None
        if key not in self._asked:
            read, written = (0, 0) if kept else (count_tokens(prompt), round(self._lengths[kind] or USUAL_ANSWER))
            counted = Share(
                metric=self._metric, questions=1, cached=int(bool(kept)), tokens_in=read, tokens_out=written
            )
            self._asked[key] = counted
        if kept:
            return schema.model_validate_json(kept)
        return schema.model_validate({name: BLANK[name] for name in schema.model_fields})
