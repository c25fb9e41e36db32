"""From a prompt to its verdict: read from the store, or bought once by a call of the model.

`Engine.ask` is the way in. A call that failed is repeated; an answer that is no verdict is asked for once more. If a
server says how long to wait, the engine waits. If all calls fail, it ends judging.
"""

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
from evals.judge.answers import MalformedError, Schema, read_verdict
from evals.judge.budget import Account, Pace, Tokens
from evals.judge.chat import Chat, Fault, Kind, read_fault
from evals.judge.store import VerdictStore
from retrievers.embedding.tokens import count_tokens
from retrievers.text.shown import without_secrets

log = logging.getLogger(__name__)
Result = TypeVar("Result")
# The verdict as JSON, or why there is none.
Outcome = str | Failure | Unscored
# Most attempts at one verdict, by the kind of the last fault: 14 take a minute, as long as a run waits for a store.
# Other kinds allow one attempt.
ATTEMPTS: Mapping[Kind, int] = {"passing": 14, "late": 3}
# Judging ends after so many failures in a row, or after twice the number of concurrent calls if that is more.
FAILURES_IN_A_ROW = 32
# Longest wait before the second attempt, in seconds. It doubles before each further attempt, up to the cap.
BASE_S = 0.5
CAP_S = 8.0
# Judging ends when a server has refused all calls because of their rate for so many seconds.
PATIENCE_S = 180.0
# Seconds between two looks whether another process still buys verdicts of the model. After LOOKS looks, a line says so.
POLL_S, LOOKS = 0.2, 25
# Rough sizes of English text and of a usual answer, for the pace and for plans.
CHARACTERS_PER_TOKEN = 4
USUAL_ANSWER = 150
# No model reads or writes so many tokens. A server's count from here on is not believed.
MOST_TOKENS = 10**9
REPAIR = """{prompt}

Your last answer could not be used: {reason}
Answer again, with one JSON object that complies with the schema and nothing else."""
INTERRUPTED = (
    "interrupted: waiting up to %g s for the %d calls in flight, whose verdicts are kept; again to end at once"
)
CHECK = "check judge.model, judge.base_url and the API key (judge.api_key_env names its variable)"


class Asker(Protocol):
    """Answers prompts by verdicts."""

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the verdict on a prompt.

        Raises:
            UnansweredError: There is no verdict.
        """


class UnansweredError(Exception):
    """There is no verdict on a prompt; `outcome` says why."""

    def __init__(self, outcome: Failure | Unscored) -> None:
        super().__init__(outcome.reason if isinstance(outcome, Unscored) else outcome.failed)
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
        pace: Limit on the calls at once and a minute.
        fatal: Reason why nothing can be judged; None while judging is possible.
    """

    def __init__(self, chat: Chat, config: JudgeConfig, store: VerdictStore, account: Account) -> None:
        self._chat = chat
        self._config = config
        self._store = store
        self.account = account
        self.pace = Pace(config, ended=lambda: bool(account.usage.stopped))
        self.fatal: JudgeError | None = None
        # Every prompt that was asked, by the key of its verdict.
        self._outcomes: dict[bytes, asyncio.Future[Outcome]] = {}
        # False once the server has refused a request for JSON.
        self._structured = True
        # True once the server has accepted key, model and address.
        self._is_accepted = account.usage.tokens_out > 0
        self._failures_in_a_row = 0
        self._has_waited = False
        self._first_call = asyncio.Lock()

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the verdict on a prompt, which is bought at most once.

        Raises:
            UnansweredError: There is no verdict; `outcome` says why.
        """
        key = self._chat.key(prompt, schema)
        if key not in self._outcomes:
            # Set before the first await, so that an equal prompt that is asked meanwhile waits for the same outcome.
            self._outcomes[key] = asyncio.ensure_future(self._read_or_buy(Question(prompt, schema, key)))
        # The caller may be cancelled. A call that was sent is paid for, so it goes on, and its verdict is stored.
        outcome = await asyncio.shield(self._outcomes[key])
        if not isinstance(outcome, str):
            raise UnansweredError(outcome)
        return schema.model_validate_json(outcome)

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Run work that asks this engine.

        Only one process at a time buys verdicts of a model: the next one finds them stored. However the work ends, the
        engine waits for the calls in flight, since they are paid for.

        Raises:
            JudgeError: Nothing can be judged.
        """
        lock = await self._lock_model()
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
            lock.release()

    async def _lock_model(self) -> portalocker.Lock:
        """Wait until no other process buys verdicts of the model, then keep others from buying."""
        looks = 0
        while (lock := self._store.buying(self._chat.label)) is None:
            looks += 1
            if looks == LOOKS:
                log.warning("waiting for another run, which buys verdicts of %s", self._chat.label)
            await asyncio.sleep(POLL_S)
        return lock

    async def _read_or_buy(self, question: Question) -> Outcome:
        """Return the stored verdict, or buy one."""
        if verdict := self._store.get(question.key, question.schema, question.prompt):
            self.account.count(hits=1)
            return verdict
        # The first call shows whether key, model and address are right. All other calls wait for it.
        if not self._is_accepted:
            async with self._first_call:
                if not self._is_accepted and self.fatal is None:
                    outcome = await self._buy(question)
                    self._is_accepted = self.fatal is None
                    return outcome
        return await self._buy(question)

    async def _buy(self, question: Question) -> Outcome:
        """Call the model until there is a verdict, or no attempt is left.

        A call that is refused because of the rate, or because it requests JSON, does not count as an attempt.
        """
        prompt, structured, attempts = question.prompt, self._structured, 0
        while True:
            outcome = await self._call(question, prompt, structured=structured)
            if not isinstance(outcome, Fault):
                return outcome
            fault = outcome
            if fault.kind == "limited":
                if (closed_s := self.pace.refused(fault.retry_after_s)) > PATIENCE_S:
                    self._end(f"lets no call through for {closed_s:,.0f} s, more than a run waits: {fault.message}")
                continue
            if fault.kind == "plain" and structured:
                if self._structured:  # other calls in flight are refused as well; the warning is given once
                    log.warning("the judge's server takes no request for JSON: %s", fault.message)
                self._structured = structured = False
                continue
            attempts += 1
            is_malformed = fault.kind == "malformed"
            # A malformed answer is repaired once, since each call is billed.
            is_last = prompt is not question.prompt if is_malformed else attempts >= ATTEMPTS.get(fault.kind, 1)
            if is_last or is_malformed:
                self._count_failure(fault)
            if is_last:
                self.account.count(failed=1)
                return Failure(failed=f"{fault.type}: {fault.message}" + f" ({attempts} attempts)" * (attempts > 1))
            wait_s = (fault.retry_after_s or 0.0) + random.uniform(0.5, 1) * min(CAP_S, BASE_S * 2 ** (attempts - 1))
            if is_malformed:
                prompt, wait_s = REPAIR.format(prompt=question.prompt, reason=fault.message), 0.0
            level = logging.INFO if is_malformed or self._has_waited else logging.WARNING
            self._has_waited |= not is_malformed  # the judge's first wait is told, as that of a store
            log.log(level, "attempt %d failed, trying again in %.2f s: %s", attempts, wait_s, fault.message)
            await asyncio.sleep(wait_s)

    async def _call(self, question: Question, prompt: str, *, structured: bool) -> str | Unscored | Fault:
        """Call the model once, when pace and budget allow it, and store the verdict before the next call may start.

        Args:
            question: The question.
            prompt: Prompt of the question, or the one that asks for a repair.
            structured: True to request JSON by the provider's own option.

        Returns:
            The verdict as JSON; or the spent budget, or the fault of the call.
        """
        async with self.pace.turn(len(prompt) // CHARACTERS_PER_TOKEN + USUAL_ANSWER):
            size = await self.account.reserve(prompt)
            if size is None:
                return Unscored(reason=self.account.usage.stopped, missing=True)
            spent: Tokens | None = None
            try:
                async with asyncio.timeout(self._config.timeout_s):
                    answer = await self._chat.ask(prompt, question.schema, structured=structured)
                usage: Mapping[str, Any] = answer.usage_metadata or {}
                spent = _tokens(usage.get("input_tokens"), prompt), _tokens(usage.get("output_tokens"), answer.text)
            except Exception as error:  # every provider has its own tree of errors
                fault = read_fault(error)
                spent = None if fault.billed else (0, 0)
                return fault
            finally:
                # Also after a cancellation: a reserve that stays would keep the budget from other calls.
                self.account.settle(size, spent)
            self.pace.succeeded()
            try:
                verdict = read_verdict(answer, question.schema, question.prompt).model_dump_json()
                # `read_verdict` hides secrets as well, but not one that is spelled with escapes of JSON.
                verdict = without_secrets(verdict)
                self._failures_in_a_row = 0
                self._store.put(question.key, self._chat.label, question.schema.__name__, verdict, spent)
            except MalformedError as error:
                return Fault(kind="malformed", type="Malformed", message=str(error))
            except JudgeError as error:  # further verdicts could not be stored either
                self.account.stop(str(error))
            return verdict

    def _count_failure(self, fault: Fault) -> None:
        """End judging if the first call failed, or if so many failed in a row that the server must be the reason."""
        self._failures_in_a_row += 1
        if not self._is_accepted and fault.kind not in ("malformed", "prompt"):
            self._end(f"failed at the first call: {fault.message}; {CHECK}")
        elif self._failures_in_a_row >= max(FAILURES_IN_A_ROW, 2 * self._config.max_concurrency):
            self._end(f"failed {self._failures_in_a_row} times in a row, at last: {fault.message}")

    def _end(self, reason: str) -> None:
        """Stop all further calls. Before the first verdict this is an error of the judge."""
        at = f" at {self._config.base_url}" if self._config.base_url else ""
        reason = f"the judge {self._chat.label}{at} {reason}"
        if not self._is_accepted and self.fatal is None:
            self.fatal = JudgeError(reason)
        self.account.stop(reason)


def _tokens(count: object, text: str) -> int:
    """Return the tokens of a text as a server counted them; our own count if the server's is missing or impossible."""
    return count if type(count) is int and 0 < count < MOST_TOKENS else count_tokens(text)
