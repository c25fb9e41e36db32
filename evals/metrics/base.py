"""The structure of a metric: a score for each query with a summary, or a statistic of the whole run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.collect.observations import Failure, Observation, Observed, Score, Summary, Unscored, distinct_chunks
from evals.golden.source_pages import SourcePageError, Sources
from evals.judge.trust.trust import Trust
from evals.judge.verdicts import Judging
from evals.metrics.arrays import Prefixes
from evals.metrics.declaration import Declaration
from evals.stats import intervals as stats

Scope = Literal["in_scope", "out_of_scope", "all"]
# Interval of a metric: of a proportion for values of 0 or 1, of shares (`mean`), or of amounts.
Kind = Literal["proportion", "mean", "amount"]
Scorer = Callable[[Sequence[Observation], "Context"], Sequence[Score]]
Statistic = Callable[[Observed, "Context"], Summary]
NO_LABELS = Unscored(reason="the query has no labels (evidence or relevant_ids)")


@dataclass(frozen=True, kw_only=True)
class Context:
    """Inputs of metrics besides the observations.

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
        score: All observations of the scope to as many scores; of a metric that needs labels, those that have any.
        of: Which list it reads: what was returned, or the candidates, which threshold and cut do not change.
        depth: Number of places of that list that it reads; None for all.
        over_prefixes: Computes it over every beginning of every list at once, equal to `score` to the last bit; None
            where a grid scores selection by selection. NaN where there is nothing to score.
        undefined: Reason for a NaN of `over_prefixes`.
        proxy: A metric that costs nothing and goes with this one, which corrects its mean where a sample of the queries
            is judged; None for a metric that needs no judge.
    """

    scope: Scope
    interval: Kind
    score: Scorer
    of: Literal["returned", "candidates"] = "returned"
    depth: int | None = None
    over_prefixes: Prefixes | None = None
    undefined: str = ""
    proxy: "QueryMetric | None" = None

    def scores(self, observations: Sequence[Observation], context: Context) -> Sequence[Score]:
        """Return the score of each observation; a metric that needs labels leaves queries without any unscored."""
        if "labels" not in self.needs or not any(o.case.is_unlabelled for o in observations):
            return self.score(observations, context)
        labelled = iter(self.score([o for o in observations if not o.case.is_unlabelled], context))
        return [NO_LABELS if o.case.is_unlabelled else next(labelled) for o in observations]


@dataclass(frozen=True, kw_only=True)
class RunMetric(Declaration):
    """A statistic of the whole run that is not a mean of query scores."""

    summarise: Statistic


Metric = QueryMetric | RunMetric


def each(score: Callable[[Observation, Context], Score]) -> Scorer:
    """Return a scorer of many observations from a scorer of one; an unreadable source page is a failure."""

    def one(observation: Observation, context: Context) -> Score:
        try:
            return score(observation, context)
        except SourcePageError as error:
            return Failure(type="SourcePageError", message=f"source page {error}")

    return lambda observations, context: [one(observation, context) for observation in observations]


def where_named(score: Callable[[Observation, Context], Score], *fields: str) -> Scorer:
    """Return a scorer that is unscored where no chunk in the whole run has any of these fields.

    Then they are not in the metadata (or not mapped), which says nothing about the content. One chunk that has them is
    enough for those without to count as wrong.
    """
    reason = Unscored(reason=f"no chunk found carries {' or '.join(fields)}")

    def scorer(observations: Sequence[Observation], context: Context) -> Sequence[Score]:
        chunks = distinct_chunks(observations)
        if chunks and not any(getattr(chunk, name) for chunk in chunks for name in fields):
            return [reason] * len(observations)
        return each(score)(observations, context)

    return scorer


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
