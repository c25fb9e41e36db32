"""The cost of judging (`Usage`), the budget that it must stay within (`Account`), and the rate of calls (`Pace`)."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from evals.config.judge import JudgeConfig, PriceConfig

# Tokens that a model has read, and tokens that it has written.
Tokens = tuple[int, int]
# Most tokens that a server adds to a prompt, for its chat template and the response schema.
TEMPLATE = 256
COUNTS = ("calls", "hits", "failed", "unanswered", "tokens_in", "tokens_out")
# Longest sleep, in seconds. Between sleeps, the end of judging and further refusals are noticed.
STEP_S = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Cost of judging so far.

    Attributes:
        calls: Requests that were sent. Every attempt counts.
        hits: Verdicts that were in the store before this run.
        failed: Questions without a verdict.
        unanswered: Requests that may have been billed, although no answer came in time or the connection broke. Their
            cost is not known, and is not in the tokens. The budget counts the most that they can have cost.
        tokens_in: Tokens that the model has read. They are estimated if an answer does not tell them.
        tokens_out: Tokens that the model has written, likewise.
        usd: Cost by the price table; None without a price.
        stopped: Reason why further calls are held back; empty if they are not.
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
        """Return the usage of several models together. Its cost is known if the cost of each is."""
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
    """Return an estimated cost in words; without a price, the setting that lacks it."""
    return f"no price for {model} in judge.prices" if usd is None else f"about {usd:,.{2 if usd >= 1 else 4}f} USD"


class Account:
    """Spending on one model, within the budget that all judges of a run share.

    The highest price of each call in flight is reserved, so that no limit is exceeded. This is the price of a token for
    each byte of the prompt, which no tokenizer exceeds, and of `judge.max_output_tokens` tokens of the answer. After a
    longer answer, its length is reserved for every call, also for those in flight.

    Attributes:
        usage: What was spent.
        in_flight: Number of calls that were sent and have not ended.
        accounts: The accounts of all judges of the run.
    """

    def __init__(self, config: JudgeConfig, below: "Account | None" = None) -> None:
        self.usage = Usage(usd=None if config.price is None else 0.0)
        self.in_flight = 0
        self._limits, self._price = config.budget, config.price
        # Most tokens of an answer.
        self._longest_answer = config.max_output_tokens
        # Bytes of each prompt in flight, and of each prompt that may have been billed without an answer.
        self._reserved: list[int] = []
        self.accounts: list[Account] = below.accounts if below else []
        self.accounts.append(self)
        # Set when a call ends.
        self._settled: asyncio.Event = below._settled if below else asyncio.Event()

    @property
    def whole_usage(self) -> Usage:
        """Spending of all judges."""
        return Usage.joined([account.usage for account in self.accounts])

    async def reserve(self, prompt: str) -> int | None:
        """Reserve the most that a call can cost. Wait for calls in flight if they may leave room for it.

        Returns:
            Size of the call, which `settle` takes; None if the budget is spent.
        """
        size = len(prompt.encode("utf-8", "surrogatepass")) + TEMPLATE
        while not self.usage.stopped and (exceeded := self._exceeded(self._highest_price([size]))):
            # Calls in flight are counted, since sums of prices have rounding errors.
            if not any(account.in_flight for account in self.accounts):
                self.stop(exceeded)
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
        """Replace the reserve of a call by the tokens that it took; None if it may be billed without an answer."""
        self.in_flight -= 1
        self._settled.set()
        if spent is None:
            self.count(unanswered=1)
            return
        self._reserved.remove(size)
        read, written = spent
        self._longest_answer = max(self._longest_answer, written)
        self.count(tokens_in=read, tokens_out=written)
        self.usage = replace(self.usage, usd=cost(self._price, self.usage.tokens_in, self.usage.tokens_out))

    def count(self, **more: int) -> None:
        """Add to the counts of the usage."""
        self.usage = replace(self.usage, **{name: getattr(self.usage, name) + n for name, n in more.items()})

    def stop(self, reason: str) -> None:
        """Hold back all further calls. If they are held back already, the first reason stays."""
        self.usage = replace(self.usage, stopped=self.usage.stopped or reason)
        self._settled.set()

    def _exceeded(self, price: float) -> str:
        """Return in words the limit that a call of a price may exceed; empty if the budget holds the call."""
        limits, usage = self._limits, self.whole_usage
        if limits.calls is not None and usage.calls >= limits.calls:
            return f"the budget of {limits.calls:,} calls is spent"
        spent = sum((account.usage.usd or 0.0) + account._highest_price(account._reserved) for account in self.accounts)
        if limits.usd is None or spent + price <= limits.usd:
            return ""
        unknown = f", {usage.unanswered} requests without an answer at their most" if usage.unanswered else ""
        why = f"{spent:.4f} spent{unknown}; a call may take {price:.4f}"
        return f"the budget of {limits.usd:g} USD does not hold another call ({why})"

    def _highest_price(self, sizes: Sequence[int]) -> float:
        """Return the most that calls with prompts of these sizes can cost, in US dollars; 0 without a price."""
        return cost(self._price, sum(sizes), len(sizes) * self._longest_answer) or 0.0


class Pace:
    """A limit on calls at once, calls a minute and tokens a minute. It slows down when a server asks for it.

    When a server refuses a call because of the rate, nothing is sent for as long as the server asked. Then one call
    tries. Once a call succeeds, half as many calls as before are admitted at once, and each further success admits a
    little more (additive increase, multiplicative decrease: Chiu and Jain 1989).

    Args:
        config: The limits.
        ended: Returns True once judging has ended, so that no call need wait.
    """

    def __init__(self, config: JudgeConfig, ended: Callable[[], bool]) -> None:
        self._most = self._admitted = float(config.max_concurrency)
        self._inside = 0
        self._per_call = 60.0 / (config.requests_per_minute or math.inf)
        self._per_token = 60.0 / (config.tokens_per_minute or math.inf)
        # Times of the event loop: when the next call may be sent, and until when the server refuses all calls.
        self._next_call = self._closed_until = 0.0
        self._closed_since: float | None = None
        self._ended = ended
        self._queue = asyncio.Lock()
        self._left = asyncio.Event()

    @property
    def limit(self) -> int:
        """Number of calls that may be in flight now. While the server refuses calls, one call tries."""
        return 1 if self._closed_since is not None else max(1, int(self._admitted))

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[None]:
        """Wait for the turn of a call of that many tokens, and hold its place while it runs."""
        # The lock is held while waiting, so that no later call overtakes an earlier one.
        async with self._queue:
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
        """Hold back all calls after a refusal. Later, half as many calls are admitted at once.

        All refusals until the next success count as one.

        Args:
            asked_s: Seconds that the server asks to wait. None stands for one second, and later for an eighth of the
                time since the first refusal.

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
        """Note a success. After as many successes as calls are admitted at once, one call more is admitted."""
        self._closed_since = None
        self._admitted = min(self._most, self._admitted + 1 / self._admitted)


def _now() -> float:
    return asyncio.get_running_loop().time()
