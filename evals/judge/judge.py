"""The judge of a run: all questions of all queries asked concurrently, each answered once."""

import asyncio
import atexit
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from threading import Lock
from typing import Any, TypeVar

from evals.collect.observations import Failure, Observation
from evals.config.judge import JudgeConfig
from evals.judge.asking import Engine
from evals.judge.budget import Account, Usage
from evals.judge.chat import Chat, make_chat
from evals.judge.plan import Prompts, counted
from evals.judge.store import VerdictStore
from evals.judge.tasks import PRECISION, Graded, Task, grade, tasks
from evals.judge.verdicts import Judging
from evals.sampling.order import among, judging_order, sample_size
from retrievers.config.files import user_cache

log = logging.getLogger(__name__)
Result = TypeVar("Result")
# Called with the number of answered questions, their total, and the spending.
OnProgress = Callable[[int, int, Usage], None]
ONE_AT_A_TIME = Lock()
# Prepared questions for each concurrent call.
AHEAD = 4


@dataclass(eq=False, repr=False)
class Judge:
    """A chat model with its settings, its verdict store and its part of the budget.

    Attributes:
        below: With `judge.second`, the cheaper judge that judges everything, with the same store and budget; else None.
        engine: What answers single prompts.
    """

    config: JudgeConfig
    chat: Chat
    store: VerdictStore
    progress: OnProgress | None = None
    below: "Judge | None" = None

    def __post_init__(self) -> None:
        account = Account(self.config, self.below.engine.account if self.below else None)
        self.engine: Engine = Engine(self.chat, self.config, self.store, account)
        # LangChain calls a model that has no asynchronous interface in these.
        self._threads = ThreadPoolExecutor(self.config.max_concurrency, "judge")

    @classmethod
    def open(cls, config: JudgeConfig, env: Mapping[str, str], progress: OnProgress | None = None) -> "Judge":
        """Build the model, and that of `judge.second`, and open the verdict store. No call is made.

        Returns:
            The judge whose verdicts count: the second, where there are two.

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
        """The cheaper judge, where there is one, and this one."""
        return (self.below, self) if self.below else (self,)

    def charged(self, judging: Judging) -> Judging:
        """Return the verdicts with the usage of this judge, and of the judge below it, up to date."""
        below = self.below.charged(judging.below) if self.below and judging.below else None
        return replace(judging, usage=self.engine.account.usage, below=below)

    def plan(
        self, metrics: Collection[str], observations: Sequence[Observation], again: Sequence[Observation], seed: int
    ) -> Mapping[str, Prompts]:
        """Count the calls that judging these selections, or the sample of their queries, would take. None is made.

        Args:
            metrics: Names of metrics; those that need no judge are passed over.
            observations: The selections; several of one query are as many selections.
            again: One for each query, of which some are judged a second time, if the settings say so.
            seed: Seed of that choice, and of the sample.

        Returns:
            The prompts of each metric, and those of the second pass; of `auto` those of its first round.
        """
        order = judging_order((o.case for o in observations), seed)
        drawn = order[: sample_size(self.config.sample, len(order))]
        first = counted(self.chat, self.store, tasks(metrics, among(drawn, observations), seed))
        repeated = self._repeated(among(drawn, again), seed)
        second = counted(self._second_pass, self.store, tasks({PRECISION}.intersection(metrics), repeated, seed))
        return {**first, "judged again": [*chain(*second.values())]} if second else first

    def judge(self, metrics: Collection[str], observations: Sequence[Observation], seed: int = 0) -> Judging:
        """Ask all questions of the metrics on the selections of observations.

        Args:
            metrics: Names of metrics; those that need no judge are passed over.
            observations: The selections; several of one query are as many selections.
            seed: Seed of the order of the queries.

        Raises:
            JudgeError: The very first call was refused for a reason that all others would share.
        """
        return self._judged(tasks(metrics, observations, seed), self.engine)

    def again(
        self, first: Judging, metrics: Collection[str], observations: Sequence[Observation], seed: int
    ) -> Judging:
        """Ask about the chunks of some judged queries a second time, as many as `judge.rejudge` says.

        Args:
            first: Verdicts of the first pass.
            metrics: Names of metrics; all but context precision, whose verdicts can be compared, are passed over.
            observations: One for each query.
            seed: Seed of the choice of queries.
        """
        judged = [o for o in observations if first.drawn is None or o.case.id in first.drawn]
        engine = Engine(self._second_pass, self.config, self.store, self.engine.account)
        second = self._judged(tasks({PRECISION}.intersection(metrics), self._repeated(judged, seed), seed), engine)
        return replace(first, again=second, usage=second.usage)

    def run(self, work: Callable[[], Awaitable[Result]], engine: Engine | None = None) -> Result:
        """Do work that asks the engine, on the event loop of the process.

        Raises:
            JudgeError: Nothing can be judged.
        """
        with ONE_AT_A_TIME:
            runner = _runner()
            runner.get_loop().set_default_executor(self._threads)
            return runner.run((engine or self.engine).run(work))

    def close(self) -> None:
        """Close the verdict store."""
        self.store.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def _second_pass(self) -> Chat:
        """The same model, whose answers are stored apart from those of the first pass."""
        return replace(self.chat, parameters={**self.chat.parameters, "pass": 2})

    def _repeated(self, observations: Sequence[Observation], seed: int) -> list[Observation]:
        """Draw the queries to judge a second time out of those that the judge was asked about, in their order."""
        case_ids = list(dict.fromkeys(o.case.id for o in observations if o.case.in_scope and o.selection))
        return among(random.Random(seed).sample(case_ids, min(self.config.rejudge, len(case_ids))), observations)

    def _judged(self, questions: Sequence[Task], engine: Engine) -> Judging:
        graded = self.run(partial(self._graded, questions, engine), engine)
        values = {(task.metric, task.case_id, task.chunk_ids): value for task, (value, _) in graded}
        verdicts: Any = {(case, ids[0]): value for (name, case, ids), value in values.items() if name == PRECISION}
        scores: Any = {key: value for key, value in values.items() if key[0] != PRECISION}
        claims = {(task.case_id, task.chunk_ids): claims for task, (_, claims) in graded if claims}
        model, usage = self.chat.label, self.engine.account.usage
        return Judging(model=model, verdicts=verdicts, scores=scores, claims=claims, usage=usage)

    async def _graded(self, questions: Sequence[Task], engine: Engine) -> list[tuple[Task, Graded]]:
        """Ask the questions concurrently."""
        graded = list[tuple[Task, Graded]]()
        waiting = iter(questions)

        async def work() -> None:
            for task in waiting:
                value, claims = await grade(task, engine)
                # The error is raised below, and not reported twice.
                if engine.fatal:
                    return
                graded.append((task, (value, claims)))
                if isinstance(value, Failure):
                    failure = f"{task.metric} of {task.case_id} failed: {value.type}: {value.message}"
                    log.error("%s", failure, extra={"query_id": task.case_id, "stage": "judge"})
                if self.progress:
                    self.progress(len(graded), len(questions), self.engine.account.whole_usage)

        await asyncio.gather(*(work() for _ in range(AHEAD * self.config.max_concurrency)))
        if engine.fatal:
            raise engine.fatal
        return graded


@cache
def _runner() -> asyncio.Runner:
    """Return the event loop of all judges: LangChain keeps HTTP clients, which belong to the loop they met first."""
    runner = asyncio.Runner()
    # Not the runner's own end, which starts a thread: at its exit Python 3.12 refuses that with a traceback.
    atexit.register(runner.get_loop().close)
    return runner
