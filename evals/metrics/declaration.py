"""What a metric is: a row of one table, scored over all results at once, with its summary; and one of the user's own.

    from evals import metric

    @metric("team/has_code", unit="share", direction="higher")
    def has_code(case, chunks):
        return any("```" in chunk.text for chunk in chunks)

An experiment names it `python:my_metrics:has_code` among its metrics; `evaluate` and `sweep` take the function itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, validate_call

from evals.cases.case import Case
from evals.cases.pages import SourcePages
from evals.collect.observations import Failure, Observation, Observed, Score, Summary, Unscored
from evals.collect.passes import Progress
from evals.collect.pool import Floats
from evals.errors import ExperimentError
from evals.judge.judge import Judge
from evals.judge.trust import Trust
from evals.judge.verdicts import Judging
from evals.metrics.results import Results, Values
from evals.stats import intervals as stats
from retrievers.config import RetrieverConfig
from retrievers.config.settings import load_factory
from retrievers.records import Chunk
from retrievers.retriever.protocol import Retriever

Direction = Literal["higher", "lower", "neither"]
# `labels`: what golden data call relevant; `latency`: timed single calls; `determinism`: repeated queries;
# `judge`: verdicts; `judge usage`: the calls that they took; `sources`: the source pages.
Need = Literal["labels", "latency", "determinism", "judge", "judge usage", "sources"]
Headline = Literal["always", "at the deepest", "never"]
Scope = Literal["in_scope", "out_of_scope", "all"]
Scorer = Callable[[Results, "Context"], Values | Floats]
Own = Callable[[Case, list[Chunk]], "float | bool | None"]

# Digits after the point of values in tables, 3 for all other units.
DIGITS: dict[str, int] = {"ms": 1, "tokens": 1, "total tokens": 0, "calls": 0, "USD": 4}
PREFIX = "python:"
# As MLflow takes names.
NAME = r"^[\w.: -]+(/[\w.: -]+)*$"
SHARE, AMOUNT = (0.0, 1.0), (0.0, inf)
NO_VALUE = Unscored(reason="the metric has no value for this result")
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
        of: Which list it reads: what was returned, or the candidates, which threshold and cut do not change.
        depth: Number of places of that list that it reads; None for all.
    """

    name: str
    about: str
    source: str = "this project"
    direction: Direction = "higher"
    unit: str = "share"
    range: tuple[float, float] = SHARE
    headline: Headline = "always"
    needs: frozenset[Need] = frozenset()
    of: Literal["returned", "candidates"] = "returned"
    depth: int | None = None

    @property
    def is_judged(self) -> bool:
        """True if the metric exists only with a judge."""
        return not self.needs.isdisjoint({"judge", "judge usage"})

    def reads_beyond(self, retriever: RetrieverConfig) -> bool:
        """Return True if it reads more places than the lists of a retriever have."""
        length = retriever.top_k if self.of == "returned" else retriever.candidates
        return self.depth is not None and self.depth > length

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
    sources: SourcePages | None
    relevant_texts: Mapping[str, str] | None
    seed: int
    judging: Judging | None = None
    trust: Trust | None = None


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """Open resources of an evaluation.

    Attributes:
        retrievers: Retrievers to evaluate: one, or for a sweep one for each of its variants, in their order; none where
            what they found is in a file.
        progress: Called with the stage, the amount done and the total.
        sources: The source pages, None when not known.
        judge: Judge of the metrics that need one; None without one.
    """

    retrievers: Sequence[Retriever]
    progress: Progress
    sources: SourcePages | None = None
    judge: Judge | None = None

    @property
    def retriever(self) -> Retriever:
        """The only retriever of a single run, the first of a sweep."""
        return self.retrievers[0]


@dataclass(frozen=True, kw_only=True)
class QueryMetric(Declaration):
    """A score for every query, averaged.

    Attributes:
        score: Results of the scope to as many values; of a metric that needs labels, results of queries that have any.
            NaN is no value; `Values` say why there is none.
        scope: Over which queries.
        all_relevant: True if it divides by all relevant chunks, so that it has no value where some may be unknown.
        proxy: A metric that costs nothing and goes with this one, which corrects its mean where a sample of the queries
            is judged; None for a metric that needs no judge.
    """

    score: Scorer
    scope: Scope = "in_scope"
    all_relevant: bool = False
    proxy: "QueryMetric | None" = None

    def values(self, results: Results, context: Context) -> Values:
        """Score results; those of queries that are not of its scope have neither a value nor a reason for none."""
        if self.of == "candidates":
            return self._values(results.candidates, context).at(results.list_of)
        return self._values(results, context)

    def _values(self, results: Results, context: Context) -> Values:
        by_labels = "labels" in self.needs
        rows, asked = results.of(self.scope, labelled=by_labels)
        scores = self.score(asked, context)
        values = scores if isinstance(scores, Values) else Values.of(scores, (np.isnan(scores), NO_VALUE))
        if self.all_relevant:
            lacking = _reasons([relevance.incomplete for relevance in asked.lists.relevance]).at(asked.list_of)
            values = Values.of(values.values, values, lacking)
        if self.of == "candidates" and by_labels:
            values = Values.of(values.values, _reasons(asked.of_table("incomplete")), values)
        if len(rows) == len(results):
            return values
        whole, unlabelled = values.within(rows, len(results)), np.zeros(len(results), dtype=np.bool_)
        unlabelled[np.setdiff1d(results.of(self.scope, labelled=False)[0], rows)] = True
        return Values.of(whole.values, whole, (unlabelled, NO_LABELS))


@dataclass(frozen=True, kw_only=True)
class RunMetric(Declaration):
    """A statistic of the whole run that is not a mean of query scores.

    Attributes:
        tell: The statistic; its name is that of the metric.
    """

    tell: Callable[[Observed, Context], Summary]

    def summarise(self, observed: Observed, context: Context) -> Summary:
        """Return the statistic."""
        return replace(self.tell(observed, context), metric=self.name)


Metric = QueryMetric | RunMetric


def figure(value: float | None, note: str = "", **fields: float | None) -> Summary:
    """Return a figure of the run, without the name of its metric; None is none, for the reason of the note."""
    return Summary(metric="", value=value, note=note, **fields)  # type: ignore[arg-type]


def within(observations: Sequence[Observation], scope: Scope) -> list[Observation]:
    """Return the observations in the scope of a metric."""
    return [o for o in observations if scope == "all" or o.case.in_scope == (scope == "in_scope")]


def summarise(metric: QueryMetric, scores: Sequence[Score]) -> Summary:
    """Average scores, with their counts, the 95% interval, and the bounds that failed and missing ones leave open.

    The mean and its interval are over the scored values; where some failed or are missing, `bound_low` and `bound_high`
    are the mean with every one of them at the lower and the upper end of the metric's range, None where it has none.
    """
    values = [score for score in scores if isinstance(score, float | int)]
    unscored = [score for score in scores if isinstance(score, Unscored)]
    failed = [score for score in scores if isinstance(score, Failure)]
    missing, total = sum(score.missing for score in unscored), float(np.sum(values))
    lost, ends = len(failed) + missing, stats.mean_interval(values, shares=metric.range == SHARE)
    known = len(values) + lost
    low, high = ((total + lost * end) / known if lost and isfinite(end) else None for end in metric.range)
    reason = unscored[0].reason if unscored else ""
    if len(failed) > len(unscored):
        reason = f"{failed[0].type}: {failed[0].message}"
    summary = Summary(
        metric=metric.name,
        value=total / len(values) if values else None,
        ci_low=ends.low,
        ci_high=ends.high,
        n=len(values),
        n_unscored=len(unscored),
        n_failed=len(failed),
        n_missing=missing,
        bound_low=low,
        bound_high=high,
        note=ends.note or reason if values else reason or "no query of this kind",
    )
    if summary.usable or not values:
        return summary
    return replace(summary, note=f"unusable, as more than 5% failed: {failed[0].type}: {failed[0].message}")


def _reasons(reasons: Sequence[str]) -> Values:
    """Return as values which rows have no score for one of several reasons; an empty one is none."""
    return Values.joined([Unscored(reason=reason) if reason else 0.0 for reason in reasons])


@validate_call
def metric(
    name: Annotated[str, Field(pattern=NAME)],
    *,
    unit: str = "share",
    direction: Direction = "higher",
    range: tuple[float, float] = SHARE,
    scope: Scope = "all",
    about: str = "",
) -> Callable[[Own], Own]:
    """Declare a function as a metric over queries.

    The function gets a golden query (`Case`) and its returned chunks in rank order (`Chunk`), and returns a number, a
    truth value, or None where there is nothing to score. A grid calls it once for each distinct result of a query,
    however many cells return that, and once more for the recommended cell's. What it raises, and a number outside of
    the range, is a failed score with its cause; the other queries keep theirs.

    Args:
        name: Name in reports and MLflow, such as `team/has_code`: letters, digits, spaces and _ . - : with / between.
        unit: Unit of the values, such as `share`, `ms` or `tokens`; any text.
        direction: Which values are better: `higher`, `lower`, `neither`.
        range: Lowest and highest possible value. Of means within 0 and 1 the interval allows for these bounds.
        scope: Which queries it is over: `all`, `in_scope`, `out_of_scope`.
        about: One line about it; the first line of the function's docstring when left out.

    Raises:
        ValidationError: One of them cannot be.
    """

    def declared(function: Own) -> Own:
        line = about or (function.__doc__ or "").strip().partition("\n")[0]
        row = QueryMetric(
            name=name, about=line, source="the user's own", direction=direction, unit=unit, range=range, scope=scope,
            # Kept, as a call may be dear, and a grid reads the values of its objective more than once.
            score=lambda r, _: r.once(name, lambda: _joined(function, r, range)),
        )  # fmt: skip
        function.metric = row  # type: ignore[attr-defined]  # a function is an object
        return function

    return declared


def own_metric(source: Any) -> QueryMetric:
    """Return the metric that a user's object is: a declared function, or a row of the table.

    Args:
        source: The object, or where it is found: `python:module:name`.

    Raises:
        ConfigError: It cannot be imported.
        ExperimentError: It is no metric.
    """
    target = load_factory(source.removeprefix(PREFIX), "metrics") if isinstance(source, str) else source
    row = getattr(target, "metric", target)
    if isinstance(row, QueryMetric):
        return row
    raise ExperimentError(
        f"metrics: expected a function declared by @evals.metric(NAME), got {target!r} without a name; put "
        '@metric("team/name") above it'
    )


def _joined(function: Own, r: Results, limits: tuple[float, float]) -> Values:
    return Values.joined([_scored(function, each, limits) for each in r.observations()])


def _scored(function: Own, observation: Observation, limits: tuple[float, float]) -> Score:
    try:
        value = function(observation.case, list(observation.selection.chunks))
        if value is None:
            return Unscored(reason="the metric gives no score")
        score = float(value)
    except (Exception, SystemExit) as error:  # whatever a user's function raises is that score's cause
        return Failure(type=type(error).__name__, message=str(error))
    if isfinite(score) and limits[0] <= score <= limits[1]:
        return score
    return Failure(type="OutOfRange", message=f"got {score!r}; the metric's range is {limits[0]:g} to {limits[1]:g}")
