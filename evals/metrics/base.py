"""What a metric is: a score for each query and a way to summarise it, or a statistic of the whole run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.collect.observations import Failure, Observation, Observed, Score, Summary, Unscored
from evals.golden.source_pages import SourcePageError, Sources
from evals.judge.trust.trust import Trust
from evals.judge.verdicts import Judging
from evals.stats import intervals as stats

Scope = Literal["in_scope", "out_of_scope", "all"]
Kind = Literal["proportion", "mean", "amount"]
"""Which interval a metric has: that of a proportion for values of 0 or 1, of shares (`mean`), or of amounts."""
Scorer = Callable[[Sequence[Observation], "Context"], Sequence[Score]]
Statistic = Callable[[Observed, "Context"], Summary]


@dataclass(frozen=True, kw_only=True)
class Context:
    """What metrics need besides what was observed.

    Attributes:
        required: Metadata fields that every chunk must have.
        sources: The source pages, None when it is not known where they are.
        relevant_texts: Chunk id to text of every chunk that is relevant to some query; None where the retriever's
            chunks cannot be listed.
        seed: Of all resampling.
        judging: What the judge said, None without a judge.
        trust: How far to trust it, None without a judge.
    """

    required: tuple[str, ...]
    sources: Sources | None
    relevant_texts: Mapping[str, str] | None
    seed: int
    judging: Judging | None = None
    trust: Trust | None = None


@dataclass(frozen=True, kw_only=True)
class QueryMetric:
    """A score for every query, averaged.

    Attributes:
        name: As in MLflow.
        scope: Over which queries.
        interval: `proportion` for values of 0 or 1, `mean` for others within [0, 1], `amount` for unbounded ones.
        about: One line for `--list-metrics`.
        score: All observations of the scope to as many scores.
        of: Which list it reads: what was returned, or the candidates, which threshold and cut do not change.
        depth: How many places of that list it reads; None for all.
    """

    name: str
    scope: Scope
    interval: Kind
    about: str
    score: Scorer
    of: Literal["returned", "candidates"] = "returned"
    depth: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunMetric:
    """A statistic of the whole run that is not a mean of query scores."""

    name: str
    about: str
    summarise: Statistic


Metric = QueryMetric | RunMetric


def each(score: Callable[[Observation, Context], Score]) -> Scorer:
    """A scorer of many observations from one of a single one; a source page that cannot be read is a failure."""

    def one(observation: Observation, context: Context) -> Score:
        try:
            return score(observation, context)
        except SourcePageError as error:
            return Failure(type="SourcePageError", message=f"source page {error}")

    return lambda observations, context: [one(observation, context) for observation in observations]


def within(observations: Sequence[Observation], scope: Scope) -> list[Observation]:
    """The observations a metric of that scope is over."""
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
    if not values:
        reason = unscored[0].reason if unscored else failed[0].message if failed else "no query of this kind"
        return replace(empty, note=reason)
    found = (
        stats.wilson(total, len(values))
        if interval == "proportion"
        else stats.mean_interval(values, shares=interval == "mean")
    )
    note = found.note or (unscored[0].reason if unscored else failed[0].message if failed else "")
    note = note if empty.usable else f"unusable, as more than 5% failed: {note}"
    return replace(empty, value=total / len(values), ci_low=found.low, ci_high=found.high, note=note)
