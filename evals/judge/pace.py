"""The pace of calls: limits on concurrent calls, calls a minute and tokens a minute, lower when a server asks.

After a rate limit nothing is sent for as long as the server asked. Then half as many calls are admitted at once, and
each success admits a little more (additive increase, multiplicative decrease: Chiu and Jain 1989).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from evals.config.judge import JudgeConfig

# Longest sleep, in seconds, before the end of judging or a further refusal is noticed.
STEP_S = 0.25


class Pace:
    """Lets calls in, in the order they came; at once when judging has ended."""

    def __init__(
        self,
        config: JudgeConfig,
        ended: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._admitted = config.max_concurrency, float(config.max_concurrency)
        self._per_call = 60.0 / config.requests_per_minute if config.requests_per_minute else 0.0
        self._per_token = 60.0 / config.tokens_per_minute if config.tokens_per_minute else 0.0
        # Moments from which the next call, and the next token, may go; and until which the server lets none through.
        self._next_call = self._next_token = self._closed_until = 0.0
        self._closed_since: float | None = None
        self._inside = 0
        self._ended, self._now = ended, now
        self._door, self._left = asyncio.Lock(), asyncio.Event()

    @property
    def limit(self) -> int:
        """Number of calls that may be in flight now."""
        return max(1, int(self._admitted))

    @property
    def closed_s(self) -> float:
        """Seconds since the first refusal after the last success; 0 when the last call came through."""
        return 0.0 if self._closed_since is None else self._now() - self._closed_since

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[None]:
        """Wait for the turn of a call of that many tokens, and hold a place while it runs."""
        # The door is held while waiting, so that no later call passes an earlier one.
        async with self._door:
            while self._inside >= self.limit:
                self._left.clear()
                await self._left.wait()
            while (wait := self._opens() - self._now()) > 0 and not self._ended():
                await asyncio.sleep(min(wait, STEP_S))
            now = self._now()
            self._next_call = max(self._next_call, now) + self._per_call
            self._next_token = max(self._next_token, now) + self._per_token * tokens
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._left.set()

    def refused(self, wait_s: float) -> None:
        """Close for so long, then admit fewer calls at once; calls in flight, refused together, lower it once."""
        now = self._now()
        self._closed_since = now if self._closed_since is None else self._closed_since
        if now >= self._closed_until:
            self._admitted = max(1.0, self._admitted / 2)
        self._closed_until = max(self._closed_until, now + wait_s)

    def succeeded(self) -> None:
        """Admit one call more after as many successes as calls are admitted."""
        self._closed_since = None
        self._admitted = min(float(self._most), self._admitted + 1 / self._admitted)

    def _opens(self) -> float:
        return max(self._closed_until, self._next_call, self._next_token)
