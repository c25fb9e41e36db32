"""Buying one verdict: within the budget, at the server's pace, with retries, repair and a deadline."""

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from pydantic import BaseModel

from evals.collect.observations import Failure, Unscored
from evals.config.judge import JudgeConfig
from evals.judge.ask.budget import Ledger, Tokens
from evals.judge.ask.cache import VerdictStore
from evals.judge.ask.call import GRACE_S, Caller, Reply, late
from evals.judge.ask.chat import Chat
from evals.judge.ask.faults import Fault, wait_s
from evals.judge.ask.health import Health
from evals.judge.ask.pacing import ConcurrencyLimit
from evals.judge.ask.token_bound import Bound
from evals.judge.ask.workers import Workers

log = logging.getLogger(__name__)
# The verdict as JSON, or why there is none.
VerdictOrReason = str | Failure | Unscored
# Attempts for one verdict, the repair of an invalid answer included.
ATTEMPTS = 8
LEAST_S = 0.1
# For the pace alone, which needs no exact count; English text has about four characters a token.
CHARACTERS_PER_TOKEN = 4
USUAL_ANSWER = 150
REPAIR = """{prompt}

Your last answer could not be used: {reason}
Answer again, with one JSON object that complies with the schema and nothing else."""


class Buyer:
    """Makes the calls of one event loop."""

    def __init__(self, chat: Chat, config: JudgeConfig, store: VerdictStore | None, ledger: Ledger) -> None:
        self._config, self._ledger = config, ledger
        self.health = Health(f"{chat.provider}:{chat.name}", config.max_concurrency, ledger)
        self.gate = ConcurrencyLimit(config, ended=lambda: bool(ledger.usage.stopped))
        self._caller = Caller(chat, config, store)
        self._workers = Workers(config.max_concurrency, "judge")
        self._flights: set[Future[Reply]] = set()
        self._bound = Bound(config.max_output_tokens)
        self._settled = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """Number of calls in flight."""
        return len(self._flights)

    async def buy(self, key: bytes, prompt: str, schema: type[BaseModel]) -> VerdictOrReason:
        """Buy the verdict on a prompt and store it under its key, or return the failure.

        A wait that the server asked for is no attempt and takes nothing of the verdict's time; all such waits together
        may take as long again.
        """
        text, left, patience, attempt, repaired = prompt, self._config.deadline_s, self._config.deadline_s, 1, False
        while True:
            reply = await self._request(key, text, schema, left)
            if isinstance(reply, Unscored):
                return reply
            left -= reply.seconds
            if reply.verdict:
                return reply.verdict
            # The server refused the request for JSON, not the question: ask again in plain text, at no attempt's cost.
            if reply.plain:
                continue
            if reply.malformed:
                # One repair only: a model that fails twice at the format rarely recovers, and each try is billed.
                if repaired or attempt >= ATTEMPTS or left <= 0:
                    return Failure(type=reply.malformed.type, message=str(reply.malformed))
                repaired, text = True, REPAIR.format(prompt=prompt, reason=reply.malformed)
            # A wait that the server names is the run's pace, so it has its own allowance.
            elif reply.fault and reply.fault.kind == "rate_limit" and (seconds := reply.fault.retry_after_s):
                patience -= seconds
                if patience <= 0 or self._gave_up_waiting(reply.fault, seconds):
                    return self._given_up(reply.fault, attempt)
                self.gate.limited(seconds)
                continue
            elif reply.fault:
                waited = await self._wait(reply.fault, attempt, left)
                if waited is None:
                    return self._given_up(reply.fault, attempt)
                left -= waited
            attempt += 1

    def finish(self) -> None:
        """Wait for the calls in flight, as long as one may take.

        Raises:
            KeyboardInterrupt: It was interrupted.
        """
        self._workers.finish(self._config.timeout_s + GRACE_S)

    async def _wait(self, fault: Fault, attempt: int, left: float) -> float | None:
        """Wait for the next attempt; the seconds of this verdict's time that it took, None when there is none."""
        if fault.kind == "hopeless":
            self.health.refused(fault)
            # A key that was accepted before may be accepted again.
            if self.health.proved and attempt == 1:
                fault = replace(fault, kind="transient")
        wait = wait_s(fault, attempt, left) if attempt < ATTEMPTS else None
        if wait is None:
            return None
        about = {"stage": "judge", "attempt": attempt}
        log.info("attempt %d failed, trying again in %.2f s: %s", attempt, wait, fault.message, extra=about)
        # All calls wait: the time belongs to the run's pace, not to this verdict.
        if fault.kind == "rate_limit":
            self.gate.limited(wait)
            return 0.0
        await asyncio.sleep(wait)
        return wait

    async def _request(self, key: bytes, text: str, schema: type[BaseModel], left: float) -> Reply | Unscored:
        if self._ledger.usage.stopped:
            return Unscored(reason=self._ledger.usage.stopped, missing=True)
        async with self.gate.enter(len(text) // CHARACTERS_PER_TOKEN + self._usual_answer()):
            # Counting tokens takes time, which only a limit on tokens is worth.
            most = self._bound.most(text) if self._ledger.counts_tokens else (0, 0)
            if not await self._reserved(most):
                return Unscored(reason=self._ledger.usage.stopped, missing=True)
            timeout_s = max(LEAST_S, min(left, self._config.timeout_s))
            tokens: Tokens | None = None
            try:
                reply = await self._call(functools.partial(self._caller.call, key, text, schema, timeout_s), timeout_s)
                tokens = reply.tokens
            finally:
                # Also on cancellation: a reserve that stays would block the budget of all others.
                self._ledger.settle(most, tokens)
                self._settled.set()
        self._note(text, reply)
        return reply

    async def _call(self, call: Callable[[], Reply], timeout_s: float) -> Reply:
        """Make a call in a thread, which is left behind when it takes longer than it may."""
        flight = self._workers.submit(call)
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(flight), timeout_s + GRACE_S)
        except TimeoutError:
            self._workers.abandon(flight)
            self._flights.discard(flight)
            return late(timeout_s)

    def _note(self, text: str, reply: Reply) -> None:
        """Let the pace, the budget and the judge's health know of a reply."""
        if reply.verdict or reply.malformed:
            self.gate.succeeded()
            if reply.tokens and self._ledger.counts_tokens:
                self._bound.learn(text, reply.tokens)
        if reply.verdict:
            self.health.judged()
        if reply.malformed:
            self.health.malformed(f"{reply.malformed.type}: {reply.malformed}")
        # Buying more would lose more.
        if reply.unkept:
            self._ledger.stop(reply.unkept)

    async def _reserved(self, most: Tokens) -> bool:
        """Set the most that a call can cost aside, once the calls in flight have left room for it."""
        while not self._ledger.usage.stopped:
            if (room := self._ledger.reserve(most)) != "in flight":
                return room == "enough"
            self._settled.clear()
            await self._settled.wait()
        return False

    def _usual_answer(self) -> int:
        usage = self._ledger.usage
        calls = max(1, usage.calls)
        return usage.tokens_out // calls if usage.tokens_out else min(USUAL_ANSWER, self._config.max_output_tokens)

    def _gave_up_waiting(self, fault: Fault, seconds: float) -> bool:
        """Return True if no call has succeeded for so long that none will."""
        waited = self.gate.closed_s + seconds
        if waited <= self._config.deadline_s:
            return False
        self.health.limited(waited, fault.message)
        return True

    def _given_up(self, fault: Fault, attempts: int) -> Failure:
        message = fault.message + (f" ({attempts} attempts)" if attempts > 1 else "")
        self.health.failed(fault, message)
        return Failure(type=fault.type, message=message)
