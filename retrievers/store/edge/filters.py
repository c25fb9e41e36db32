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
Condition = Any  # the engine's stub has no common type for its conditions


def to_engine(given: models.Filter | None) -> edge.Filter | None:
    """A filter as the engine takes it.

    Args:
        given: must, should, must_not and min_should of conditions on fields (match a value, any of, all but; range;
            number of values; empty; null), ids, vectors, nested objects, or filters again.

    Raises:
        StoreUnsupportedError: It holds a condition that is not among these.
        StoreError: A condition is malformed.
    """
    if given is None:
        return None
    least = given.min_should
    if least is not None and least.min_count < 1:
        raise StoreError(f"min_should: expected a min_count of at least 1, got {least.min_count}")
    try:
        return edge.Filter(
            must=_conditions(given.must),
            should=_conditions(given.should),
            must_not=_conditions(given.must_not),
            min_should=edge.MinShould(_conditions(least.conditions) or [], least.min_count) if least else None,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"the filter cannot be used: {error}") from error


def selected(given: Any) -> edge.Filter | list[Any]:
    """The points that a selector means: a filter, or ids.

    Raises:
        StoreError: It is neither, or malformed.
    """
    if isinstance(given, models.FilterSelector):
        given = given.filter
    if isinstance(given, models.Filter):
        return to_engine(given) or edge.Filter()
    if isinstance(given, models.PointIdsList):
        given = given.points
    if isinstance(given, (list, tuple)):
        return [to_id(one) for one in given]
    raise StoreError(f"expected a list of point ids or a filter, got {type(given).__name__}")


def _conditions(given: Any) -> list[Condition] | None:
    if given is None:
        return None
    return [_condition(one) for one in (given if isinstance(given, list) else [given])]


def _condition(given: Any) -> Condition:
    convert = CONDITIONS.get(type(given))
    if convert is None:
        raise StoreUnsupportedError(f"filter condition {type(given).__name__}: the embedded engine is used without it")
    return convert(given)


def _field(given: models.FieldCondition) -> edge.FieldCondition:
    tests = {name: value for name, value in given if name != "key" and value is not None}
    if unknown := [name for name in tests if name not in TESTS]:
        raise StoreUnsupportedError(f"filter on {given.key!r}: the embedded engine is used without {unknown[0]}")
    if len(tests) != 1:
        raise StoreError(f"filter on {given.key!r}: expected one test in a condition, got {', '.join(tests) or 'none'}")
    converted = {name: _test(given.key, value) for name, value in tests.items()}
    return edge.FieldCondition(given.key, **converted)


def _test(key: str, given: Any) -> Any:
    if isinstance(given, bool):  # is_empty, is_null
        return given
    convert = TEST_KINDS.get(type(given))
    if convert is None:
        raise StoreUnsupportedError(
            f"filter on {key!r}: the embedded engine is used without {type(given).__name__}; "
            "use equality, any-of, all-but or a range of numbers"
        )
    return convert(given)


def _match_value(given: models.MatchValue) -> edge.MatchValue:
    """The engine's binding takes True for 1; a bool of numpy's comes through as one."""
    value: Any = np.bool_(given.value) if isinstance(given.value, bool) else given.value
    return edge.MatchValue(value)


def _bounds(given: Any) -> dict[str, Any]:
    return {name: getattr(given, name) for name in ("gte", "gt", "lte", "lt")}


def _ids(given: Iterable[Any]) -> set[Any]:
    """The engine takes UUIDs as they are, in half of the time that it takes for their texts."""
    return {one if isinstance(one, UUID) else to_id(one) for one in given}


def _nested(given: models.NestedCondition) -> edge.NestedCondition:
    inner = to_engine(given.nested.filter)
    return edge.NestedCondition(given.nested.key, inner or edge.Filter())


TEST_KINDS: Mapping[type, Callable[[Any], Any]] = {
    models.MatchValue: _match_value,
    models.MatchAny: lambda given: edge.MatchAny(given.any),
    models.MatchExcept: lambda given: edge.MatchExcept(given.except_),
    models.Range: lambda given: edge.RangeFloat(**_bounds(given)),
    models.ValuesCount: lambda given: edge.ValuesCount(**_bounds(given)),
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
