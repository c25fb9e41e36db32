"""Metrics of the user's own: one more row of the table.

    from evals import metric

    @metric("team/has_code", unit="share", direction="higher")
    def has_code(case, chunks):
        return any("```" in chunk.text for chunk in chunks)

An experiment names it `python:my_metrics:has_code` among its metrics; `evaluate` and `sweep` take the function itself.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from evals.cases.case import Case
from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.errors import ExperimentError
from evals.metrics.declaration import SHARE, Direction, QueryMetric, Scope
from evals.metrics.results import Values
from retrievers.config import factory
from retrievers.records import Chunk

PREFIX = "python:"
Own = Callable[[Case, Sequence[Chunk]], "float | bool | None"]


def metric(
    name: str,
    *,
    unit: str = "share",
    direction: Direction = "higher",
    range: tuple[float, float] = SHARE,
    scope: Scope = "all",
    about: str = "",
) -> Callable[[Own], Own]:
    """Declare a function as a metric over queries.

    The function gets a golden query (`Case`) and its returned chunks in rank order (`Chunk`), and returns a number, a
    truth value, or None where there is nothing to score. It is called once for each distinct result of a query. What it
    raises, and a number outside of the range, is a failed score with its cause; the other queries keep theirs.

    Args:
        name: Name in reports and MLflow, such as `team/has_code`.
        unit: Unit of the values, such as `share`, `ms` or `tokens`.
        direction: Which values are better: `higher`, `lower`, `neither`.
        range: Lowest and highest possible value. Of means within 0 and 1 the interval allows for these bounds.
        scope: Which queries it is over: `all`, `in_scope`, `out_of_scope`.
        about: One line about it; the first line of the function's docstring when left out.
    """

    def declared(function: Own) -> Own:
        said = about or (function.__doc__ or "").strip().partition("\n")[0]
        row = QueryMetric(
            name=name, about=said, source="the user's own", direction=direction, unit=unit, range=range, scope=scope,
            score=lambda r, _: Values.joined([_scored(function, each, range) for each in r.observations()]),
        )  # fmt: skip
        function.metric = row  # type: ignore[attr-defined]  # a function is an object
        return function

    return declared


def own_metric(given: Any) -> QueryMetric:
    """Return the metric that a user's object is: a declared function, or a row of the table.

    Args:
        given: The object, or where it is found: `python:module:name`.

    Raises:
        ConfigError: It cannot be imported.
        ExperimentError: It is no metric.
    """
    found = factory.find(given.removeprefix(PREFIX), "metrics") if isinstance(given, str) else given
    row = getattr(found, "metric", found)
    if isinstance(row, QueryMetric):
        return row
    raise ExperimentError(
        f"metrics: expected a function declared by @evals.metric(NAME), got {found!r} without a name; put "
        '@metric("team/name") above it'
    )


def _scored(function: Own, observation: Observation, limits: tuple[float, float]) -> Score:
    try:
        value = function(observation.case, list(observation.selection.chunks))
        if value is None:
            return Unscored(reason="the metric gives no score")
        score = float(value)
    except Exception as error:  # whatever a user's function raises is that score's cause
        return Failure(type=type(error).__name__, message=str(error))
    if isfinite(score) and limits[0] <= score <= limits[1]:
        return score
    return Failure(type="OutOfRange", message=f"expected {limits[0]:g} to {limits[1]:g}, got {score!r}")
