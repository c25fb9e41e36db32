"""How fast calls may be made: so many at once, so many a minute, so many tokens a minute, fewer when a server asks.

After a rate limit the gate is closed for as long as the server asked, and half as many calls are let in at once; each
success lets in a little more (additive increase, multiplicative decrease: Chiu and Jain 1989).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from evals.judge.config import JudgeConfig


class Pace:
    """An even pace: `ready` is the moment from which the next may go."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self.ready = 0.0

    def take(self, amount: float, now: float) -> None:
        """Let `amount` of them go now."""
        self.ready = max(self.ready, now) + amount * self._interval


class Gate:
    """Lets calls in, in the order they came, for one event loop."""

    def __init__(
        self,
        config: JudgeConfig,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._most = config.max_concurrency
        self._limit = float(config.max_concurrency)
        self._requests = Pace(config.requests_per_minute)
        self._tokens = Pace(config.tokens_per_minute)
        self._closed_until = self._halved = 0.0
        self._inside = 0
        self._now, self._sleep = now, sleep
        self._door = asyncio.Lock()  # hands itself over in the order of asking
        self._left = asyncio.Event()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return max(1, int(self._limit))

    @asynccontextmanager
    async def enter(self, tokens: int) -> AsyncIterator[None]:
        """Wait for the turn of a call of so many tokens, and hold a place while it runs."""
        async with self._door:
            while self._inside >= self.limit:
                self._left.clear()
                await self._left.wait()
            while (wait := max(self._closed_until, self._requests.ready, self._tokens.ready) - self._now()) > 0:
                await self._sleep(wait)
            self._inside += 1
            self._requests.take(1, self._now())
            self._tokens.take(tokens, self._now())
        try:
            yield
        finally:
            self._inside -= 1
            self._left.set()

    def limited(self, wait_s: float) -> None:
        """The server refused for now: let nobody in for so long, and then half as many (once for each closing)."""
        now = self._now()
        if now >= self._halved:
            self._limit = max(1.0, self._limit / 2)
        self._closed_until = self._halved = max(self._closed_until, now + wait_s)

    def succeeded(self) -> None:
        """A call came through: let in one more after as many successes as calls are let in."""
        self._limit = min(float(self._most), self._limit + 1 / self._limit)
