"""The cost of judging, counted without a call: the same questions with blank answers."""

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from evals.collect.observations import Observation
from evals.config.judge import BudgetConfig
from evals.judge.asking import USUAL_ANSWER
from evals.judge.budget import cost
from evals.judge.judge import Judge, repeated
from evals.judge.tasks import JUDGED, grade, tasks
from evals.sampling.order import among, judging_order, sample_size
from retrievers.embedding.tokens import count_tokens

Schema = TypeVar("Schema", bound=BaseModel)
# The share of the second pass.
AGAIN = "judged again"
FEW = ", as many as an interval needs where {:g} is fewer"
FIELDS = ("questions", "cached", "tokens_in", "tokens_out")
# Assumed duration of a call without a limit a minute; the plan states this assumption.
SECONDS_PER_CALL = 2.0
# A blank answer of every schema: no question depends on the answer to another.
BLANK: dict[str, Any] = {
    "reason": "",
    "verdict": 0,
    "rating": 0,
    "entities": [],
    "classifications": [{"statement": "", "reason": "", "attributed": 0}],
}


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleCost:
    """Calls that judging a sample of queries takes.

    Attributes:
        usd: Their price, None without one.
    """

    queries: int
    calls: int
    usd: float | None


@dataclass(frozen=True, kw_only=True)
class JudgePlan:
    """Calls of a run's judging.

    Attributes:
        model: `provider:name` of the judge.
        shares: Share of each metric; a question that two metrics ask is counted with the first.
        measured_answers: True if the answers' length is an average of stored ones, False for a guess.
        usd: Price of the calls by the price table, None without a price.
        seconds: Duration of the calls at the given limits; see `SECONDS_PER_CALL`.
        stopped: Part that the budget leaves out, empty when it covers everything.
        drawn: Number of queries that `shares` are of: all, or those of `judge.sample` (of `auto` its first round).
        grows: True if more queries are judged after these, as far as the interval needs them (`judge.sample: auto`).
        samples: Costs of the queries of `shares` and, last, of all queries.
        margin: That of `judge.stop`, which ends judging earlier; None without one.
        few: What is said where `judge.sample` is a share of fewer queries than an interval needs; else empty.
    """

    model: str
    shares: tuple[Share, ...]
    measured_answers: bool
    usd: float | None = None
    seconds: float = 0.0
    stopped: str = ""
    drawn: int = 0
    grows: bool = False
    samples: tuple[SampleCost, ...] = ()
    margin: float | None = None
    few: str = ""

    @property
    def total(self) -> Share:
        """All metrics together."""
        return Share(metric="all", **{name: sum(getattr(share, name) for share in self.shares) for name in FIELDS})


class _Counter:
    """Stand-in for the judge that counts what prompts cost, and answers out of the store.

    Attributes:
        metric: Metric whose prompts are counted.
        counts: Counts by metric.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._store = judge.store
        self._seen = set[bytes]()
        self._means: dict[str, float | None] = {}
        self.metric = ""
        self.counts = {name: Counter[str]() for name in (*JUDGED, AGAIN)}

    @property
    def measured(self) -> bool:
        """True if every kind of answer was seen before."""
        return bool(self._means) and all(mean is not None for mean in self._means.values())

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Count a prompt that was not counted yet; the answer is the stored one, or else blank."""
        key = self._judge.chat.key(prompt, schema)
        stored = self._store.get(key, schema) if self._store else None
        if key not in self._seen:
            self._seen.add(key)
            counts = self.counts[self.metric]
            counts["questions"] += 1
            if stored is None:
                counts += Counter(tokens_in=count_tokens(prompt), tokens_out=self._answer(schema.__name__))
            else:
                counts["cached"] += 1
        if stored is not None:
            return schema.model_validate_json(stored)
        return schema.model_validate({name: BLANK[name] for name in schema.model_fields})

    def shares(self, metrics: Collection[str]) -> tuple[Share, ...]:
        """Return what was counted so far, by metric."""
        return tuple(
            Share(metric=name, **{field: counts[field] for field in FIELDS})
            for name, counts in self.counts.items()
            if name in metrics
        )

    def begin_again(self) -> None:
        """Count the second pass, which asks past the store and past what the first has asked."""
        self._seen.clear()
        self.metric, self._store = AGAIN, None

    def _answer(self, kind: str) -> int:
        """Return the usual length of an answer."""
        store = self._judge.store
        if kind not in self._means:
            self._means[kind] = store.mean_tokens_out(self._judge.model, kind) if store else None
        mean = self._means[kind]
        return USUAL_ANSWER if mean is None else round(mean)


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
    counter, order = _Counter(judge), judging_order((o.case for o in observations), seed)
    sample = judge.config.sample
    drawn = sample_size(sample, len(order))
    places, counted = {case_id: rank for rank, case_id in enumerate(order)}, dict[int, tuple[Share, ...]]()

    async def count() -> None:
        for task in tasks(metrics, observations, seed):
            # Query by query in the order of the sample: what was counted before one is the cost of a smaller sample.
            if places[task.case_id] >= drawn:
                counted.setdefault(drawn, counter.shares(metrics))
            counter.metric = task.metric
            await grade(task, counter)
        counted.setdefault(drawn, counter.shares(metrics))
        counted[len(order)] = counter.shares(metrics)
        if judge.config.rejudge:
            counter.begin_again()
            for task in tasks(metrics, repeated(among(order[:drawn], again), judge.config.rejudge, seed), seed):
                await grade(task, counter)
            counted[drawn] += counter.shares([AGAIN])

    asyncio.run(count())
    return replace(
        priced(judge, counted[drawn], measured=counter.measured),
        drawn=drawn,
        grows=sample == "auto" and drawn < len(order),
        few=FEW.format(sample) if isinstance(sample, float) and sample * len(order) <= drawn - 1 else "",
        samples=tuple(_sample_cost(judge, size, shares) for size, shares in sorted(counted.items())),
    )


def _sample_cost(judge: Judge, queries: int, shares: tuple[Share, ...]) -> SampleCost:
    whole = priced(judge, shares, measured=True)
    return SampleCost(queries=queries, calls=whole.total.calls, usd=whole.usd)


def priced(judge: Judge, shares: tuple[Share, ...], *, measured: bool) -> JudgePlan:
    """Return the plan of calls, with their price and duration by the judge's settings.

    Args:
        judge: Judge with its limits and prices.
        shares: The calls.
        measured: True if the length of the answers is an average of stored ones.
    """
    config = judge.config
    unpriced = JudgePlan(model=judge.model, shares=shares, measured_answers=measured, margin=config.stop.margin)
    whole = unpriced.total
    minutes = (
        whole.calls / (config.requests_per_minute or math.inf),
        (whole.tokens_in + whole.tokens_out) / (config.tokens_per_minute or math.inf),
        whole.calls * SECONDS_PER_CALL / 60 / config.max_concurrency,
    )
    usd = cost(config.price, whole.tokens_in, whole.tokens_out)
    estimated = replace(unpriced, usd=usd, seconds=60 * max(minutes))
    return replace(estimated, stopped=stopped(config.budget, [estimated]))


def stopped(budget: BudgetConfig, plans: Sequence[JudgePlan]) -> str:
    """Return the part of these calls together that a budget leaves out, empty when it covers everything."""
    wholes = [plan.total for plan in plans]
    needed = {
        "calls": (sum(whole.calls for whole in wholes), budget.calls),
        "USD": (sum(plan.usd or 0.0 for plan in plans), budget.usd),
    }
    return "; ".join(
        f"the budget holds {limit:,} {unit} of {need:,.10g}"
        for unit, (need, limit) in needed.items()
        if limit is not None and need > limit
    )
