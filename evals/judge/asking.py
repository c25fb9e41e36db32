"""From a prompt to a verdict: out of the store, or bought once, with a repair, retries and the server's waits."""

import asyncio
import logging
import random
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from evals.collect.observations import Failure, Unscored
from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge import faults
from evals.judge.answers import Answer, MalformedError, read_verdict
from evals.judge.budget import Account, Tokens
from evals.judge.chat import Chat
from evals.judge.faults import Fault, read_fault, rejects_structure
from evals.judge.pace import Pace
from evals.judge.store import VerdictStore
from retrievers.config.files import FileLock
from retrievers.embedding.tokens import count_tokens
from retrievers.text.secrets import without_secrets

log = logging.getLogger(__name__)
Schema = TypeVar("Schema", bound=BaseModel)
Result = TypeVar("Result")
# The verdict as JSON, or why there is none.
Outcome = str | Failure | Unscored
# Attempts for one verdict, the repair of an invalid answer included; and their time, in timeouts of one request.
ATTEMPTS, DEADLINE = 8, 3
# Failures in a row, and at least twice the number of concurrent calls, after which judging ends; and refusals in a row
# of a key or model that was accepted before, beyond the number of concurrent calls.
FAILURES_IN_A_ROW, MORE_REFUSALS = 32, 2
# Seconds that a server may let no call through because of their rate, before judging ends.
PATIENCE_S = 180.0
# Seconds between two looks whether another process still buys verdicts of the model, and until it is said.
POLL_S, SAID_AFTER_S = 0.2, 5.0
# For the pace alone, which needs no exact count; English text has about four characters a token.
CHARACTERS_PER_TOKEN = 4
USUAL_ANSWER = 150
# No model reads or writes so many tokens: a server that says so is not believed.
MOST_TOKENS = 10**9
REPAIR = """{prompt}

Your last answer could not be used: {reason}
Answer again, with one JSON object that complies with the schema and nothing else."""


class Asker(Protocol):
    """Source of verdicts on prompts."""

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the verdict on a prompt.

        Raises:
            UnansweredError: There is none.
        """
        ...


class UnansweredError(Exception):
    """A verdict could not be had; `outcome` says why."""

    def __init__(self, outcome: Failure | Unscored) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class Engine:
    """Answers each distinct prompt once, on one event loop.

    Attributes:
        account: Spending on the model.
        fatal: Reason why nothing can be judged; None while judging is possible.
    """

    def __init__(self, chat: Chat, config: JudgeConfig, store: VerdictStore | None, account: Account) -> None:
        self._chat, self._config, self._store, self.account = chat, config, store, account
        self.pace = Pace(config, ended=lambda: bool(account.usage.stopped))
        self.fatal: JudgeError | None = None
        self._asked: dict[bytes, asyncio.Future[Outcome]] = {}
        self._structured = True
        # True once key, model and address were accepted, and once there was a verdict.
        self._proved = self._judged = account.usage.tokens_out > 0
        self._failures = self._refusals = 0
        self._first, self._turn = asyncio.Lock(), asyncio.Lock()
        self._lock: FileLock | None = None

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the verdict on a prompt, bought at most once.

        Raises:
            UnansweredError: It could not be had; the reason is in `outcome`.
        """
        key = self._chat.key(prompt, schema)
        known = key in self._asked
        if not known:
            # Stored before the first await, so that a concurrent equal prompt waits for it.
            self._asked[key] = asyncio.ensure_future(self._find(key, prompt, schema))
        # Whoever asks may be cancelled; a call that was sent is paid for, and its verdict is stored.
        outcome = await asyncio.shield(self._asked[key])
        if not isinstance(outcome, str):
            raise UnansweredError(outcome)
        if known:
            self.account.count(hits=1)
        return schema.model_validate_json(outcome)

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do work that asks; whatever ends it, the calls in flight are waited for.

        Raises:
            JudgeError: Nothing can be judged.
        """
        try:
            return await work
        except asyncio.CancelledError:
            if count := self.account.in_flight:
                text = "interrupted: waiting up to %g s for the %d calls in flight, whose verdicts are kept; again to "
                log.warning(text + "end at once", self._config.timeout_s, count)
            self.account.stop("interrupted")
            await self._calls_in_flight()
            raise
        except Exception:
            await self._calls_in_flight()
            raise
        finally:
            if self._lock:
                self._lock.release()
                self._lock = None

    async def _calls_in_flight(self) -> None:
        """Wait for what is paid for."""
        if unfinished := [task for task in self._asked.values() if not task.done()]:
            await asyncio.wait(unfinished)

    async def _find(self, key: bytes, prompt: str, schema: type[BaseModel]) -> Outcome:
        try:
            stored = self._stored(key, schema)
            if stored is None and self._store:
                await self._wait_for_others(self._store)
                stored = self._stored(key, schema)
        except JudgeError as error:
            self.account.stop(str(error))
            return self._held_back()
        if stored is not None:
            self.account.count(hits=1)
            return stored
        # The first call proves key, model and address before any other is made.
        if not self._proved:
            async with self._first:
                if not self._proved and self.fatal is None:
                    outcome = await self._buy(key, prompt, schema)
                    self._proved = self.fatal is None
                    return outcome
        return await self._buy(key, prompt, schema)

    def _stored(self, key: bytes, schema: type[BaseModel]) -> str | None:
        return self._store.get(key, schema) if self._store else None

    def _held_back(self) -> Unscored:
        return Unscored(reason=self.account.usage.stopped, missing=True)

    async def _wait_for_others(self, store: VerdictStore) -> None:
        """Wait until no other process buys verdicts of the model, and keep others from it until the work is done."""
        async with self._turn:
            looks = 0
            while not self._lock and not self.account.usage.stopped:
                self._lock = store.buying(self._chat.label)
                if self._lock is None:
                    looks += 1
                    if looks == SAID_AFTER_S // POLL_S:
                        log.warning("waiting for another run, which buys verdicts of %s", self._chat.label)
                    await asyncio.sleep(POLL_S)

    async def _buy(self, key: bytes, prompt: str, schema: type[BaseModel]) -> Outcome:
        """Buy the verdict on a prompt, or return why it cannot be had.

        A wait that the server asks for is no attempt and takes nothing of the verdict's time: it is the run's pace.
        """
        text, attempt, left = prompt, 1, DEADLINE * self._config.timeout_s
        while True:
            result, seconds = await self._attempt(key, prompt, text, schema, min(left, self._config.timeout_s))
            left -= seconds
            if isinstance(result, MalformedError):
                # One repair only: a model that fails twice at the format rarely recovers, and each try is billed.
                if text is not prompt or attempt >= ATTEMPTS or left <= 0:
                    self.account.count(failed=1)
                    return Failure(type="Malformed", message=str(result))
                text = REPAIR.format(prompt=prompt, reason=result)
            elif isinstance(result, Fault):
                wait = self._wait_s(result, attempt, left)
                if wait is None:
                    return self._given_up(result, attempt)
                if result.kind == "limited":
                    self.pace.refused(wait)
                    if result.retry_after_s:
                        continue
                else:
                    about = {"stage": "judge", "attempt": attempt}
                    log.info(
                        "attempt %d failed, trying again in %.2f s: %s", attempt, wait, result.message, extra=about
                    )
                    await asyncio.sleep(wait)
                    left -= wait
            elif result is None:
                continue
            else:
                return result
            attempt += 1

    async def _attempt(
        self, key: bytes, prompt: str, text: str, schema: type[BaseModel], seconds: float
    ) -> tuple[Outcome | MalformedError | Fault | None, float]:
        """Make one call as the pace and the budget allow; None where the server takes no request for JSON.

        Returns:
            What came of it, and the seconds that the call took.
        """
        async with self.pace.turn(len(text) // CHARACTERS_PER_TOKEN + self._usual_answer()):
            if not await self.account.reserve(text):
                return self._held_back(), 0.0
            clock = asyncio.get_running_loop().time
            start, structured = clock(), self._structured
            spent: Tokens | None = None
            try:
                async with asyncio.timeout(seconds):
                    answer = await self._chat.ask(text, schema, structured=structured)
                # Counts that no server can mean are estimated from the texts, so that a budget still holds.
                spent = _tokens(answer.tokens_in, text), _tokens(answer.tokens_out, answer.text)
            except Exception as error:  # every provider has its own tree of errors
                refused = structured and rejects_structure(error)
                fault = None if refused else read_fault(error)
                spent = None if fault and fault.billed else (0, 0)
                if refused:
                    self._without_structure(error)
                return fault, clock() - start
            finally:
                # Also on cancellation: a reserve that stays would block the budget of all others.
                self.account.settle(text, spent)
            return self._read(key, prompt, schema, answer, spent), clock() - start

    def _read(
        self, key: bytes, prompt: str, schema: type[BaseModel], answer: Answer, spent: Tokens
    ) -> str | MalformedError:
        """Read the verdict, and commit it before its call counts as done."""
        self.pace.succeeded()
        try:
            # Again: the answer may have spelled a secret with escapes of JSON.
            verdict = without_secrets(read_verdict(answer, schema, prompt).model_dump_json())
        except MalformedError as error:
            self._refusals = 0
            self._note_failure(f"Malformed: {error}")
            return error
        self._judged, self._failures, self._refusals = True, 0, 0
        try:
            if self._store:
                self._store.put(key, self._chat.label, schema.__name__, verdict, spent)
        except JudgeError as error:  # buying more would lose more
            self.account.stop(str(error))
        return verdict

    def _wait_s(self, fault: Fault, attempt: int, left: float) -> float | None:
        """Return the seconds until the next attempt; None where there is none."""
        if fault.kind == "hopeless":
            self._refusals += 1
            if not self._proved or self._refusals >= self._config.max_concurrency + MORE_REFUSALS:
                self._end(f"refuses every call: {fault.message}", fatal=not self._proved)
        if fault.kind == "limited":
            wait = fault.retry_after_s or min(faults.LONGEST_S, 2.0**attempt)
            waited = self.pace.closed_s + wait
            if waited > PATIENCE_S:
                self._end(f"let no call through for {waited:.0f} s: {fault.message}", fatal=not self._judged)
                return None
            return wait if fault.retry_after_s or attempt < ATTEMPTS else None
        # A key that was accepted before may be accepted again.
        passes = fault.kind == "passing" or (fault.kind == "hopeless" and self._proved and attempt == 1)
        wait = (fault.retry_after_s or 0.0) + random.uniform(0, min(faults.CAP_S, faults.BASE_S * 2 ** (attempt - 1)))
        return wait if passes and attempt < ATTEMPTS and wait < left else None

    def _given_up(self, fault: Fault, attempts: int) -> Failure:
        message = fault.message + (f" ({attempts} attempts)" if attempts > 1 else "")
        if self._proved or fault.of_prompt:
            self._note_failure(message)
        else:
            verb = "failed at the first call" if fault.kind == "refused" else "cannot be reached"
            self._end(f"{verb}: {message}", fatal=True)
        self.account.count(failed=1)
        return Failure(type=fault.type, message=message)

    def _note_failure(self, reason: str) -> None:
        """End judging where failures in a row are due to the judge, and not to the questions."""
        self._failures += 1
        if self._failures >= max(FAILURES_IN_A_ROW, 2 * self._config.max_concurrency):
            self._end(f"failed {self._failures} times in a row, at last: {reason}", fatal=not self._judged)

    def _end(self, reason: str, *, fatal: bool) -> None:
        reason = f"the judge {self._chat.label} {reason}"
        if fatal and self.fatal is None:
            self.fatal = JudgeError(reason)
        self.account.stop(reason)

    def _without_structure(self, error: Exception) -> None:
        # Several calls may find out at once; only the first one reports it.
        if self._structured:
            text = "the judge's server takes no request for JSON; it is read out of the text instead: %s"
            log.warning(text, faults.explain(error))
        self._structured = False

    def _usual_answer(self) -> int:
        usage = self.account.usage
        usual = usage.tokens_out // max(1, usage.calls)
        return usual or min(USUAL_ANSWER, self._config.max_output_tokens)


def _tokens(said: object, text: str) -> int:
    """Return the count of a server, or our own of the text where it gives none that can be."""
    plausible = isinstance(said, int) and 0 < said < MOST_TOKENS
    return said if plausible else count_tokens(text)  # type: ignore[return-value]
