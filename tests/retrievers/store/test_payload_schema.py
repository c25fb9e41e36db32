"""What a payload holds: fields by all their names, the kinds of their values."""

from collections.abc import Mapping
from typing import Any

import pytest
from retrievers.search.pushdown import PayloadSchema, misfits, resolve_key

from retrievers.config.filters import parse
from retrievers.errors import ConfigError
from tests.support.collections import settings

FLAT = {"nested_under": "", "text_key": "body"}


def schema_of(*payloads: Mapping[str, Any]) -> PayloadSchema:
    return PayloadSchema.of(payloads)


def test_the_schema_holds_the_types_of_values_and_of_items_of_lists() -> None:
    schema = schema_of({"a": 1, "m": {"t": ["x", 2], "e": []}}, {"a": 1.5, "b": None, "m": {"f": True}})
    assert schema.types == {
        "a": {"int", "float"},
        "b": set(),
        "m.t": {"str", "int"},
        "m.e": set(),
        "m.f": {"bool"},
    }


@pytest.mark.parametrize(
    ("metadata", "payload", "fields", "key"),
    [
        ({}, {"metadata": {"source_url": "/"}}, ["source_url", "url", "metadata.source_url"], "metadata.source_url"),
        ({}, {"metadata": {"url": "/"}}, ["source_url", "url"], "metadata.url"),
        ({}, {"metadata": {"document_id": "/"}}, ["source_document_id", "source_document", "document_id"], None),
        ({}, {"metadata": {"lang": "en"}}, ["lang", "metadata.lang"], "metadata.lang"),
        ({}, {"page_content": "t", "metadata": {}}, ["page_content"], "page_content"),
        ({"map": {"title": "name"}}, {"metadata": {"name": "x"}}, ["title", "name", "metadata.name"], "metadata.name"),
        (FLAT, {"body": "t", "url": "/"}, ["source_url", "url"], "url"),
        ({**FLAT, "map": {"url": "href"}}, {"href": "/"}, ["source_url", "url", "href"], "href"),
        (FLAT, {"extra": {"lang": "en"}}, ["extra.lang"], "extra.lang"),
    ],
)
def test_a_field_is_known_by_its_canonical_name_its_aliases_and_its_key(
    metadata: Any, payload: Any, fields: list[str], key: str | None
) -> None:
    config = settings(metadata=metadata).metadata
    expected = key or "metadata.document_id"
    assert {resolve_key(field, config, schema_of(payload)) for field in fields} == {expected}


@pytest.mark.parametrize(
    ("held", "filters", "kinds"),
    [
        (["x", 5], "v > 1", []),
        (["x", 5], "v = x or v = 5", []),
        (["x", 5], "v = true", ["flag"]),
        ([5, 1.5], "v in [1, 2.5, x, true]", ["text", "flag"]),
        ([[True, "x"]], "v contains [false, 1]", ["number"]),
        ([True], "v >= 1 and not v = 1", ["number", "number"]),
        ([None], "v > 1 and v = x and v = true", []),
        ([[]], "v > 1 and v = x and v = true", []),
        ([[{"a": 1}]], "v = x", ["text"]),
    ],
)
def test_values_of_a_kind_that_was_not_seen_are_misfits(held: list[Any], filters: str, kinds: list[str]) -> None:
    schema = schema_of(*({"metadata": {"v": value}} for value in held))
    found = list(misfits(parse(filters), settings().metadata, schema))
    assert [misfit.kind for misfit in found] == kinds
    assert {misfit.key for misfit in found} <= {"metadata.v"}


@pytest.mark.parametrize(
    ("held", "filters", "remedy"),
    [
        ([5], "v = '-3'", "write -3 without quotes"),
        ([5], "v = 'three'", "expected a number"),
        ([5, True], "v = 'FALSE'", "write FALSE without quotes"),
        ([5, True], "v = 'three'", "expected a number or true or false"),
        (["x", 5], "v = true", 'write "true" in quotes'),
        ([True], "v = 2.5", "expected true or false"),
        ([[{}]], "v = 2.5", "expected another field"),
    ],
)
def test_a_misfit_says_what_to_write(held: list[Any], filters: str, remedy: str) -> None:
    schema = schema_of(*({"metadata": {"v": value}} for value in held))
    (found,) = misfits(parse(filters), settings().metadata, schema)
    assert found.message.startswith("filters: v: nothing can equal the ")
    assert found.message.endswith(f" there; {remedy}")


def test_a_misfit_of_an_unknown_field_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no field 'w'"):
        list(misfits(parse("w = 5"), settings().metadata, schema_of({"metadata": {"v": 5}})))
