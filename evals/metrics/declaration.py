"""The declaration of a metric besides its computation."""

from dataclasses import dataclass
from math import inf
from typing import Literal

Direction = Literal["higher", "lower", "neither"]
Unit = Literal["share", "score", "cosine", "ratio", "ms", "tokens", "total tokens", "calls", "USD"]
# `labels`: what golden data call relevant; `latency`: timed single calls; `determinism`: repeated queries; `index`:
# exact searches; `judge`: verdicts; `judge usage`: the calls that they took; `sources`: the source pages.
Need = Literal["labels", "latency", "determinism", "index", "judge", "judge usage", "sources"]
Headline = Literal["always", "at the deepest", "never"]

# Digits after the point of values in tables, 3 for all other units.
DIGITS: dict[Unit, int] = {"ms": 1, "tokens": 1, "total tokens": 0, "calls": 0, "USD": 4}
SHARE, AMOUNT = (0.0, 1.0), (0.0, inf)
LABELS: frozenset[Need] = frozenset({"labels"})


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A declaration of a metric.

    Attributes:
        name: As in MLflow.
        about: One line for `--list-metrics`.
        source: Source of the formula.
        direction: Which values are better.
        unit: Unit of the values.
        range: Lowest and highest possible value.
        headline: Shown at the terminal; `at the deepest` among metrics that differ in their depth alone.
        needs: Measurements and inputs besides one retrieval.
    """

    name: str
    about: str
    source: str = "this project"
    direction: Direction = "higher"
    unit: Unit = "share"
    range: tuple[float, float] = SHARE
    headline: Headline = "always"
    needs: frozenset[Need] = frozenset()

    @property
    def is_judged(self) -> bool:
        """True if the metric exists only with a judge."""
        return not self.needs.isdisjoint({"judge", "judge usage"})

    def written(self, value: float) -> str:
        """Return a value rounded for reading."""
        return f"{value:,.{DIGITS.get(self.unit, 3)}f}"
