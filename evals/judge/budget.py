"""What judging has cost so far, whether the budget holds another call, and how fast calls may follow one another."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from evals.config.judge import JudgeConfig, PriceConfig

# Tokens read and tokens written.
Tokens = tuple[int, int]
# Tokens that a server may add to a prompt: its chat template and the response schema.
TEMPLATE = 256
COUNTS = ("calls", "hits", "failed", "unanswered", "tokens_in", "tokens_out")
# Longest sleep, in seconds, before the end of judging or a further refusal is noticed.
STEP_S = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Cost of judging so far.

    Attributes:
        calls: Requests that were sent, every attempt counted.
        hits: Verdicts that were in the store before this run.
        failed: Verdicts that could not be had.
        unanswered: Requests that may have been billed although no answer came: it broke off, or took too long. What
            they cost is not known and not in the tokens; the budget holds the most they can have cost.
        tokens_in: Tokens read by the model. Estimated for calls whose answer does not tell.
        tokens_out: Tokens written by it, likewise.
        usd: Price by the price table, None without a price.
        stopped: Reason why further calls were held back, empty when none was.
    """

    calls: int = 0
    hits: int = 0
    failed: int = 0
    unanswered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None
    stopped: str = ""

    @classmethod
    def joined(cls, usages: "Sequence[Usage]") -> "Usage":
        """Return the usage of several models together; its price is known where that of each is."""
        prices = [usage.usd for usage in usages if usage.usd is not None]
        return cls(
            **{name: sum(getattr(usage, name) for usage in usages) for name in COUNTS},
            usd=sum(prices) if len(prices) == len(usages) else None,
            stopped=next((usage.stopped for usage in usages if usage.stopped), ""),
        )


def cost(price: PriceConfig | None, tokens_in: float, tokens_out: float) -> float | None:
    """Return the price of tokens in US dollars, None without a price."""
    return None if price is None else (tokens_in * price.input + tokens_out * price.output) / 1e6


def money(usd: float | None, model: str | None) -> str:
    """Return an estimated price in words; without one, where it belongs."""
    return f"no price for {model} in judge.prices" if usd is None else f"about {usd:,.{2 if usd >= 1 else 4}f} USD"


class Account:
    """Spending on one model, within the budget that all judges of a run have together.

    The highest price of each call in flight is reserved, so that no limit is exceeded: a token for each byte of the
    prompt, which no tokenizer exceeds, and `judge.max_output_tokens`. Where a server wrote more, that is the highest
    from then on, of calls in flight too.

    Attributes:
        usage: What was spent.
        in_flight: Number of calls that were sent and have not ended.
        accounts: Those of all judges of the run.
    """

    def __init__(self, config: JudgeConfig, beside: "Account | None" = None) -> None:
        self.usage = Usage(usd=None if config.price is None else 0.0)
        self.in_flight = 0
        self._limits, self._price = config.budget, config.price
        # Most tokens of an answer.
        self._longest = config.max_output_tokens
        # Sizes, in bytes, of the prompts of calls in flight, and of those that may have been billed without an answer.
        self._reserved = list[int]()
        self.accounts: list[Account] = beside.accounts if beside else []
        self.accounts.append(self)
        # Set when a call ends.
        self._settled: asyncio.Event = beside._settled if beside else asyncio.Event()

    @property
    def whole_usage(self) -> Usage:
        """Spending of all judges."""
        return Usage.joined([account.usage for account in self.accounts])

    async def reserve(self, prompt: str) -> int | None:
        """Set aside the most that a call can cost, once those in flight leave room.

        Returns:
            What to settle by; None if the budget is spent.
        """
        size = len(prompt.encode("utf-8", "surrogatepass")) + TEMPLATE
        while not self.usage.stopped and (lacking := self._lacks(self._most([size]))):
            # Sums of prices leave remainders, so what is in flight is counted in calls.
            if not any(account.in_flight for account in self.accounts):
                self.stop(lacking)
            else:
                self._settled.clear()
                await self._settled.wait()
        if self.usage.stopped:
            return None
        self.in_flight += 1
        self._reserved.append(size)
        self.count(calls=1)
        return size

    def settle(self, size: int, spent: Tokens | None) -> None:
        """Replace the reserve of a call by its cost; None when an answer may be billed and did not come."""
        self.in_flight -= 1
        self._settled.set()
        if spent is None:
            self.count(unanswered=1)
            return
        self._reserved.remove(size)
        read, written = spent
        self._longest = max(self._longest, written)
        self.count(tokens_in=read, tokens_out=written)
        self.usage = replace(self.usage, usd=cost(self._price, self.usage.tokens_in, self.usage.tokens_out))

    def count(self, **more: int) -> None:
        """Add to counts of the usage."""
        self.usage = replace(self.usage, **{name: getattr(self.usage, name) + n for name, n in more.items()})

    def stop(self, reason: str) -> None:
        """Hold back all further calls; the first reason stays."""
        self.usage = replace(self.usage, stopped=self.usage.stopped or reason)
        self._settled.set()

    def _lacks(self, call: float) -> str:
        """Return the limit that a call of at most that price would exceed, as text; empty when it fits."""
        limits, usage = self._limits, self.whole_usage
        if limits.calls is not None and usage.calls >= limits.calls:
            return f"the budget of {limits.calls:,} calls is spent"
        spent = sum((account.usage.usd or 0.0) + account._most(account._reserved) for account in self.accounts)
        if limits.usd is None or spent + call <= limits.usd:
            return ""
        unknown = f", {usage.unanswered} requests without an answer at their most" if usage.unanswered else ""
        why = f"{spent:.4f} spent{unknown}; a call may take {call:.4f}"
        return f"the budget of {limits.usd:g} USD does not hold another call ({why})"

    def _most(self, sizes: Sequence[int]) -> float:
        """Return the highest price of calls, 0 without a price."""
        return cost(self._price, sum(sizes), len(sizes) * self._longest) or 0.0


class Pace:
    """A limit on calls at once, calls a minute and tokens a minute; it slows down when a server asks.

    After a rate limit nothing is sent for as long as the server asked, then a call that tries. Once one comes through,
    half as many calls are admitted at once, and each success admits a little more (additive increase, multiplicative
    decrease: Chiu and Jain 1989).

    Args:
        config: The limits.
        ended: True when judging has ended, and nobody need wait.
    """

    def __init__(self, config: JudgeConfig, ended: Callable[[], bool]) -> None:
        self._most = self._admitted = float(config.max_concurrency)
        self._inside = 0
        self._per_call = 60.0 / (config.requests_per_minute or math.inf)
        self._per_token = 60.0 / (config.tokens_per_minute or math.inf)
        # Moments from which the next call may go, and until which the server lets none through.
        self._next_call = self._closed_until = 0.0
        self._closed_since: float | None = None
        self._ended = ended
        self._door = asyncio.Lock()
        self._left = asyncio.Event()

    @property
    def limit(self) -> int:
        """Number of calls that may be in flight now; while none comes through, one that tries."""
        return 1 if self._closed_since is not None else max(1, int(self._admitted))

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[None]:
        """Wait for the turn of a call of that many tokens, and hold a place while it runs."""
        # The door is held while waiting, so that no later call passes an earlier one.
        async with self._door:
            while self._inside >= self.limit:
                self._left.clear()
                await self._left.wait()
            while (wait := max(self._closed_until, self._next_call) - _now()) > 0 and not self._ended():
                await asyncio.sleep(min(wait, STEP_S))
            self._next_call = max(self._next_call, _now()) + max(self._per_call, self._per_token * tokens)
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._left.set()

    def refused(self, asked_s: float | None) -> float:
        """Close, and admit half as many calls once one comes through: once for all refusals until then.

        Args:
            asked_s: Seconds that the server asks to wait. Without, it is one, later an eighth of those since the first
                refusal.

        Returns:
            Seconds from the first refusal to the next call.
        """
        now = _now()
        if self._closed_since is None:
            if now >= self._closed_until:
                self._admitted = max(1.0, self._admitted / 2)
            self._closed_since = now
        closed_s = now - self._closed_since
        wait_s = asked_s or max(1.0, closed_s / 8)
        self._closed_until = max(self._closed_until, now + wait_s)
        return closed_s + wait_s

    def succeeded(self) -> None:
        """Admit one call more after as many successes as calls are admitted."""
        self._closed_since = None
        self._admitted = min(self._most, self._admitted + 1 / self._admitted)


def _now() -> float:
    return asyncio.get_running_loop().time()
