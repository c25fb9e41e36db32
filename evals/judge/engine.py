"""From a prompt to a verdict: out of the store, or bought; each distinct prompt once."""

import asyncio
import logging
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pydantic import BaseModel

from evals.errors import JudgeError
from evals.judge.budget import Ledger, Usage
from evals.judge.buyer import Buyer, Outcome
from evals.judge.cache import VerdictStore
from evals.judge.chat import Chat
from evals.judge.config import JudgeConfig
from evals.judge.keys import Keys
from evals.records import Failure, Unscored

log = logging.getLogger(__name__)
Schema = TypeVar("Schema", bound=BaseModel)


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
        self._config, self._store, self._ledger = config, store, ledger
        self._keys = Keys(chat)
        self._buyer = Buyer(chat, config, store, ledger)
        self._known: dict[bytes, Outcome | asyncio.Future[Outcome]] = {}
        self._first = asyncio.Lock()

    @property
    def usage(self) -> Usage:
        """What was spent so far."""
        return self._ledger.usage

    @property
    def fatal(self) -> JudgeError | None:
        """Why nothing at all can be judged, None while something may be."""
        return self._buyer.health.fatal

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
        outcome = await self._first_or_later(key, prompt, schema)
        if isinstance(outcome, Failure):
            self._ledger.count_failure()
        return outcome

    async def _first_or_later(self, key: bytes, prompt: str, schema: type[BaseModel]) -> Outcome:
        """Let the first call prove key, model and address before any other is made."""
        health = self._buyer.health
        if not health.proved:
            async with self._first:
                if not health.proved and health.fatal is None:
                    outcome = await self._buyer.buy(key, prompt, schema)
                    health.proved = health.fatal is None
                    return outcome
        return await self._buyer.buy(key, prompt, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait for the calls in flight, whatever has happened: they are paid for, and their verdicts are kept.

        Raises:
            KeyboardInterrupt: It was interrupted again, and waits no longer.
        """
        if kind is not None and issubclass(kind, KeyboardInterrupt) and (count := self._buyer.in_flight):
            most = f"up to {self._config.timeout_s:g} s"
            said = "interrupted: waiting %s for the %d calls in flight, whose verdicts are kept; again to end at once"
            log.warning(said, most, count)
        self._buyer.finish()
