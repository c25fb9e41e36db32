"""The pace of calls: limits on concurrent calls, calls a minute and tokens a minute, lower when a server asks.

After a rate limit the gate is closed for as long as the server asked. Then half as many calls are admitted at once, and
each success admits a little more (additive increase, multiplicative decrease: Chiu and Jain 1989). They go at the pace
that the server accepted before, its wait included; the longer nothing is refused, the faster that pace grows.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from evals.config.judge import JudgeConfig

# A learnt pace grows by the factor e within this many times the span it was learnt in, bounded by these seconds.
CYCLES, SHORTEST_S, LONGEST_S = 10, 5.0, 60.0

# Longest sleep, in seconds, before the end of judging is noticed.
STEP_S = 0.25


class Pace:
    """An even pace: `ready` is the moment from which the next may go."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self.ready = 0.0

    def take(self, amount: float, now: float) -> None:
        """Let `amount` of them go now."""
        self.ready = max(self.ready, now) + amount * self._interval


class LearntPace:
    """The pace that a server lets through, learnt from its refusals.

    Between two refusals n calls came through in a span of s seconds (with the wait at its end): n / s is a pace it can
    take; if none came, it is halved, down to one for each wait. It grows by exp((t / T)²) in the t seconds after the
    wait; T is 10 s, at least 5 and at most 60 seconds. So a pace that was right is exceeded seldom, and one that was
    too slow is left behind soon.
    """

    def __init__(self) -> None:
        self.ready = 0.0
        # Start at the first success: the time before it is the client's own start.
        self._since: float | None = None
        self._came = 0
        self._rate = math.inf
        self._growth_s = LONGEST_S

    def rate(self, now: float) -> float:
        """Return the calls a second at a moment."""
        age = 0.0 if self._since is None else max(0.0, now - self._since)
        return self._rate * math.exp(min(50.0, (age / self._growth_s) ** 2))

    def take(self, now: float) -> None:
        """Let a call go now."""
        self.ready = max(self.ready, now) + 1 / self.rate(now)

    def came_through(self, now: float) -> None:
        """Note a call that succeeded."""
        self._since = now if self._since is None else self._since
        self._came += 1

    def refused(self, now: float, until: float) -> None:
        """Note a refused call, and the moment until which the server asks to wait."""
        if self._came and self._since is not None:
            span = max(until - self._since, 1e-3)
            self._rate, self._growth_s = self._came / span, min(LONGEST_S, max(SHORTEST_S, CYCLES * span))
        else:
            # No call came through since the last refusal, so there is no pace to learn: halve it.
            self._rate = max(self.rate(now) / 2, 1 / max(until - now, 1e-3))
        self._since, self._came = until, 0


class ConcurrencyLimit:
    """Lets calls in, in the order they came, for one event loop; at once when judging has ended."""

    def __init__(
        self,
        config: JudgeConfig,
        ended: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._most = config.max_concurrency
        self._limit = float(config.max_concurrency)
        self._requests = Pace(config.requests_per_minute)
        self._tokens = Pace(config.tokens_per_minute)
        self._learnt = LearntPace()
        self._closed_until = 0.0
        self._closed_since: float | None = None
        self._inside = 0
        self._ended, self._now, self._sleep = ended, now, sleep
        # Passes to the tasks in the order of their requests.
        self._door = asyncio.Lock()
        self._left = asyncio.Event()

    @property
    def limit(self) -> int:
        """Number of calls that may be in flight now."""
        return max(1, int(self._limit))

    @property
    def closed_s(self) -> float:
        """Seconds since the first refusal after the last success; 0 when the last call came through."""
        return 0.0 if self._closed_since is None else self._now() - self._closed_since

    @asynccontextmanager
    async def enter(self, tokens: int) -> AsyncIterator[None]:
        """Wait for the turn of a call of that many tokens, and hold a place while it runs."""
        async with self._door:
            # The door is held while waiting, so that no later call passes an earlier one.
            while self._inside >= self.limit:
                self._left.clear()
                await self._left.wait()
            # Short sleeps: the end of judging or a further refusal may come at any time.
            while (wait := self._opens() - self._now()) > 0 and not self._ended():
                await self._sleep(min(wait, STEP_S))
            self._inside += 1
            now = self._now()
            self._requests.take(1, now)
            self._tokens.take(tokens, now)
            self._learnt.take(now)
        try:
            yield
        finally:
            self._inside -= 1
            self._left.set()

    def limited(self, wait_s: float) -> None:
        """Close after a refusal for so long, then admit fewer calls (once for each closing)."""
        now = self._now()
        self._closed_since = now if self._closed_since is None else self._closed_since
        until = max(self._closed_until, now + wait_s)
        # Calls in flight are refused together; only the first refusal of a closing counts.
        if now >= self._closed_until:
            self._limit = max(1.0, self._limit / 2)
            self._learnt.refused(now, until)
        self._closed_until = until

    def succeeded(self) -> None:
        """Note a call that succeeded: admit one more after as many successes as calls are admitted."""
        self._closed_since = None
        self._learnt.came_through(self._now())
        self._limit = min(float(self._most), self._limit + 1 / self._limit)

    def _opens(self) -> float:
        return max(self._closed_until, self._requests.ready, self._tokens.ready, self._learnt.ready)
