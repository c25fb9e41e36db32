"""The judge of a run: it asks all questions of all queries concurrently, and counts beforehand what they would cost."""

import asyncio
import atexit
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock
from typing import Any

from evals.collect.observations import Failure, Observation
from evals.config.judge import JudgeConfig
from evals.judge.answers import Schema
from evals.judge.asking import Engine, Result
from evals.judge.budget import Account, Usage
from evals.judge.chat import Chat, make_chat
from evals.judge.store import VerdictStore
from evals.judge.tasks import JUDGED, PRECISION, Graded, Task, grade, tasks
from evals.judge.verdicts import Judging
from evals.sampling.order import among, judging_order, sample_size
from retrievers.config.files import user_cache
from retrievers.embedding.tokens import count_tokens

log = logging.getLogger(__name__)
# Called with the number of answered questions, the number of all, and the spending.
OnProgress = Callable[[int, int, Usage], None]
Prompts = Sequence[int | None]
"""Tokens of the prompt of each distinct question, by the packaged tokenizer; None if its verdict is stored."""
# Held while the event loop of the process runs.
LOOP_IN_USE = Lock()
# Questions that are prepared for each concurrent call.
AHEAD = 4
# Blank answers that fit every schema: no question depends on the answer to another one.
BLANK: dict[str, Any] = {"reason": "", "verdict": 0, "rating": 0, "entities": [], "classifications": []}


@dataclass(eq=False, repr=False)
class Judge:
    """A chat model with its settings, its verdict store and its part of the budget.

    Attributes:
        below: With `judge.second`, the cheaper judge. It judges everything, with the same store and budget. Else None.
        engine: Answers single prompts.
    """

    config: JudgeConfig
    chat: Chat
    store: VerdictStore
    progress: OnProgress | None = None
    below: "Judge | None" = None

    def __post_init__(self) -> None:
        account = Account(self.config, self.below.engine.account if self.below else None)
        self.engine: Engine = Engine(self.chat, self.config, self.store, account)
        # LangChain calls a model without an asynchronous interface in these threads.
        self._threads = ThreadPoolExecutor(self.config.max_concurrency, "judge")

    @classmethod
    def open(cls, config: JudgeConfig, env: Mapping[str, str], progress: OnProgress | None = None) -> "Judge":
        """Build the models of `judge` and `judge.second`, and open the verdict store. No call is made.

        Returns:
            The judge whose verdicts count. This is the second one if there are two.

        Raises:
            JudgeError: A model cannot be built, or the store cannot be used.
        """
        chats = [(tier, make_chat(tier, env)) for tier in config.by_tier]
        store = VerdictStore(config.cache_path or user_cache(env) / "verdicts.sqlite")
        judge: Judge | None = None
        for tier, chat in chats:
            judge = cls(tier, chat, store, progress, below=judge)
        assert judge
        return judge

    @property
    def tiers(self) -> "tuple[Judge, ...]":
        """The cheaper judge, if there is one, and this judge."""
        return (self.below, self) if self.below else (self,)

    def charged(self, judging: Judging) -> Judging:
        """Return the verdicts with what this judge, and the judge below it, have cost up to now."""
        below = self.below.charged(judging.below) if self.below and judging.below else None
        return replace(judging, usage=self.engine.account.usage, below=below)

    def plan(
        self, metrics: Collection[str], observations: Sequence[Observation], again: Sequence[Observation], seed: int
    ) -> Mapping[str, Prompts]:
        """Count the calls that judging these selections, or a sample of their queries, would take. No call is made.

        Args:
            metrics: Names of metrics. Metrics that need no judge are left out.
            observations: The selections. A query may have several.
            again: One selection for each query. Of these, `judge.rejudge` queries are judged a second time.
            seed: Seed of the sample, and of the choice of queries that are judged a second time.

        Returns:
            The prompts of each metric, and of the second pass. If `judge.sample` is `auto`, those of its first round.
        """
        order = judging_order((o.case for o in observations), seed)
        drawn = order[: sample_size(self.config.sample, len(order))]
        first = _count(tasks(metrics, among(drawn, observations), seed), self.chat, self.store)
        repeated = self._draw_repeated(among(drawn, again), seed)
        second = _count(tasks({PRECISION}.intersection(metrics), repeated, seed), self._second_pass, self.store)
        return {**first, "judged again": second[PRECISION]} if second else first

    def judge(self, metrics: Collection[str], observations: Sequence[Observation], seed: int = 0) -> Judging:
        """Ask all questions of the metrics about the selections.

        Args:
            metrics: Names of metrics. Metrics that need no judge are left out.
            observations: The selections. A query may have several.
            seed: Seed of the order of the queries.

        Raises:
            JudgeError: The first call was refused for a reason that holds for all calls.
        """
        return self._ask(tasks(metrics, observations, seed), self.engine)

    def again(
        self, first: Judging, metrics: Collection[str], observations: Sequence[Observation], seed: int
    ) -> Judging:
        """Ask a second time about the chunks of `judge.rejudge` queries that were judged.

        Args:
            first: Verdicts of the first pass.
            metrics: Names of metrics. Only context precision is asked again, since its verdicts can be compared.
            observations: One selection for each query.
            seed: Seed of the choice of queries.
        """
        judged = [o for o in observations if first.drawn is None or o.case.id in first.drawn]
        engine = Engine(self._second_pass, self.config, self.store, self.engine.account)
        second = self._ask(tasks({PRECISION}.intersection(metrics), self._draw_repeated(judged, seed), seed), engine)
        return replace(first, again=second, usage=second.usage)

    def run(self, work: Callable[[], Awaitable[Result]], engine: Engine | None = None) -> Result:
        """Run work that asks an engine (by default that of this judge), on the event loop of the process.

        Raises:
            JudgeError: Nothing can be judged.
        """
        with LOOP_IN_USE:
            runner = _runner()
            runner.get_loop().set_default_executor(self._threads)
            return runner.run((engine or self.engine).run(work))

    def close(self) -> None:
        """Close the verdict store."""
        self.store.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def _second_pass(self) -> Chat:
        """The same model under other keys, so that answers of the second pass are stored apart."""
        return replace(self.chat, parameters={**self.chat.parameters, "pass": 2})

    def _draw_repeated(self, observations: Sequence[Observation], seed: int) -> list[Observation]:
        """Return the queries to judge a second time: the first in judging order that the judge was asked about."""
        order = judging_order((o.case for o in observations if o.selection), seed)
        return among(order[: self.config.rejudge], observations)

    def _ask(self, questions: Sequence[Task], engine: Engine) -> Judging:
        """Ask the questions, and return the answers as verdicts on chunks, scores of selections, and claims."""
        graded = self.run(partial(self._grade_all, questions, engine), engine)
        values = {(task.metric, task.case_id, task.chunk_ids): value for task, (value, _) in graded}
        verdicts: Any = {(case, ids[0]): value for (name, case, ids), value in values.items() if name == PRECISION}
        scores: Any = {key: value for key, value in values.items() if key[0] != PRECISION}
        claims = {(task.case_id, task.chunk_ids): claims for task, (_, claims) in graded if claims}
        model, usage = self.chat.label, self.engine.account.usage
        return Judging(model=model, verdicts=verdicts, scores=scores, claims=claims, usage=usage)

    async def _grade_all(self, questions: Sequence[Task], engine: Engine) -> list[tuple[Task, Graded]]:
        """Ask the questions concurrently. Each worker takes the next question when it has an answer."""
        graded: list[tuple[Task, Graded]] = []
        waiting = iter(questions)

        async def work() -> None:
            for task in waiting:
                value, claims = await grade(task, engine)
                if engine.fatal:  # raised below, once for all workers
                    return
                graded.append((task, (value, claims)))
                if isinstance(value, Failure):
                    log.error("%s of %s failed: %s", task.metric, task.case_id, value.failed)
                if self.progress:
                    self.progress(len(graded), len(questions), self.engine.account.whole_usage)

        await asyncio.gather(*(work() for _ in range(AHEAD * self.config.max_concurrency)))
        if engine.fatal:
            raise engine.fatal
        return graded


@cache
def _runner() -> asyncio.Runner:
    """Return the event loop of all judges. LangChain keeps HTTP clients, which belong to the loop they first ran on."""
    runner = asyncio.Runner()
    # `runner.close` would start a thread, which Python 3.12 refuses at exit with a traceback.
    atexit.register(runner.get_loop().close)
    return runner


# Counting


def _count(questions: Sequence[Task], chat: Chat, store: VerdictStore) -> Mapping[str, Prompts]:
    """Return the prompts that the questions of each metric take. A prompt of two metrics counts with the first one."""
    counter = _Counter(chat, store)
    prompts: dict[str, Prompts] = {}

    async def ask_all() -> None:
        for metric in JUDGED:
            before = len(counter.prompts)
            for task in questions:
                if task.metric == metric:
                    await grade(task, counter)
            if new := [*counter.prompts.values()][before:]:
                prompts[metric] = new

    asyncio.run(ask_all())
    return prompts


class _Counter:
    """In place of an engine: counts the tokens of each prompt once, and gives blank answers.

    Attributes:
        prompts: Key of each prompt, in the order of asking, to its tokens; None if its verdict is stored.
    """

    def __init__(self, chat: Chat, store: VerdictStore) -> None:
        self._chat, self._store = chat, store
        self.prompts: dict[bytes, int | None] = {}

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        key = self._chat.key(prompt, schema)
        if key not in self.prompts:
            self.prompts[key] = None if self._store.get(key, schema, prompt) else count_tokens(prompt)
        return schema.model_validate({name: BLANK[name] for name in schema.model_fields})
