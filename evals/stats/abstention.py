"""Abstention by a threshold on the best score: its cost in scope and its gain out of scope. Pure.

A query is answered when its best score, of those the threshold reads, reaches the threshold. A false answer is an
out-of-scope query that is answered, a false abstention an in-scope query that is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from math import ceil, isfinite, log

import numpy as np

from evals.stats import intervals as stats
from retrievers.records import UNBOUNDED

# AUROC of a random order.
CHANCE = 0.5
# What the threshold reads under `threshold_on: final`.
FINAL = "final score"
# Decimals that tell any two floats within [0, 1] apart.
MOST_DIGITS = 17


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """How far the best score of one kind tells queries in scope from others.

    Attributes:
        name: Kind of score, a value of `retriever.threshold_signal` or `final score`.
        auroc: AUROC, 0 to 1; 0.5 is chance.
        low: Lower end of its 95% interval, None where it is not computable.
        high: Upper end, likewise.
    """

    name: str
    auroc: float
    low: float | None
    high: float | None

    @property
    def separates(self) -> bool:
        """False if the order of the queries may be chance."""
        return (self.auroc if self.low is None else self.low) > CHANCE

    def __str__(self) -> str:
        """Return the AUROC with its interval."""
        spread = "" if self.low is None else f", 95% {self.low:.3f} to {self.high:.3f}"
        return f"AUROC {self.auroc:.3f}{spread}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """A threshold that promises a rate of false answers for questions like these, at 95%.

    Attributes:
        rate: Largest share of such out-of-scope questions that is answered, above 0.
        threshold: The least that promises it, in the fewest digits; None where these queries promise it for none, or
            for none that answers an in-scope query.
        silent: Share of the in-scope queries that it leaves without an answer; None without any.
        queries: Number of out-of-scope queries that promise the rate if all of them are silent.
        statement: The same in a sentence.
    """

    rate: float
    threshold: float | None
    queries: int
    statement: str
    silent: float | None = None


def signal(name: str, inside: Sequence[float], outside: Sequence[float]) -> Signal:
    """Return how far the best scores of one kind tell queries apart, at least one of each scope."""
    area = stats.auroc(inside, outside)
    interval = stats.auroc_interval(inside, outside)
    return Signal(name=name, auroc=area, low=interval.low, high=interval.high)


def promise(inside: Sequence[float], outside: Sequence[float], rate: float, scale: str, among: int) -> Promise:
    """Return the least strict threshold that promises a rate of false answers for questions like these, at 95%.

    Thresholds are tested from the strictest on, each by the exact binomial test of its rate, up to the first that is
    not told from a higher one: then the error of all tests together is 5% (Learn then Test, Angelopoulos et al., 2021).
    As rates rise with lower thresholds, that is the lowest whose upper limit (Clopper and Pearson, 1934) is at most
    `rate`. Whoever takes the best of several retrievals needs the promises of all: each has its part of the 5%.

    Args:
        inside: The best score of each in-scope query.
        outside: The best score of each out-of-scope query, at least one.
        rate: Above 0, at most 1.
        scale: The scale of the scores.
        among: Number of retrievals that were tried on these queries.
    """
    from scipy.special import betaincinv

    n, queries, wanted = len(outside), queries_that_promise(rate, among), f"at most {100 * rate:.3g}% wrong answers"
    limits = betaincinv(np.arange(1, n + 1), np.arange(n, 0, -1), 1 - (1 - stats.LEVEL) / among)
    answered = int(np.searchsorted(limits, rate + stats.SAME, side="right")) - 1
    broken = Promise(rate=rate, threshold=None, queries=queries, statement="")
    if rate < 1 and answered < 0:
        statement = f"{n} out-of-scope queries cannot promise {wanted}; {queries}, all of them silent, could"
        return replace(broken, statement=statement)
    scores = sorted({*inside, *outside})
    # The highest score that must be below the threshold, where so many may reach it.
    highest = -np.inf if rate >= 1 else sorted(outside, reverse=True)[answered]
    reaching = [score for score in scores if score > highest]
    if not reaching or not any(score >= reaching[0] for score in inside):
        return replace(broken, statement=f"no threshold promises {wanted} and answers an in-scope query")
    lowest = scores[0] if scale in UNBOUNDED and isfinite(scores[0]) else 0.0
    threshold = lowest if reaching[0] == scores[0] else shortest_between(highest, reaching[0])
    wrong = sum(score >= threshold for score in outside)
    silent = sum(score < threshold for score in inside) / len(inside)
    statement = (
        f"threshold {threshold} promises {wanted} of questions like these (95%): it answers {wrong} of {n} out of "
        f"scope, and gives up {silent:.1%} of {len(inside)} in scope"
    )
    return replace(broken, threshold=threshold, silent=silent, statement=statement)


def queries_that_promise(rate: float, among: int) -> int:
    """Return the number of out-of-scope queries, none of them answered, that promise a rate: (1 − rate)ⁿ ≤ 0.05 / m.

    Args:
        rate: Above 0, at most 1.
        among: Number m of retrievals that were tried on these queries.
    """
    return 1 if rate >= 1 else ceil(log((1 - stats.LEVEL) / among) / log(1 - rate))


def shortest_between(low: float, high: float) -> float:
    """Return the number with the fewest decimals above `low` and at most `high`, the least of them.

    Args:
        low: A number; −∞ is below `high` alone.
        high: Above `low`.
    """
    if not isfinite(low):
        return high
    for digits in range(MOST_DIGITS):
        step = Decimal(1).scaleb(-digits)
        above = float(Decimal(repr(low)).quantize(step, ROUND_FLOOR) + step)
        if low < above <= high:
            return above
    return high
