"""From a prompt to a verdict: out of the store, or bought once, with a repair, retries and the server's waits."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import portalocker
from pydantic import BaseModel

from evals.collect.observations import Failure, Unscored
from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.answers import MalformedError, read_verdict
from evals.judge.budget import Account, Pace, Tokens
from evals.judge.chat import Chat, Fault, Kind, read_fault
from evals.judge.store import VerdictStore
from retrievers.embedding.tokens import count_tokens
from retrievers.text.shown import without_secrets

log = logging.getLogger(__name__)
Schema = TypeVar("Schema", bound=BaseModel)
Result = TypeVar("Result")
# The verdict as JSON, or why there is none.
Outcome = str | Failure | Unscored
# Attempts for one verdict, by the kind of fault that the last one had; one for the other kinds.
ATTEMPTS: Mapping[Kind, int] = {"passing": 8, "late": 3}
# Failures in a row, and at least twice the number of concurrent calls, after which judging ends.
FAILURES_IN_A_ROW = 32
# Longest wait before the second attempt; it doubles before each further one, up to the cap.
BASE_S = 0.5
CAP_S = 8.0
# Time in which a server lets no call through because of their rate, after which judging ends.
PATIENCE_S = 180.0
# Time between two looks whether another process still buys verdicts of the model; after so many looks a line says so.
POLL_S, LOOKS = 0.2, 25
# Tokens of English text and of a usual answer, for the pace and for plans, which need no exact count.
CHARACTERS_PER_TOKEN = 4
USUAL_ANSWER = 150
# No model reads or writes so many tokens: a server that says so is not believed.
MOST_TOKENS = 10**9
REPAIR = """{prompt}

Your last answer could not be used: {reason}
Answer again, with one JSON object that complies with the schema and nothing else."""
INTERRUPTED = (
    "interrupted: waiting up to %g s for the %d calls in flight, whose verdicts are kept; again to end at once"
)
CHECK = "check judge.model, judge.base_url and the API key (judge.api_key_env names its variable)"


class Asker(Protocol):
    """Source of verdicts on prompts."""

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the verdict on a prompt.

        Raises:
            UnansweredError: There is none.
        """


class UnansweredError(Exception):
    """A verdict could not be had; `outcome` says why."""

    def __init__(self, outcome: Failure | Unscored) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class Question(NamedTuple):
    """A prompt, the schema of its answer, and the key of the verdict on it."""

    prompt: str
    schema: type[BaseModel]
    key: bytes


class Engine:
    """Answers each distinct prompt once, on one event loop.

    Attributes:
        account: Spending on the model.
        fatal: Reason why nothing can be judged; None while judging is possible.
    """

    def __init__(self, chat: Chat, config: JudgeConfig, store: VerdictStore, account: Account) -> None:
        self._chat = chat
        self._config = config
        self._store = store
        self.account = account
        self.pace = Pace(config, ended=lambda: bool(account.usage.stopped))
        self.fatal: JudgeError | None = None
        self._outcomes: dict[bytes, asyncio.Future[Outcome]] = {}
        # False once the server was found to take no request for JSON.
        self._structured = True
        # True once key, model and address were accepted.
        self._proved = account.usage.tokens_out > 0
        self._failures_in_a_row = 0
        self._first_call = asyncio.Lock()

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the verdict on a prompt, bought at most once.

        Raises:
            UnansweredError: It could not be had; the reason is in `outcome`.
        """
        key = self._chat.key(prompt, schema)
        if key not in self._outcomes:
            # Stored before the first await, so that a concurrent equal prompt waits for it.
            self._outcomes[key] = asyncio.ensure_future(self._outcome(Question(prompt, schema, key)))
        # Whoever asks may be cancelled; a call that was sent is paid for, and its verdict is stored.
        outcome = await asyncio.shield(self._outcomes[key])
        if not isinstance(outcome, str):
            raise UnansweredError(outcome)
        return schema.model_validate_json(outcome)

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do work that asks, while no other process buys verdicts of the model: what one buys, the other finds stored.

        Whatever ends it, the calls in flight are waited for, as they are paid for.

        Raises:
            JudgeError: Nothing can be judged.
        """
        buying = await self._turn()
        try:
            return await work()
        except asyncio.CancelledError:
            if count := self.account.in_flight:
                log.warning(INTERRUPTED, self._config.timeout_s, count)
            self.account.stop("interrupted")
            raise
        finally:
            if unfinished := [task for task in self._outcomes.values() if not task.done()]:
                await asyncio.wait(unfinished)
            buying.release()

    async def _turn(self) -> portalocker.Lock:
        """Wait until no other process buys verdicts of the model, and return the lock that says so of this one."""
        looks = 0
        while (buying := self._store.buying(self._chat.label)) is None:
            looks += 1
            if looks == LOOKS:
                log.warning("waiting for another run, which buys verdicts of %s", self._chat.label)
            await asyncio.sleep(POLL_S)
        return buying

    async def _outcome(self, question: Question) -> Outcome:
        """Return the stored verdict, or buy it."""
        if verdict := self._store.get(question.key, question.schema, question.prompt):
            self.account.count(hits=1)
            return verdict
        # The first call proves key, model and address before any other is made.
        if not self._proved:
            async with self._first_call:
                if not self._proved and self.fatal is None:
                    outcome = await self._bought(question)
                    self._proved = self.fatal is None
                    return outcome
        return await self._bought(question)

    async def _bought(self, question: Question) -> Outcome:
        """Ask until there is a verdict, or no attempt is left. A wait that the server asks for is no attempt."""
        prompt, structured, attempts = question.prompt, self._structured, 0
        while True:
            fault = await self._attempt(question, prompt, structured=structured)
            if not isinstance(fault, Fault):
                return fault
            if fault.kind == "limited":
                if (closed_s := self.pace.refused(fault.retry_after_s)) > PATIENCE_S:
                    self._end(f"lets no call through for {closed_s:,.0f} s, more than a run waits: {fault.message}")
                continue
            if fault.kind == "plain" and structured:  # calls that were sent before that was known find out as well
                if self._structured:
                    log.warning("the judge's server takes no request for JSON: %s", fault.message)
                self._structured = structured = False
                continue
            attempts += 1
            is_last = attempts >= ATTEMPTS.get(fault.kind, 1)
            if fault.kind == "malformed":  # one repair only, as each try is billed
                is_last = prompt is not question.prompt
            if is_last or fault.kind == "malformed":
                self._note(fault)
            if is_last:
                self.account.count(failed=1)
                return Failure(type=fault.type, message=fault.message + (f" ({attempts} attempts)" * (attempts > 1)))
            wait = (fault.retry_after_s or 0.0) + random.uniform(0, min(CAP_S, BASE_S * 2 ** (attempts - 1)))
            if fault.kind == "malformed":
                prompt, wait = REPAIR.format(prompt=question.prompt, reason=fault.message), 0.0
            about = {"stage": "judge", "attempt": attempts}
            log.info("attempt %d failed, trying again in %.2f s: %s", attempts, wait, fault.message, extra=about)
            await asyncio.sleep(wait)

    async def _attempt(self, question: Question, prompt: str, *, structured: bool) -> str | Unscored | Fault:
        """Make one call as pace and budget allow, and commit its verdict before another may take its place."""
        async with self.pace.turn(len(prompt) // CHARACTERS_PER_TOKEN + USUAL_ANSWER):
            size = await self.account.reserve(prompt)
            if size is None:
                return Unscored(reason=self.account.usage.stopped, missing=True)
            spent: Tokens | None = None
            try:
                async with asyncio.timeout(self._config.timeout_s):
                    answer = await self._chat.ask(prompt, question.schema, structured=structured)
                # Counts that no server can mean are estimated from the texts, so that a budget still holds.
                usage: Mapping[str, Any] = answer.usage_metadata or {}
                spent = _tokens(usage.get("input_tokens"), prompt), _tokens(usage.get("output_tokens"), answer.text)
            except Exception as error:  # every provider has its own tree of errors
                fault = read_fault(error)
                spent = None if fault.billed else (0, 0)
                return fault
            finally:
                # Also on cancellation: a reserve that stays would block the budget of all others.
                self.account.settle(size, spent)
            self.pace.succeeded()
            try:
                # Again: the answer may have spelled a secret with escapes of JSON.
                verdict = read_verdict(answer, question.schema, question.prompt).model_dump_json()
                verdict = without_secrets(verdict)
                self._failures_in_a_row = 0
                self._store.put(question.key, self._chat.label, question.schema.__name__, verdict, spent)
            except MalformedError as error:
                return Fault(kind="malformed", type="Malformed", message=str(error))
            except JudgeError as error:  # buying more would lose more
                self.account.stop(str(error))
            return verdict

    def _note(self, fault: Fault) -> None:
        """End judging where its first call fails, or where failures in a row are the judge's and not the questions'."""
        self._failures_in_a_row += 1
        if not self._proved and fault.kind not in ("malformed", "prompt"):
            self._end(f"failed at the first call: {fault.message}; {CHECK}")
        elif self._failures_in_a_row >= max(FAILURES_IN_A_ROW, 2 * self._config.max_concurrency):
            self._end(f"failed {self._failures_in_a_row} times in a row, at last: {fault.type}: {fault.message}")

    def _end(self, reason: str) -> None:
        at = f" at {self._config.base_url}" if self._config.base_url else ""
        reason = f"the judge {self._chat.label}{at} {reason}"
        if not self._proved and self.fatal is None:
            self.fatal = JudgeError(reason)
        self.account.stop(reason)


def _tokens(count: object, text: str) -> int:
    """Return the count of a server, or our own of the text where it gives none that can be."""
    return count if type(count) is int and 0 < count < MOST_TOKENS else count_tokens(text)
