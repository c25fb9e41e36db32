"""What judging has cost so far, and whether the next call may still be made."""

from dataclasses import dataclass, replace

from evals.judge.config import BudgetConfig, PriceConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What judging came to.

    Attributes:
        calls: Requests that were sent, every attempt counted.
        hits: Verdicts that were in the store or had been asked for before in this run.
        failed: Verdicts that could not be had.
        tokens_in: Tokens read by the model; `tokens_out`, written. Estimated for calls whose answer does not tell.
        usd: What they cost by the price table, None without a price.
        stopped: Why no further call was made, empty when none was held back.
    """

    calls: int = 0
    hits: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None
    stopped: str = ""

    @property
    def tokens(self) -> int:
        """Read and written together."""
        return self.tokens_in + self.tokens_out


def cost(price: PriceConfig | None, tokens_in: float, tokens_out: float) -> float | None:
    """US dollars that tokens cost, None without a price."""
    return None if price is None else (tokens_in * price.input + tokens_out * price.output) / 1e6


class Ledger:
    """Counts what is spent; calls in flight are reserved at their estimate, so that a limit is not overrun."""

    def __init__(self, budget: BudgetConfig, price: PriceConfig | None) -> None:
        self._budget = budget
        self._price = price
        self._usage = Usage(usd=None if price is None else 0.0)
        self._reserved = [0, 0]

    @property
    def usage(self) -> Usage:
        """What was spent so far."""
        return self._usage

    def reserve(self, tokens_in: int, tokens_out: int) -> bool:
        """Set the estimate of a call aside; False, with the reason in `usage.stopped`, when the budget lacks it."""
        used, held = self._usage, self._reserved
        tokens = used.tokens + sum(held) + tokens_in + tokens_out
        usd = cost(self._price, used.tokens_in + held[0] + tokens_in, used.tokens_out + held[1] + tokens_out)
        limits = self._budget
        calls = used.calls + 1
        reason = ""
        if limits.calls is not None and calls > limits.calls:
            reason = f"the budget of {limits.calls} calls is spent"
        elif limits.tokens is not None and tokens > limits.tokens:
            reason = f"the budget of {limits.tokens:,} tokens does not hold another call ({used.tokens:,} spent)"
        elif limits.usd is not None and usd is not None and usd > limits.usd:
            reason = f"the budget of {limits.usd:g} USD does not hold another call ({used.usd:.4f} spent)"
        if reason:
            self.stop(reason)
            return False
        self._reserved = [held[0] + tokens_in, held[1] + tokens_out]
        self._usage = replace(used, calls=calls)
        return True

    def settle(self, reserved: tuple[int, int], spent: tuple[int, int]) -> None:
        """Replace the estimate of a call by what it came to, (tokens read, tokens written)."""
        self._reserved = [self._reserved[0] - reserved[0], self._reserved[1] - reserved[1]]
        tokens_in, tokens_out = self._usage.tokens_in + spent[0], self._usage.tokens_out + spent[1]
        usd = cost(self._price, tokens_in, tokens_out)
        self._usage = replace(self._usage, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def count_hit(self) -> None:
        """A verdict needed no call."""
        self._usage = replace(self._usage, hits=self._usage.hits + 1)

    def count_failure(self) -> None:
        """A verdict could not be had."""
        self._usage = replace(self._usage, failed=self._usage.failed + 1)

    def stop(self, reason: str) -> None:
        """Hold back all further calls; the first reason stays."""
        if not self._usage.stopped:
            self._usage = replace(self._usage, stopped=reason)
