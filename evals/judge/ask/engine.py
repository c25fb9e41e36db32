"""From a prompt to a verdict: from the store, or bought; each distinct prompt once."""

import asyncio
import logging
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pydantic import BaseModel

from evals.collect.observations import Failure, Unscored
from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.ask.budget import Ledger, Usage
from evals.judge.ask.buyer import Buyer, VerdictOrReason
from evals.judge.ask.cache import VerdictStore
from evals.judge.ask.chat import Chat
from evals.judge.ask.checked_verdicts import CheckedVerdicts
from evals.judge.ask.keys import Keys
from evals.judge.ask.leases import RENEW_S

log = logging.getLogger(__name__)
Schema = TypeVar("Schema", bound=BaseModel)
# Seconds between two look-ups of a verdict that another process is buying.
POLL_S = 0.2


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
        self._kept = CheckedVerdicts(store) if store else None
        self._renewal: asyncio.Task[None] | None = None
        self._buyer = Buyer(chat, config, store, ledger)
        self._known: dict[bytes, VerdictOrReason | asyncio.Future[VerdictOrReason]] = {}
        self._first = asyncio.Lock()

    @property
    def usage(self) -> Usage:
        """Spending so far."""
        return self._ledger.usage

    @property
    def fatal(self) -> JudgeError | None:
        """Reason why nothing can be judged, None while judging is possible."""
        return self._buyer.health.fatal

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the verdict on a prompt, bought at most once.

        Raises:
            UnansweredError: It could not be had; the reason is in `outcome`.
        """
        key = self._keys.key(prompt, schema)
        verdict = self._known.get(key)
        if verdict is None:
            # The future is stored before the first await, so that a concurrent equal prompt waits for it.
            future = self._known[key] = asyncio.ensure_future(self._find(key, prompt, schema))
            outcome = self._known[key] = await future
        else:
            outcome = await verdict if isinstance(verdict, asyncio.Future) else verdict
            if isinstance(outcome, str):
                self._ledger.count_hit()
        if not isinstance(outcome, str):
            raise UnansweredError(outcome)
        return schema.model_validate_json(outcome)

    async def _find(self, key: bytes, prompt: str, schema: type[BaseModel]) -> VerdictOrReason:
        try:
            stored = await self._stored_or_claimed(key, schema)
        except JudgeError as error:
            self._ledger.stop(str(error))
            return Unscored(reason=self.usage.stopped, missing=True)
        if stored:
            self._ledger.count_hit()
            return stored
        outcome = await self._first_or_later(key, prompt, schema)
        if not isinstance(outcome, str) and self._store:
            # Then the claim runs out.
            with suppress(JudgeError):
                self._store.release(key)
        if isinstance(outcome, Failure):
            self._ledger.count_failure()
        return outcome

    async def _stored_or_claimed(self, key: bytes, schema: type[BaseModel]) -> str | None:
        """Wait for the verdict of a key in the store; None when this process is the one to buy it."""
        if self._store is None or self._kept is None:
            return None
        if self._renewal is None:
            self._renewal = asyncio.ensure_future(self._renew(self._store))
        while not self.usage.stopped:
            if not self._config.refresh and (stored := self._kept.get(key, schema)):
                return stored
            # Between the look-up and the claim another process may have stored the verdict and released its claim.
            if self._store.claim(key):
                return self._come_meanwhile(key, schema)
            await asyncio.sleep(POLL_S)
        return None

    def _come_meanwhile(self, key: bytes, schema: type[BaseModel]) -> str | None:
        """Return a verdict that arrived between the look-up and the claim, and give up the claim."""
        if self._store is None or self._kept is None or self._config.refresh:
            return None
        stored = self._kept.get(key, schema)
        if stored:
            self._store.release(key)
        return stored

    async def _renew(self, store: VerdictStore) -> None:
        """Renew the claims of this process, until its event loop ends."""
        while True:
            await asyncio.sleep(RENEW_S)
            with suppress(JudgeError):  # then they run out
                store.renew()

    async def _first_or_later(self, key: bytes, prompt: str, schema: type[BaseModel]) -> VerdictOrReason:
        """Let the first call prove key, model and address before any other is made."""
        health = self._buyer.health
        if not health.proved:
            async with self._first:
                if not health.proved and health.fatal is None:
                    outcome = await self._buyer.buy(key, prompt, schema)
                    # A failure of the prompt alone also proves that key, model and address work.
                    health.proved = health.fatal is None
                    return outcome
        return await self._buyer.buy(key, prompt, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait for the calls in flight in any case: they are paid for, and their verdicts are stored.

        Raises:
            KeyboardInterrupt: It was interrupted again, and waits no longer.
        """
        if kind is not None and issubclass(kind, KeyboardInterrupt) and (count := self._buyer.in_flight):
            most = f"up to {self._config.timeout_s:g} s"
            text = "interrupted: waiting %s for the %d calls in flight, whose verdicts are kept; again to end at once"
            log.warning(text, most, count)
        self._buyer.finish()
