"""The cost of judging so far, and the decision on the next call."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.config.judge import BudgetConfig, PriceConfig

# Tokens read and tokens written.
Tokens = tuple[int, int]
# Answer of a budget to a call: it fits; it may fit, if the calls in flight cost less than reserved; or it does not.
Room = Literal["enough", "in flight", "none"]


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


def added(first: Tokens, other: Tokens) -> Tokens:
    """Return the sum of two counts."""
    return first[0] + other[0], first[1] + other[1]


class Ledger:
    """Ledger of the spending on a model. It reserves the highest cost of each call in flight: no limit is exceeded.

    Args:
        budget: Its limits.
        price: Price of the model's tokens.
        beside: Ledger of another model that the same budget is for. The two are not used at the same time.
    """

    def __init__(self, budget: BudgetConfig, price: PriceConfig | None, beside: "Ledger | None" = None) -> None:
        self._budget = budget
        self._price = price
        self._ledgers: list[Ledger] = [] if beside is None else beside._ledgers
        self._ledgers.append(self)
        self._usage = Usage(usd=None if price is None else 0.0)
        self._in_flight: Tokens = (0, 0)
        self._unanswered: Tokens = (0, 0)

    @property
    def usage(self) -> Usage:
        """Spending on this model so far."""
        return self._usage

    @property
    def whole(self) -> Usage:
        """Spending so far on all models of the budget."""
        return Usage.joined([ledger.usage for ledger in self._ledgers])

    @property
    def counts_tokens(self) -> bool:
        """True if the budget has a limit that depends on tokens."""
        return self._budget.tokens is not None or self._budget.usd is not None

    def reserve(self, most: Tokens) -> Room:
        """Set the most that a call can cost aside, if there is room; stops judging if there is none."""
        if (calls := self._budget.calls) is not None and self.whole.calls >= calls:
            self.stop(f"the budget of {calls:,} calls is spent")
            return "none"
        spent = added(self._spent, self._unanswered)
        if lacking := self._lacking(added(spent, most), most):
            self.stop(lacking)
            return "none"
        in_flight = added(self._in_flight, most)
        if self._lacking(added(spent, in_flight), most):
            return "in flight"
        self._in_flight = in_flight
        self._usage = replace(self._usage, calls=self._usage.calls + 1)
        return "enough"

    def settle(self, most: Tokens, spent: Tokens | None) -> None:
        """Replace the reserve for a call by its cost; None when that is unknown."""
        self._in_flight = self._in_flight[0] - most[0], self._in_flight[1] - most[1]
        if spent is None:
            self._unanswered = added(self._unanswered, most)
            self._usage = replace(self._usage, unanswered=self._usage.unanswered + 1)
            return
        tokens_in, tokens_out = added(self._spent, spent)
        usd = cost(self._price, tokens_in, tokens_out)
        self._usage = replace(self._usage, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def count_hit(self) -> None:
        """Count a verdict that needed no call."""
        self._usage = replace(self._usage, hits=self._usage.hits + 1)

    def count_failure(self) -> None:
        """Count a verdict that could not be obtained."""
        self._usage = replace(self._usage, failed=self._usage.failed + 1)

    def stop(self, reason: str) -> None:
        """Hold back all further calls; the first reason stays."""
        if not self._usage.stopped:
            self._usage = replace(self._usage, stopped=reason)

    def _lacking(self, needed: Tokens, most: Tokens) -> str:
        """Return the limit that is too low, as text; empty when none is."""
        limits, whole, others = self._budget, self.whole, [ledger for ledger in self._ledgers if ledger is not self]
        tokens = sum(needed) + sum(sum(added(ledger._spent, ledger._unanswered)) for ledger in others)
        usd = cost(self._price, *needed)
        if limits.tokens is not None and tokens > limits.tokens:
            limit, spent = f"{limits.tokens:,} tokens", f"{whole.tokens:,}"
            lost, call = (f"{sum(tokens):,}" for tokens in (self._unanswered, most))
        elif limits.usd is not None and usd is not None and usd + sum(map(_price_so_far, others)) > limits.usd:
            limit, spent = f"{limits.usd:g} USD", f"{whole.usd:.4f}"
            lost, call = (f"{cost(self._price, *tokens):.4f}" for tokens in (self._unanswered, most))
        else:
            return ""
        unanswered = self._usage.unanswered
        unknown = f", at most {lost} by {unanswered} requests without an answer" if unanswered else ""
        return f"the budget of {limit} does not hold another call ({spent} spent{unknown}; a call may take {call})"

    @property
    def _spent(self) -> Tokens:
        return self._usage.tokens_in, self._usage.tokens_out


def _price_so_far(ledger: Ledger) -> float:
    """Return the price of all that a model may have cost."""
    return cost(ledger._price, *added(ledger._spent, ledger._unanswered)) or 0.0
