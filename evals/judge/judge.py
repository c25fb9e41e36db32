"""The judge of a run: all questions of all queries run concurrently, each answered once."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.ask.budget import Ledger, Usage
from evals.judge.ask.cache import VerdictStore
from evals.judge.ask.chat import Chat, make_chat
from evals.judge.ask.database import store_file
from evals.judge.ask.engine import Engine
from evals.judge.tasks import PRECISION, Graded, Task, grade, tasks
from evals.judge.verdicts import ChunkVerdict, Claim, Judging, Selected

log = logging.getLogger(__name__)
Answers = list[tuple[Task, Graded]]
# Called with the number of answered questions, their total, and the spending.
OnProgress = Callable[[int, int, Usage], None]
UNIDENTIFIED = (
    "the verdicts of judge.model %r are not kept, and are bought again by every run: its class %s does not tell its "
    "parameters (_identifying_params). Set judge.identity to a name of your own, and to another when the model changes"
)
# Number of prepared questions for each concurrent call.
AHEAD = 4


class Judge:
    """A chat model with its settings and its verdict store.

    Attributes:
        below: Of a cascade, the cheaper judge, with the same store and budget; else None.
    """

    def __init__(
        self,
        config: JudgeConfig,
        chat: Chat,
        store: VerdictStore | None,
        progress: OnProgress = lambda done, total, usage: None,
        below: "Judge | None" = None,
    ) -> None:
        self.config, self.chat, self.store, self._progress, self.below = config, chat, store, progress, below
        self._ledger: Ledger = Ledger(config.budget, config.price, below._ledger if below else None)

    @classmethod
    def open(
        cls, config: JudgeConfig, env: Mapping[str, str], progress: OnProgress = lambda done, total, usage: None
    ) -> "Judge":
        """Build the model, of a cascade all models, and open the verdict store. No call is made.

        Returns:
            The judge; of a cascade the strongest.

        Raises:
            JudgeError: A model cannot be built, or the store cannot be used.
        """
        tiers = [(tier, make_chat(tier, env)) for tier in config.by_tier]
        # Without an identity, verdicts of one model could be returned for another.
        cached = [config.cache == "on" and chat.identified for _, chat in tiers]
        store = VerdictStore(store_file(config, env)) if any(cached) else None
        judge: Judge | None = None
        for (tier, chat), cache in zip(tiers, cached, strict=True):
            if config.cache == "on" and not cache:
                log.warning(UNIDENTIFIED, tier.model, type(chat.model).__name__)
            judge = cls(tier, chat, store if cache else None, progress, judge)
        assert judge is not None
        return judge

    @property
    def tiers(self) -> "tuple[Judge, ...]":
        """The judges of a cascade, the cheapest first, this one last."""
        return (*(self.below.tiers if self.below else ()), self)

    @property
    def model(self) -> str:
        """`provider:name`."""
        return f"{self.chat.provider}:{self.chat.name}"

    @property
    def usage(self) -> Usage:
        """Spending on this model so far."""
        return self._ledger.usage

    def charged(self, judging: Judging) -> Judging:
        """Return verdicts with all that they and others have cost by now."""
        below = self.below.charged(judging.below) if self.below and judging.below else None
        return replace(judging, usage=self.usage, below=below)

    def judge(self, metrics: Collection[str], observations: Sequence[Observation], seed: int = 0) -> Judging:
        """Ask all questions of the metrics on the selections of observations.

        Args:
            metrics: Names of metrics; those that need no judge are passed over.
            observations: The selections; several of one query are as many selections.
            seed: Seed of the order of the queries.

        Raises:
            JudgeError: The very first call was refused for a reason that all others would share.
        """
        return self._judging(list(tasks(metrics, observations, seed)), self.store)

    def again(
        self, first: Judging, metrics: Collection[str], observations: Sequence[Observation], seed: int
    ) -> Judging:
        """Ask some queries a second time, past the store, if the settings want it.

        Args:
            first: Verdicts of the first pass.
            metrics: Names of metrics; those that need no judge are passed over.
            observations: One for each query.
            seed: Seed of the choice of queries.
        """
        if not self.config.rejudge:
            return first
        judged = [o for o in observations if first.drawn is None or o.case.id in first.drawn]
        chosen = repeated(judged, self.config.rejudge, seed)
        second = self._judging(list(tasks(metrics, chosen, seed)), None)
        return replace(first, again=second, usage=second.usage)

    def _judging(self, questions: Sequence[Task], store: VerdictStore | None) -> Judging:
        with Engine(self.chat, self.config, store, self._ledger) as engine:
            graded = asyncio.run(self._ask(questions, engine))
        return replace(judging_of(self.model, graded), usage=self.usage)

    def engine(self) -> Engine:
        """Return an engine for questions of another kind than the metrics', with the same store and budget."""
        return Engine(self.chat, self.config, self.store, self._ledger)

    def close(self) -> None:
        """Trim the verdict store to its limits, and close it."""
        store = next((tier.store for tier in self.tiers if tier.store), None)
        if store:
            try:
                store.trim(max_mb=self.config.cache_max_mb, max_days=self.config.cache_max_days)
            except JudgeError as error:  # the run is over, and its verdicts remain
                log.warning("the verdict store was not trimmed: %s", error)
            finally:
                store.close()

    async def _ask(self, questions: Sequence[Task], engine: Engine) -> Answers:
        """Ask the questions concurrently."""
        graded: Answers = []
        waiting = iter(questions)

        async def work() -> None:
            for task in waiting:
                if engine.fatal:
                    return
                result = await grade(task, engine, strict=self.config.strict)
                # The error is raised below, and not reported twice.
                if engine.fatal:
                    return
                graded.append((task, result))
                _log_failure(task, result)
                self._progress(len(graded), len(questions), self._ledger.whole)

        await asyncio.gather(*(work() for _ in range(AHEAD * self.config.max_concurrency)))
        if engine.fatal:
            raise engine.fatal
        return graded


def judging_of(model: str, graded: Answers) -> Judging:
    """Return the results of tasks as what a model said."""
    verdicts: dict[tuple[str, str], ChunkVerdict | Failure | Unscored] = {}
    scores: dict[tuple[str, str, Selected], Score] = {}
    claims: dict[tuple[str, Selected], tuple[Claim, ...]] = {}
    for task, result in graded:
        if task.metric == PRECISION:
            verdict = result.verdict or result.value
            assert not isinstance(verdict, float)
            verdicts[task.case_id, task.chunk_ids[0]] = verdict
        else:
            scores[task.metric, task.case_id, task.chunk_ids] = result.value
            if result.claims:
                claims[task.case_id, task.chunk_ids] = result.claims
    return Judging(
        model=model,
        verdicts=verdicts,
        scores=scores,
        claims=claims,
    )


def _log_failure(task: Task, result: Graded) -> None:
    if isinstance(result.value, Failure):
        about = f"{task.metric} of {task.case_id}"
        failure = f"{result.value.type}: {result.value.message}"
        log.error("%s failed: %s", about, failure, extra={"query_id": task.case_id, "stage": "judge"})


def repeated(observations: Sequence[Observation], count: int, seed: int) -> list[Observation]:
    """Draw at most `count` of the queries that the judge was asked about, in their order."""
    case_ids = list(dict.fromkeys(o.case.id for o in observations if o.case.in_scope and o.selection))
    chosen = set(random.Random(seed).sample(case_ids, min(count, len(case_ids))))
    return [o for o in observations if o.case.id in chosen]
