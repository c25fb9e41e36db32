"""qdrant_client's filters as the engine's.

Matching is by kind, as on a server: 1, 1.0, true and "1" are four different values. A payload index sees only the
values of its own kind: give one to a field whose values are all of that kind.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

import numpy as np
import qdrant_edge as edge
from qdrant_client import models

from retrievers.errors import StoreError, StoreUnsupportedError
from retrievers.store.edge.convert import to_id

TESTS = ("match", "range", "values_count", "is_empty", "is_null")
# The engine's type stubs have no common type for its conditions.
Condition = Any


def to_engine(query_filter: models.Filter | None) -> edge.Filter | None:
    """Convert a filter for the engine.

    Args:
        query_filter: must, should, must_not and min_should of conditions on fields (match a value, any of, all but;
            range; number of values; empty; null), ids, vectors, nested objects, or filters again.

    Raises:
        StoreUnsupportedError: It holds a condition that is not among these.
        StoreError: A condition is malformed.
    """
    if query_filter is None:
        return None
    least = query_filter.min_should
    if least is not None and least.min_count < 1:
        raise StoreError(f"min_should: expected a min_count of at least 1, got {least.min_count}")
    try:
        return edge.Filter(
            must=_conditions(query_filter.must),
            should=_conditions(query_filter.should),
            must_not=_conditions(query_filter.must_not),
            min_should=edge.MinShould(_conditions(least.conditions) or [], least.min_count) if least else None,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"the filter cannot be used: {error}") from error


def selected(selector: Any) -> edge.Filter | list[Any]:
    """Return the points of a selector: a filter, or ids.

    Raises:
        StoreError: It is neither, or malformed.
    """
    if isinstance(selector, models.FilterSelector):
        selector = selector.filter
    if isinstance(selector, models.Filter):
        return to_engine(selector) or edge.Filter()
    if isinstance(selector, models.PointIdsList):
        selector = selector.points
    if isinstance(selector, (list, tuple)):
        return [to_id(point) for point in selector]
    raise StoreError(f"expected a list of point ids or a filter, got {type(selector).__name__}")


def _conditions(conditions: Any) -> list[Condition] | None:
    if conditions is None:
        return None
    return [_condition(condition) for condition in (conditions if isinstance(conditions, list) else [conditions])]


def _condition(condition: Any) -> Condition:
    convert = CONDITIONS.get(type(condition))
    if convert is None:
        raise StoreUnsupportedError(
            f"filter condition {type(condition).__name__}: the embedded engine is used without it"
        )
    return convert(condition)


def _field(condition: models.FieldCondition) -> edge.FieldCondition:
    tests = {name: value for name, value in condition if name != "key" and value is not None}
    if unknown := [name for name in tests if name not in TESTS]:
        raise StoreUnsupportedError(f"filter on {condition.key!r}: the embedded engine is used without {unknown[0]}")
    if len(tests) != 1:
        raise StoreError(
            f"filter on {condition.key!r}: expected one test in a condition, got {', '.join(tests) or 'none'}"
        )
    converted = {name: _test(condition.key, value) for name, value in tests.items()}
    return edge.FieldCondition(condition.key, **converted)


def _test(key: str, test: Any) -> Any:
    if isinstance(test, bool):  # is_empty, is_null
        return test
    convert = TEST_KINDS.get(type(test))
    if convert is None:
        raise StoreUnsupportedError(
            f"filter on {key!r}: the embedded engine is used without {type(test).__name__}; "
            "use equality, any-of, all-but or a range of numbers"
        )
    return convert(test)


def _match_value(match: models.MatchValue) -> edge.MatchValue:
    """Convert numpy's bools to Python's: the engine's binding takes True for 1."""
    value: Any = np.bool_(match.value) if isinstance(match.value, bool) else match.value
    return edge.MatchValue(value)


def _bounds(limits: Any) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in ("gte", "gt", "lte", "lt")}


def _ids(ids: Iterable[Any]) -> set[Any]:
    """Pass UUIDs as objects: the engine reads them in half of the time that their texts take."""
    return {point if isinstance(point, UUID) else to_id(point) for point in ids}


def _nested(condition: models.NestedCondition) -> edge.NestedCondition:
    inner = to_engine(condition.nested.filter)
    return edge.NestedCondition(condition.nested.key, inner or edge.Filter())


TEST_KINDS: Mapping[type, Callable[[Any], Any]] = {
    models.MatchValue: _match_value,
    models.MatchAny: lambda condition: edge.MatchAny(condition.any),
    models.MatchExcept: lambda condition: edge.MatchExcept(condition.except_),
    models.Range: lambda condition: edge.RangeFloat(**_bounds(condition)),
    models.ValuesCount: lambda condition: edge.ValuesCount(**_bounds(condition)),
}
CONDITIONS: Mapping[type, Callable[[Any], Condition]] = {
    models.FieldCondition: _field,
    models.IsEmptyCondition: lambda given: edge.IsEmptyCondition(given.is_empty.key),
    models.IsNullCondition: lambda given: edge.IsNullCondition(given.is_null.key),
    models.HasIdCondition: lambda given: edge.HasIdCondition(_ids(given.has_id)),
    models.HasVectorCondition: lambda given: edge.HasVectorCondition(given.has_vector),
    models.NestedCondition: _nested,
    models.Filter: to_engine,
}
