"""What a metric is: a row of one table, scored over all results at once, with its summary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from evals.cases.pages import Sources
from evals.collect.observations import Failure, Observation, Observed, Score, Summary, Unscored
from evals.collect.pool import Floats
from evals.judge.trust import Trust
from evals.judge.verdicts import Judging
from evals.metrics.results import Results, Values
from evals.stats import intervals as stats

Direction = Literal["higher", "lower", "neither"]
Unit = Literal["share", "score", "cosine", "ratio", "ms", "tokens", "total tokens", "calls", "USD"]
# `labels`: what golden data call relevant; `latency`: timed single calls; `determinism`: repeated queries; `index`:
# exact searches; `judge`: verdicts; `judge usage`: the calls that they took; `sources`: the source pages.
Need = Literal["labels", "latency", "determinism", "index", "judge", "judge usage", "sources"]
Headline = Literal["always", "at the deepest", "never"]
Scope = Literal["in_scope", "out_of_scope", "all"]
# Interval of a metric: of a proportion for values of 0 or 1, of shares (`mean`), or of amounts.
Kind = Literal["proportion", "mean", "amount"]

# Digits after the point of values in tables, 3 for all other units.
DIGITS: dict[str, int] = {"ms": 1, "tokens": 1, "total tokens": 0, "calls": 0, "USD": 4}
SHARE, AMOUNT = (0.0, 1.0), (0.0, inf)
LABELS: frozenset[Need] = frozenset({"labels"})
NO_LABELS = Unscored(reason="the query has no labels (evidence or relevant_ids)")


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
    unit: str = "share"
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


@dataclass(frozen=True, kw_only=True)
class Context:
    """Inputs of metrics besides the results.

    Attributes:
        required: Metadata fields that every chunk must have.
        sources: The source pages, None when it is not known where they are.
        relevant_texts: Chunk id to text of every chunk that is relevant to some query; None where the retriever's
            chunks cannot be listed.
        seed: Seed of all resampling.
        judging: Verdicts of the judge, None without a judge.
        trust: Quality of the judge, None without a judge.
    """

    required: tuple[str, ...]
    sources: Sources | None
    relevant_texts: Mapping[str, str] | None
    seed: int
    judging: Judging | None = None
    trust: Trust | None = None


@dataclass(frozen=True, kw_only=True)
class QueryMetric(Declaration):
    """A score for every query, averaged.

    Attributes:
        scope: Over which queries.
        interval: `proportion` for values of 0 or 1, `mean` for others within [0, 1], `amount` for unbounded ones.
        score: Results of the scope to as many values; of a metric that needs labels, results of queries that have any.
        of: Which list it reads: what was returned, or the candidates, which threshold and cut do not change.
        depth: Number of places of that list that it reads; None for all.
        all_relevant: True if it divides by all relevant chunks, so that it has no value where some may be unknown.
        undefined: Reason for a NaN.
        proxy: A metric that costs nothing and goes with this one, which corrects its mean where a sample of the queries
            is judged; None for a metric that needs no judge.
    """

    scope: Scope
    interval: Kind
    score: Callable[[Results, Context], Values | Floats]
    of: Literal["returned", "candidates"] = "returned"
    depth: int | None = None
    all_relevant: bool = False
    undefined: str = ""
    proxy: "QueryMetric | None" = None

    def values(self, results: Results, context: Context) -> Values:
        """Score results; those of queries that are not of its scope have neither a value nor a reason for none."""
        if self.of == "candidates":
            return self._values(results.candidates, context).at(results.list_of)
        return self._values(results, context)

    def _values(self, results: Results, context: Context) -> Values:
        inside, _ = results.of(self.scope, labelled=False)
        rows, asked = results.of(self.scope, labelled="labels" in self.needs)
        given = self.score(asked, context)
        if not isinstance(given, Values):
            given = Values.of(given, (np.isnan(given), Unscored(reason=self.undefined)))
        if self.all_relevant:
            lacking = [relevance.incomplete for relevance in asked.lists.relevance]
            if any(lacking):
                given = Values.of(given.values, given, _reasons(lacking).at(asked.list_of))
        if self.of == "candidates" and "labels" in self.needs:
            given = Values.of(given.values, _reasons(asked.of_table("incomplete")), given)
        if len(rows) == len(inside):
            return given.within(rows, len(results))
        return given.within(rows, len(results), (np.setdiff1d(inside, rows, assume_unique=True), NO_LABELS))


@dataclass(frozen=True, kw_only=True)
class RunMetric(Declaration):
    """A statistic of the whole run that is not a mean of query scores."""

    summarise: Callable[[Observed, Context], Summary]


Metric = QueryMetric | RunMetric


def within(observations: Sequence[Observation], scope: Scope) -> list[Observation]:
    """Return the observations in the scope of a metric."""
    return [o for o in observations if scope == "all" or o.case.in_scope == (scope == "in_scope")]


def summarise(name: str, scores: Sequence[Score], interval: Kind) -> Summary:
    """Average scores, with their counts, the 95% interval, and the bounds that failed and missing ones leave open.

    The mean and its interval are over the scored values; where some failed or are missing, `bound_low` and `bound_high`
    are the mean with every one of them counted 0 and 1.
    """
    values = [score for score in scores if isinstance(score, float | int)]
    unscored = [score for score in scores if isinstance(score, Unscored)]
    failed = [score for score in scores if isinstance(score, Failure)]
    missing = sum(score.missing for score in unscored)
    lost = len(failed) + missing
    whole, total = len(values) + lost, stats.total(values)
    empty = Summary(
        metric=name,
        value=None,
        n=len(values),
        n_unscored=len(unscored),
        n_failed=len(failed),
        n_missing=missing,
        bound_low=total / whole if lost else None,
        bound_high=(total + lost) / whole if lost else None,
    )
    causes = [f"{failed[0].type}: {failed[0].message}"] if len(failed) > len(unscored) else []
    if not values:
        reasons = [*causes, *(each.reason for each in unscored[:1]), *(each.message for each in failed[:1])]
        return replace(empty, note=next(iter(reasons), "no query of this kind"))
    found = (
        stats.wilson(total, len(values))
        if interval == "proportion"
        else stats.mean_interval(values, shares=interval == "mean")
    )
    reasons = [*causes, *(each.reason for each in unscored[:1]), *(each.message for each in failed[:1]), ""]
    note = found.note or reasons[0]
    note = note if empty.usable else f"unusable, as more than 5% failed: {note}"
    return replace(empty, value=total / len(values), ci_low=found.low, ci_high=found.high, note=note)


def _reasons(reasons: Sequence[str]) -> Values:
    """Return as values which rows have no score for one of several reasons; an empty one is none."""
    return Values.joined([Unscored(reason=reason) if reason else 0.0 for reason in reasons])
