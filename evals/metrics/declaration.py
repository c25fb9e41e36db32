"""Declarations of metrics: rows of one table, scored over all results at once, and metrics of the user's own.

    from evals import metric

    @metric("team/has_code", unit="share", direction="higher")
    def has_code(case, chunks):
        return any("```" in chunk.text for chunk in chunks)

An experiment names it `python:my_metrics:has_code` among its metrics; `evaluate` and `sweep` take the function itself.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, validate_call

from evals.cases.case import Case
from evals.cases.pages import SourcePages
from evals.collect.observations import Failure, Observation, Observed, Score, Summary, Unscored
from evals.collect.passes import Progress
from evals.errors import ExperimentError
from evals.judge.judge import Judge
from evals.judge.trust import Trust
from evals.judge.verdicts import Judging
from evals.metrics.results import Results, Values
from evals.stats import intervals as stats
from evals.stats.intervals import Floats
from retrievers.config import RetrieverConfig
from retrievers.config.settings import load_factory
from retrievers.records import Chunk
from retrievers.retriever.protocol import Retriever
from retrievers.text.shown import quoted

Direction = Literal["higher", "lower", "neither"]
# `labels`: what golden data call relevant; `latency`: timed single calls; `determinism`: repeated queries;
# `judge`: verdicts; `judge usage`: the calls that they took; `sources`: the source pages.
Need = Literal["labels", "latency", "determinism", "judge", "judge usage", "sources"]
Headline = Literal["always", "at the deepest", "never"]
Scope = Literal["in_scope", "out_of_scope", "all"]
Scorer = Callable[[Results, "Context"], Values | Floats]
Own = Callable[[Case, list[Chunk]], "float | bool | Awaitable[float | bool | None] | None"]

# Digits after the point of values in tables, 3 for all other units.
DIGITS: dict[str, int] = {"ms": 1, "tokens": 1, "total tokens": 0, "calls": 0, "USD": 4}
PREFIX = "python:"
# As MLflow takes names: no part is `..`, and with what stands around it (`by_type/…`) it has at most 250 characters.
NAME, LONGEST = r"^[\w: -][\w.: -]*(/[\w: -][\w.: -]*)*$", 200
SHARE, AMOUNT = (0.0, 1.0), (0.0, inf)
# How far a value may be outside of its range by rounding: the cosine of a float32 vector with itself is 1.0000001.
ROUNDING = 1e-6
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
        headline: When the terminal shows the metric; `at the deepest` shows the one with the largest depth.
        needs: Measurements and inputs that the metric needs besides one retrieval.
        of: The list that the metric reads: the returned chunks, or the candidates before threshold and cut.
        depth: Number of places of that list that the metric reads; None for all.
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
        """Return True if the metric reads more places than the lists of a retriever have."""
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
        sources: The source pages; None if the settings name none.
        relevant_texts: Chunk id to text of every chunk that is relevant to some query; None if the retriever's chunks
            cannot be listed, and relevant texts are the quotes of the golden data.
        seed: Seed of all resampling.
        judging: Verdicts of the judge; None without a judge.
        trust: Quality of the judge; None without a judge.
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
        retrievers: Retrievers to evaluate: one for a run, one for each variant of a sweep, in their order. Empty if the
            candidates come from a file.
        progress: Called with the stage, the amount done and the total.
        sources: The source pages; None if the settings name none.
        judge: The judge; None without one.
    """

    retrievers: Sequence[Retriever]
    progress: Progress
    sources: SourcePages | None = None
    judge: Judge | None = None

    @property
    def retriever(self) -> Retriever:
        """The retriever of a run, or the first one of a sweep."""
        return self.retrievers[0]


@dataclass(frozen=True, kw_only=True)
class QueryMetric(Declaration):
    """A score for every query, averaged.

    Attributes:
        score: Scores results, one value a row. It gets the rows of the scope; if the metric needs labels, only rows of
            queries with labels. NaN is no value, and `Values` say why there is none.
        scope: The queries that the metric is over.
        all_relevant: True if the metric divides by the number of all relevant chunks. It has no value where some of
            them may be unknown.
        proxy: A metric that costs nothing and correlates with this one. It corrects the mean where a sample of the
            queries is judged. None for a metric that needs no judge.
    """

    score: Scorer
    scope: Scope = "in_scope"
    all_relevant: bool = False
    proxy: "QueryMetric | None" = None

    def values(self, results: Results, context: Context) -> Values:
        """Score results. Rows of queries outside of the scope have neither a value nor a reason for none."""
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
        tell: Computes the statistic, without the name of the metric.
    """

    tell: Callable[[Observed, Context], Summary]

    def summarise(self, observed: Observed, context: Context) -> Summary:
        """Return the statistic."""
        return replace(self.tell(observed, context), metric=self.name)


Metric = QueryMetric | RunMetric


def figure(value: float | None, note: str = "", **fields: float | None) -> Summary:
    """Return a statistic of the run, without the name of its metric; a value of None has its reason in `note`."""
    return Summary(metric="", value=value, note=note, **fields)  # type: ignore[arg-type]


def within(observations: Sequence[Observation], scope: Scope) -> list[Observation]:
    """Return the observations in the scope of a metric."""
    return [observation for observation in observations if observation.case.is_of(scope)]


def summarise(metric: Declaration, scores: Sequence[object]) -> Summary:
    """Average scores, with counts, the 95% interval, and the bounds that failed and missing scores leave open.

    The mean and its interval are over the scored values. If scores failed or are missing, `bound_low` and `bound_high`
    are the mean with each of them at the lower and at the upper end of the metric's range; None for an infinite end.
    """
    values = [score for score in scores if isinstance(score, float | int)]
    unscored = [score for score in scores if isinstance(score, Unscored)]
    failed = [score for score in scores if isinstance(score, Failure)]
    missing = sum(score.missing for score in unscored)
    lost, total = len(failed) + missing, float(np.sum(values))
    count = len(values) + lost
    low, high = ((total + lost * end) / count if lost and isfinite(end) else None for end in metric.range)
    floor, ceiling = metric.range
    interval = stats.mean_interval(values, shares=isfinite(ceiling - floor), floor=floor, ceiling=ceiling)
    reason = unscored[0].reason if unscored else ""
    if len(failed) > len(unscored):
        reason = failed[0].failed
    summary = Summary(
        metric=metric.name,
        value=total / len(values) if values else None,
        ci_low=interval.low,
        ci_high=interval.high,
        n=len(values),
        n_unscored=len(unscored),
        n_failed=len(failed),
        n_missing=missing,
        bound_low=low,
        bound_high=high,
        note=(not lost and interval.note) or reason if values else reason or "no query of this kind",
    )
    if summary.usable or not values:
        return summary
    return replace(summary, note=f"unusable, as more than 5% failed: {failed[0].failed}")


def _reasons(reasons: Sequence[str]) -> Values:
    """Return values without a score where a row has a reason; an empty reason is none."""
    return Values.joined([Unscored(reason=reason) if reason else 0.0 for reason in reasons])


def _ascending(ends: tuple[float, float]) -> tuple[float, float]:
    if not ends[0] < ends[1]:
        raise ValueError(f"expected the lowest value, then a higher one, got {ends}")
    return ends


@validate_call
def metric(
    name: Annotated[str, Field(pattern=NAME, max_length=LONGEST)],
    *,
    unit: str = "share",
    direction: Direction = "higher",
    range: Annotated[tuple[float, float], AfterValidator(_ascending)] = SHARE,
    scope: Scope = "all",
    about: str = "",
) -> Callable[[Own], Own]:
    """Declare a function as a metric over queries.

    The function gets a golden query (`Case`) and its returned chunks in rank order (`Chunk`). It returns a number, a
    truth value, or None where there is nothing to score; it may be asynchronous. A grid calls it once for each distinct
    result of a query, and once more for the result of the recommended cell. An exception, or a number outside of the
    range, is a failed score with its cause; the other queries keep their scores. A number within 1e-6 of the range, as
    float32 rounds it, counts as the nearest end.

    Args:
        name: Name in reports and MLflow, such as `team/has_code`: letters, digits, spaces and _ . - : with / between,
            at most 200; no part begins with a dot.
        unit: Unit of the values, such as `share`, `ms` or `tokens`; any text.
        direction: Which values are better: `higher`, `lower`, `neither`.
        range: Lowest and highest possible value; infinite where there is no limit, since intervals allow for what the
            values could have been.
        scope: The queries that the metric is over: `all`, `in_scope`, `out_of_scope`.
        about: One line about the metric; the first line of the function's docstring when left out.

    Raises:
        ValidationError: An argument is not valid.
    """

    def declared(function: Own) -> Own:
        line = about or (function.__doc__ or "").strip().partition("\n")[0]
        row = QueryMetric(
            name=name, about=line, source="the user's own", direction=direction, unit=unit, range=range, scope=scope,
            # Cached: a call may be expensive, and a grid reads the values of its objective more than once.
            score=lambda r, _: r.once(
                f"own {name}", lambda: Values.joined([_score(function, o, range) for o in r.observations()])
            ),
        )  # fmt: skip
        function.metric = row  # type: ignore[attr-defined]  # a function is an object
        return function

    return declared


def own_metric(source: Any) -> QueryMetric:
    """Return a metric of the user's own.

    Args:
        source: A declared function, a `QueryMetric`, or where one of them is found: `python:module:name`.

    Raises:
        ConfigError: The object cannot be imported.
        ExperimentError: The object is no metric.
    """
    loaded = load_factory(source.removeprefix(PREFIX), "metrics") if isinstance(source, str) else source
    row = getattr(loaded, "metric", loaded)
    if isinstance(row, QueryMetric):
        return row
    raise ExperimentError(
        f"metrics: expected a function declared by @evals.metric(NAME), got {loaded!r} without a name; put "
        '@metric("team/name") above it'
    )


def _score(function: Own, observation: Observation, limits: tuple[float, float]) -> Score:
    """Return what a user's function says of a result, or why that is no score."""
    try:
        # Copies, since a function may alter what it gets, and other metrics read it.
        chunks = [replace(chunk, extra={**chunk.extra}) for chunk in observation.selection.chunks]
        value: Any = function(observation.case.model_copy(deep=True), chunks)
        if inspect.isawaitable(value):
            from retrievers.retriever.foreign import awaited

            value = awaited(value)
        if value is None:
            return Unscored(reason="the metric gives no score")
        if isinstance(value, str | bytes):
            raise TypeError(f"expected a number, got the text {quoted(value)}")
        score = float(value)
    except (Exception, SystemExit) as error:  # whatever a user's function raises is that score's cause
        return Failure(failed=" ".join(f"{type(error).__name__}: {error}".split()))
    within = min(max(score, limits[0]), limits[1])
    if isfinite(score) and abs(score - within) <= ROUNDING:
        return within
    return Failure(failed=f"OutOfRange: got {score!r}; the metric's range is {limits[0]:g} to {limits[1]:g}")
