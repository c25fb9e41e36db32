"""From a prompt to a verdict: out of the store, or bought within the budget, paced, tried again, repaired, and kept."""

import asyncio
import functools
import logging
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pydantic import BaseModel

from evals.errors import JudgeError
from evals.judge.budget import Ledger, Usage
from evals.judge.cache import Stored, VerdictStore
from evals.judge.chat import Answer, Chat
from evals.judge.config import JudgeConfig
from evals.judge.faults import Fault, read_fault, rejects_structure
from evals.judge.gate import Gate
from evals.judge.keys import Keys
from evals.judge.parse import MalformedError, read_verdict
from evals.records import Failure, Unscored
from retrievers.tokens import count_tokens

log = logging.getLogger(__name__)
Schema = TypeVar("Schema", bound=BaseModel)
Outcome = str | Failure | Unscored
"""The verdict as JSON, or why there is none."""
ATTEMPTS = 8
BASE_S, CAP_S, LONGEST_S = 0.5, 8.0, 60.0
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


@dataclass(frozen=True, kw_only=True)
class _Reply:
    """What one request came to: a verdict, an answer that is none, or a fault; and its tokens."""

    verdict: str = ""
    malformed: MalformedError | None = None
    fault: Fault | None = None
    tokens: tuple[int, int] = (0, 0)
    seconds: float = 0.0


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
        self._pool = ThreadPoolExecutor(config.max_concurrency, thread_name_prefix="judge")
        self._known: dict[bytes, Outcome | asyncio.Future[Outcome]] = {}
        self._first = asyncio.Lock()
        self._proved = False
        self._structured = config.structured != "off"
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
        stored = self._store.get(key) if self._store and not self._config.refresh else None
        if stored:
            self._ledger.count_hit()
            return stored.answer
        outcome = await self._first_or_later(functools.partial(self._buy, key, prompt, schema))
        if isinstance(outcome, Failure):
            self._ledger.count_failure()
            log.error("no verdict: %s: %s", outcome.type, outcome.message, extra={"stage": "judge"})
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
        text, left, repaired = prompt, self._config.deadline_s, False
        for attempt in range(1, ATTEMPTS + 1):
            reply = await self._request(key, text, schema, left)
            if isinstance(reply, Unscored):
                return reply
            if reply.verdict:
                return reply.verdict
            left -= reply.seconds
            if reply.malformed:
                if repaired:
                    return Failure(type=reply.malformed.type, message=str(reply.malformed))
                repaired, text = True, REPAIR.format(prompt=prompt, reason=reply.malformed)
                continue
            assert reply.fault is not None
            wait = self._wait(reply.fault, attempt, left)
            if wait is None:
                return self._given_up(reply.fault, attempt)
            if reply.fault.kind == "rate_limit":
                self._gate.limited(wait)
            else:
                await asyncio.sleep(wait)
                left -= wait
        raise AssertionError("the last attempt has no wait")

    async def _request(self, key: bytes, text: str, schema: type[BaseModel], left: float) -> _Reply | Unscored:
        estimate = (len(text) // CHARACTERS_PER_TOKEN, self._usual_answer())
        if self.usage.stopped:
            return Unscored(reason=self.usage.stopped)
        async with self._gate.enter(sum(estimate)):
            if self.usage.stopped or not self._ledger.reserve(*estimate):
                return Unscored(reason=self.usage.stopped)
            call = functools.partial(self._call, key, text, schema, min(left, self._config.timeout_s))
            reply = _Reply()
            try:
                reply = await asyncio.get_running_loop().run_in_executor(self._pool, call)
            except JudgeError as error:  # the verdict could not be kept; buying more would lose more
                self._ledger.stop(str(error))
                return Unscored(reason=str(error))
            finally:
                self._ledger.settle(estimate, reply.tokens)
        if reply.fault is None:
            self._gate.succeeded()
        return reply

    def _call(self, key: bytes, text: str, schema: type[BaseModel], timeout_s: float) -> _Reply:
        """One request, in a thread of the pool; a verdict is on disk before the thread takes the next."""
        start = time.monotonic()
        try:
            answer = self._ask_model(text, schema, timeout_s)
        except Exception as error:  # every provider has its own tree
            return _Reply(fault=read_fault(error), seconds=time.monotonic() - start)
        tokens = (
            count_tokens(text) if answer.tokens_in is None else answer.tokens_in,
            count_tokens(answer.text) if answer.tokens_out is None else answer.tokens_out,
        )
        try:
            verdict = read_verdict(answer, schema).model_dump_json()
        except MalformedError as error:
            return _Reply(malformed=error, tokens=tokens, seconds=time.monotonic() - start)
        if self._store:
            model = f"{self._chat.provider}:{self._chat.name}"
            kept = Stored(model=model, kind=schema.__name__, answer=verdict, tokens_in=tokens[0], tokens_out=tokens[1])
            self._store.put(key, kept)
        return _Reply(verdict=verdict, tokens=tokens, seconds=time.monotonic() - start)

    def _ask_model(self, text: str, schema: type[BaseModel], timeout_s: float) -> Answer:
        structured = self._structured
        try:
            return self._chat.ask(text, schema, timeout_s, structured=structured)
        except Exception as error:
            if not (structured and self._config.structured == "auto" and rejects_structure(error)):
                raise
            log.warning("the judge's server takes no request for JSON (%s); JSON is read out of its text", error)
            self._structured = False
            return self._chat.ask(text, schema, timeout_s, structured=False)

    def _usual_answer(self) -> int:
        usage = self.usage
        done = max(1, usage.calls)
        return usage.tokens_out // done if usage.tokens_out else min(USUAL_ANSWER, self._config.max_output_tokens)

    def _wait(self, fault: Fault, attempt: int, left: float) -> float | None:
        """Seconds until the next attempt, None when there is none."""
        if fault.kind in ("hopeless", "refused") or attempt == ATTEMPTS or left <= 0:
            return None
        if fault.kind == "rate_limit":
            wait = min(LONGEST_S, 2.0**attempt) if fault.retry_after_s is None else fault.retry_after_s
            return wait if wait < left else None
        wait = (fault.retry_after_s or 0.0) + random.uniform(0, min(CAP_S, BASE_S * 2 ** (attempt - 1)))
        if wait >= left:
            return None
        log.warning(
            "judge: attempt %d failed, trying again in %.2f s: %s", attempt, wait, fault.message,
            extra={"stage": "judge", "attempt": attempt},
        )  # fmt: skip
        return wait

    def _given_up(self, fault: Fault, attempts: int) -> Outcome:
        if fault.kind == "hopeless":
            if not self._proved:
                self.fatal = JudgeError(f"the judge {self._chat.provider}:{self._chat.name} refused: {fault.message}")
            self._ledger.stop(f"the judge refuses every call: {fault.message}")
        tried = f" ({attempts} attempts)" if attempts > 1 else ""
        return Failure(type=fault.type, message=fault.message + tried)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
