"""From a prompt to a verdict: out of the store, or bought within the budget, paced, tried again, repaired, and kept."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pydantic import BaseModel

from evals.errors import JudgeError
from evals.judge.bound import Bound
from evals.judge.budget import Ledger, Tokens, Usage
from evals.judge.cache import VerdictStore
from evals.judge.call import Caller, Reply
from evals.judge.chat import Chat
from evals.judge.config import JudgeConfig
from evals.judge.faults import Fault, wait_s
from evals.judge.gate import Gate
from evals.judge.keys import Keys
from evals.judge.workers import Workers
from evals.records import Failure, Unscored

log = logging.getLogger(__name__)
Schema = TypeVar("Schema", bound=BaseModel)
Outcome = str | Failure | Unscored
"""The verdict as JSON, or why there is none."""
ATTEMPTS = 8
IN_A_ROW = 16
"""Verdicts that fail one after the other, and at least twice as many as are asked for at once: then judging ends."""
LEAST_S = 0.1
CHARACTERS_PER_TOKEN = 4
USUAL_ANSWER = 150
REPAIR = """{prompt}

Your last answer could not be used: {reason}
Answer again, with one JSON object that complies with the schema and nothing else."""


class Asker(Protocol):
    """What answers prompts with verdicts."""

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """The verdict on a prompt.

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
    """Answers each distinct prompt once. To be used in one event loop, as a context manager."""

    def __init__(
        self,
        chat: Chat,
        config: JudgeConfig,
        store: VerdictStore | None,
        ledger: Ledger,
    ) -> None:
        self._chat, self._config, self._store, self._ledger = chat, config, store, ledger
        self._keys = Keys(chat)
        self._gate = Gate(config)
        self._caller = Caller(chat, config, store)
        self._workers = Workers(config.max_concurrency, "judge")
        self._flights: set[Future[Reply]] = set()
        self._known: dict[bytes, Outcome | asyncio.Future[Outcome]] = {}
        self._bound = Bound(config.max_output_tokens)
        self._settled = asyncio.Event()
        self._first = asyncio.Lock()
        self._proved = self._answered = ledger.usage.tokens_out > 0
        self._in_a_row = 0
        self.fatal: JudgeError | None = None

    @property
    def usage(self) -> Usage:
        """What was spent so far."""
        return self._ledger.usage

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """The verdict on a prompt, bought at most once.

        Raises:
            UnansweredError: It could not be had; the reason is in `outcome`.
        """
        key = self._keys.key(prompt, schema)
        known = self._known.get(key)
        if known is None:
            future = self._known[key] = asyncio.ensure_future(self._find(key, prompt, schema))
            outcome = self._known[key] = await future
        else:
            outcome = await known if isinstance(known, asyncio.Future) else known
            if isinstance(outcome, str):
                self._ledger.count_hit()
        if not isinstance(outcome, str):
            raise UnansweredError(outcome)
        return schema.model_validate_json(outcome)

    async def _find(self, key: bytes, prompt: str, schema: type[BaseModel]) -> Outcome:
        try:
            stored = self._store.get(key) if self._store and not self._config.refresh else None
        except JudgeError as error:
            self._ledger.stop(str(error))
            return Unscored(reason=self.usage.stopped)
        if stored:
            self._ledger.count_hit()
            return stored.answer
        outcome = await self._first_or_later(functools.partial(self._buy, key, prompt, schema))
        if isinstance(outcome, Failure):
            self._ledger.count_failure()
        return outcome

    async def _first_or_later(self, buy: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Let the first call prove key, model and address before any other is made."""
        if not self._proved:
            async with self._first:
                if not self._proved and self.fatal is None:
                    outcome = await buy()
                    self._proved = self.fatal is None
                    return outcome
        return await buy()

    async def _buy(self, key: bytes, prompt: str, schema: type[BaseModel]) -> Outcome:
        text, left, attempt, repaired = prompt, self._config.deadline_s, 0, False
        while True:
            attempt += 1
            reply = await self._request(key, text, schema, left)
            if isinstance(reply, Unscored):
                return reply
            left -= reply.seconds
            if reply.verdict:
                return reply.verdict
            if reply.plain:
                continue
            if reply.malformed:
                if repaired or attempt >= ATTEMPTS or left <= 0:
                    return Failure(type=reply.malformed.type, message=str(reply.malformed))
                repaired, text = True, REPAIR.format(prompt=prompt, reason=reply.malformed)
                continue
            assert reply.fault is not None
            waited = await self._wait(reply.fault, attempt, left)
            if waited is None:
                return self._given_up(reply.fault, attempt)
            left -= waited

    async def _wait(self, fault: Fault, attempt: int, left: float) -> float | None:
        """Wait for the next attempt; the seconds of this verdict's time that it took, None when there is none."""
        wait = wait_s(fault, attempt, left) if attempt < ATTEMPTS else None
        if wait is None:
            return None
        about = {"stage": "judge", "attempt": attempt}
        log.info("attempt %d failed, trying again in %.2f s: %s", attempt, wait, fault.message, extra=about)
        if fault.kind == "rate_limit":  # everybody waits: it is the pace of the run, and not this verdict's time
            self._gate.limited(wait)
            return 0.0
        await asyncio.sleep(wait)
        return wait

    async def _request(self, key: bytes, text: str, schema: type[BaseModel], left: float) -> Reply | Unscored:
        if self.usage.stopped:
            return Unscored(reason=self.usage.stopped)
        async with self._gate.enter(len(text) // CHARACTERS_PER_TOKEN + self._usual_answer()):
            most = self._bound.most(text) if self._ledger.counts_tokens else (0, 0)
            if not await self._reserved(most):
                return Unscored(reason=self.usage.stopped)
            timeout_s = max(LEAST_S, min(left, self._config.timeout_s))
            call = functools.partial(self._caller.call, key, text, schema, timeout_s)
            tokens: Tokens | None = None
            try:
                reply = await asyncio.wrap_future(self._submit(call))
                tokens = reply.tokens
            finally:
                self._ledger.settle(most, tokens)
                self._settled.set()
        if reply.verdict or reply.malformed:
            self._gate.succeeded()
            self._answered, self._in_a_row = True, 0
            if tokens and self._ledger.counts_tokens:
                self._bound.learn(text, tokens)
        if reply.unkept:  # buying more would lose more
            self._ledger.stop(reply.unkept)
        return reply

    async def _reserved(self, most: Tokens) -> bool:
        """Set the most that a call can cost aside, once the calls in flight have left room for it."""
        while not self.usage.stopped:
            if (room := self._ledger.reserve(most)) != "in flight":
                return room == "enough"
            self._settled.clear()
            await self._settled.wait()
        return False

    def _submit(self, call: Callable[[], Reply]) -> Future[Reply]:
        flight = self._workers.submit(call)
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)
        return flight

    def _usual_answer(self) -> int:
        usage = self.usage
        done = max(1, usage.calls)
        return usage.tokens_out // done if usage.tokens_out else min(USUAL_ANSWER, self._config.max_output_tokens)

    def _given_up(self, fault: Fault, attempts: int) -> Outcome:
        """The failure of a verdict; ends judging where those to come would fail as well."""
        name = f"{self._chat.provider}:{self._chat.name}"
        tried = f" ({attempts} attempts)" if attempts > 1 else ""
        self._in_a_row += 1
        if fault.kind == "hopeless":
            self._end(f"the judge {name} refuses every call: {fault.message}", fatal=not self._proved)
        elif not self._proved and fault.kind != "refused":
            self._end(f"the judge {name} cannot be reached: {fault.message}{tried}", fatal=True)
        elif self._in_a_row >= max(IN_A_ROW, 2 * self._config.max_concurrency):
            said = f"the judge {name} failed {self._in_a_row} times in a row, at last: {fault.message}"
            self._end(said, fatal=not self._answered)
        return Failure(type=fault.type, message=fault.message + tried)

    def _end(self, reason: str, *, fatal: bool) -> None:
        if fatal and self.fatal is None:
            self.fatal = JudgeError(reason)
        self._ledger.stop(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait for the calls in flight, whatever has happened: they are paid for, and their verdicts are kept.

        Raises:
            KeyboardInterrupt: It was interrupted again, and waits no longer.
        """
        if kind is not None and issubclass(kind, KeyboardInterrupt) and (count := len(self._flights)):
            most = f"up to {self._config.timeout_s:g} s"
            said = "interrupted: waiting %s for the %d calls in flight, whose verdicts are kept; again to end at once"
            log.warning(said, most, count)
        self._workers.finish()
