"""What judging has cost so far, and whether the budget holds another call."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evals.config.judge import BudgetConfig, JudgeConfig, PriceConfig

# Tokens read and tokens written.
Tokens = tuple[int, int]
# Tokens that a server may add to a prompt: its chat template and the response schema.
TEMPLATE = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Cost of judging so far.

    Attributes:
        calls: Requests that were sent, every attempt counted.
        hits: Verdicts that were in the store or had been asked for before in this run.
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

    @property
    def tokens(self) -> int:
        """Read and written together."""
        return self.tokens_in + self.tokens_out

    @classmethod
    def joined(cls, usages: "Sequence[Usage]") -> "Usage":
        """Return the usage of several models together; its price is known where that of each is."""
        counts = ("calls", "hits", "failed", "unanswered", "tokens_in", "tokens_out")
        prices = [usage.usd for usage in usages if usage.usd is not None]
        return cls(
            **{name: sum(getattr(usage, name) for usage in usages) for name in counts},
            usd=sum(prices) if len(prices) == len(usages) else None,
            stopped=next((usage.stopped for usage in usages if usage.stopped), ""),
        )


def cost(price: PriceConfig | None, tokens_in: float, tokens_out: float) -> float | None:
    """Return the price of tokens in US dollars, None without a price."""
    return None if price is None else (tokens_in * price.input + tokens_out * price.output) / 1e6


class Budget:
    """The limits of a run, and the accounts of the models that they are for together."""

    def __init__(self, limits: BudgetConfig) -> None:
        self.limits = limits
        self.accounts: list[Account] = []

    @property
    def usage(self) -> Usage:
        """Spending so far on all models."""
        return Usage.joined([account.usage for account in self.accounts])


class Account:
    """Spending on one model. The highest cost of each call in flight is reserved, so that no limit is exceeded.

    The highest cost is a token for each byte of the prompt, which no tokenizer exceeds, and `judge.max_output_tokens`.
    Where a server read or wrote more than that, what it took is the highest cost from then on, of calls in flight too.

    Args:
        config: Settings of the model: its price and the limit of its answers.
        budget: Budget that it draws on.
    """

    def __init__(self, config: JudgeConfig, budget: Budget) -> None:
        self._price, self.budget = config.price, budget
        self.usage = Usage(usd=None if self._price is None else 0.0)
        self._longest, self._excess = config.max_output_tokens, 1.0
        # Bytes of the prompts of calls in flight, and of those that may have been billed without an answer.
        self._in_flight: list[int] = []
        self._unanswered: list[int] = []
        self._settled = asyncio.Event()
        budget.accounts.append(self)

    @property
    def in_flight(self) -> int:
        """Number of calls in flight."""
        return len(self._in_flight)

    async def reserve(self, prompt: str) -> bool:
        """Set aside the most that a call can cost, once those in flight leave room; False if the budget is spent."""
        size = len(prompt.encode("utf-8", "surrogatepass")) + TEMPLATE
        while not self.usage.stopped:
            if not (lacking := self._lacking(size)):
                self._in_flight.append(size)
                self.count(calls=1)
                return True
            # Sums of prices leave remainders, so what is in flight is counted in calls.
            if not any(account.in_flight for account in self.budget.accounts):
                self.stop(lacking)
                return False
            self._settled.clear()
            await self._settled.wait()
        return False

    def settle(self, prompt: str, spent: Tokens | None) -> None:
        """Replace the reserve of a call by its cost; None when an answer may be billed and did not come."""
        size = len(prompt.encode("utf-8", "surrogatepass")) + TEMPLATE
        self._in_flight.remove(size)
        self._settled.set()
        if spent is None:
            self._unanswered.append(size)
            self.count(unanswered=1)
            return
        self._longest, self._excess = max(self._longest, spent[1]), max(self._excess, spent[0] / size)
        self.count(tokens_in=spent[0], tokens_out=spent[1])
        self.usage = replace(self.usage, usd=cost(self._price, self.usage.tokens_in, self.usage.tokens_out))

    def count(self, **more: int) -> None:
        """Add to counts of the usage."""
        self.usage = replace(self.usage, **{name: getattr(self.usage, name) + n for name, n in more.items()})

    def stop(self, reason: str) -> None:
        """Hold back all further calls; the first reason stays."""
        self.usage = replace(self.usage, stopped=self.usage.stopped or reason)
        self._settled.set()

    def _most(self, sizes: Sequence[int]) -> float:
        """Return the highest price of calls, 0 without a price."""
        return cost(self._price, sum(sizes) * self._excess, len(sizes) * self._longest) or 0.0

    def _lacking(self, size: int) -> str:
        """Return the limit that a call would exceed, as text; empty when it fits."""
        limits, usage, accounts = self.budget.limits, self.budget.usage, self.budget.accounts
        if limits.calls is not None and usage.calls >= limits.calls:
            return f"the budget of {limits.calls:,} calls is spent"
        spent, lost, flying = (
            sum(prices)
            for prices in zip(
                *((a.usage.usd or 0.0, a._most(a._unanswered), a._most(a._in_flight)) for a in accounts), strict=True
            )
        )
        call = self._most([size])
        if limits.usd is None or spent + lost + flying + call <= limits.usd:
            return ""
        unknown = f", at most {lost:.4f} by {usage.unanswered} requests without an answer" if lost else ""
        return (
            f"the budget of {limits.usd:g} USD does not hold another call ({spent:.4f} spent{unknown}; "
            f"a call may take {call:.4f})"
        )
