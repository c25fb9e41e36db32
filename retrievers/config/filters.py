"""Convert conditions on chunks to a filter of Qdrant. They have one of three forms.

    {module: module-1-ros2, tags: [qos, dds]}                       every entry holds; a list is any of its values
    module = a and not tags contains b and chunk_token_count >= 200
    {must: [{key: metadata.module, match: {value: a}}]}             Qdrant's own, with the payload's own keys

The form of text has `=`, `!=`, `<`, `<=`, `>`, `>=`, `in [a, b]`, `contains x` (or `contains [x, y]` for all of them),
`and`, `or`, `not` and parentheses. Names and values with spaces or signs stand in quotes. 5 is a number, "5" is text.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from retrievers.text.shown import quoted

if TYPE_CHECKING:
    from pyparsing import ParserElement
    from qdrant_client import models

Model = TypeVar("Model", bound=BaseModel)
# Keys of a filter of Qdrant.
CLAUSES = frozenset({"must", "should", "must_not", "min_should"})
RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
EXPECTED = "conditions such as `module = a`, joined by and, or, not and parentheses"


def is_qdrants(source: str | Mapping[str, Any]) -> bool:
    """Return True for a filter in Qdrant's own form. It is sent as it is."""
    return isinstance(source, Mapping) and bool(source) and CLAUSES.issuperset(source)


def to_filter(source: str | Mapping[str, Any]) -> "models.Filter":
    """Convert conditions to a filter of Qdrant. Its keys are names of fields, unless the source is a filter of Qdrant.

    Raises:
        ValueError: The source is malformed. The message says what was expected and what was got.
    """
    from pyparsing import ParseBaseException
    from qdrant_client import models

    if is_qdrants(source):
        return as_qdrants(models.Filter, source)
    if isinstance(source, Mapping):
        if not source:
            raise ValueError("expected at least one condition, got {}; leave filters out")
        return models.Filter(must=[_condition(field, "in", value) for field, value in source.items()])
    try:
        read: models.Filter = _grammar().parse_string(source, parse_all=True)[0]
        return read
    except ParseBaseException as error:
        raise ValueError(f"{quoted(source)}: expected {EXPECTED}, got {quoted(source[error.loc :][:40])}") from None


def as_qdrants(model: "type[Model]", given: Any) -> "Model":
    """Validate a value as a model of Qdrant.

    Raises:
        ValueError: The value is not valid. The message is its first fault.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"] if not str(part)[:1].isupper())
        reason = f"{fault['msg']}, got {quoted(fault['input'])}"
        raise ValueError(f"{where}: no {model.__name__} of Qdrant: {reason}") from None


def conditions(tree: "models.Filter") -> "Iterator[models.FieldCondition]":
    """Yield every condition on a field of the payload."""
    from qdrant_client import models

    for clause in (tree.must, tree.should, tree.must_not):
        for part in clause if isinstance(clause, list) else [clause]:
            if isinstance(part, models.Filter):
                yield from conditions(part)
            elif isinstance(part, models.FieldCondition):
                yield part


@cache
def _grammar() -> "ParserElement":
    import pyparsing as pp
    from qdrant_client import models

    text = pp.QuotedString('"', esc_char="\\") | pp.QuotedString("'", esc_char="\\")
    word = pp.Regex(r"""[^\s()\[\],=!<>"']+""")
    value = text | word.copy().set_parse_action(lambda found: _typed(found[0]))
    several = pp.Optional(pp.DelimitedList(value, allow_trailing_delim=True))
    values = value | pp.Suppress("[") + several + pp.Suppress("]")
    operator = pp.one_of("= == != < <= > >=") | pp.CaselessKeyword("in") | pp.CaselessKeyword("contains")
    condition = (text | word) + operator + pp.Group(values)
    condition.set_parse_action(lambda found: _condition(found[0], found[1], found[2].as_list()))
    levels = [
        (pp.CaselessKeyword("not"), 1, pp.OpAssoc.RIGHT, lambda found: models.Filter(must_not=[found[0][1]])),
        (pp.CaselessKeyword("and"), 2, pp.OpAssoc.LEFT, lambda found: models.Filter(must=found[0][::2])),
        (pp.CaselessKeyword("or"), 2, pp.OpAssoc.LEFT, lambda found: models.Filter(should=found[0][::2])),
    ]
    grammar: ParserElement = pp.infix_notation(condition, levels)  # type: ignore[no-untyped-call]
    return grammar


def _typed(word: str) -> str | bool | int | float:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", word):
        return float(word) if "." in word else int(word)
    return word


def _condition(field: str, operator: str, given: Any) -> "models.Filter":
    from qdrant_client import models

    values = given if isinstance(given, list) else [given]
    for value in values:
        if not isinstance(value, str | int | float):
            wanted = "text, a number, true or false, or a list of them; all else is written as text"
            raise ValueError(f"{field}: expected {wanted} (`a = 1 or b >= 2`), got {quoted(value)}")
    if not values:
        raise ValueError(f"{field}: no values are given, so nothing could match; leave the filter out")
    if name := RANGES.get(operator):
        limits = as_qdrants(models.Range, {name: values[0]})
        return models.Filter(must=[models.FieldCondition(key=field, range=limits)])
    equal = [_equals(field, value) for value in values]
    if operator == "contains":
        return models.Filter(must=equal)
    return models.Filter(must_not=equal) if operator == "!=" else models.Filter(should=equal)


def _equals(field: str, value: Any) -> "models.FieldCondition":
    """Return the condition that a field equals a value. For a number it is a range, which matches both 5 and 5.0."""
    from qdrant_client import models

    if isinstance(value, int | float) and not isinstance(value, bool):
        return models.FieldCondition(key=field, range=models.Range(gte=float(value), lte=float(value)))
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))
