from typing import Any

import pytest
from pydantic import ValidationError

from retrievers.config.indexing import DEFAULTS, IndexSettings, recorded_settings
from retrievers.errors import ConfigError


def index(**named: Any) -> IndexSettings:
    return IndexSettings.model_validate(named)


def test_only_given_settings_are_named() -> None:
    assert index().named == {}
    assert index(context="none", overlap=0, merge_small=False).named == {
        "context": "none",
        "overlap": 0,
        "merge_small": False,
    }


def test_a_new_collection_gets_the_defaults_and_an_existing_one_keeps_its_own() -> None:
    assert index(max_tokens=64).over({}).named == {**DEFAULTS, "max_tokens": 64}
    recorded = {"context": "title", "splitter": "sections", "max_tokens": 128, "overlap": 8, "merge_small": True}
    assert index(context="path").over(recorded).named == {**recorded, "context": "path"}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"overlap": 64, "max_tokens": 64}, "expected less than max_tokens, which is 64"),
        ({"overlap": 256}, "expected less than max_tokens, which is 256"),
        ({"overlap": -1}, "greater than or equal to 0"),
        ({"max_tokens": 15}, "greater than or equal to 16"),
        ({"context": "heading"}, "'none', 'title' or 'path'"),
    ],
)
def test_impossible_settings_are_refused(named: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        index(**named)
    assert message in str(caught.value)


def test_an_overlap_that_the_recorded_budget_cannot_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_tokens, which is 32 in the collection, got 100; set index\.max_tokens"):
        index(overlap=100).over({**DEFAULTS, "max_tokens": 32})


def test_records_of_earlier_versions_and_of_other_programs() -> None:
    assert recorded_settings({}) == {}
    assert recorded_settings({"embedding": {}, "max_tokens": 64}) == {**DEFAULTS, "max_tokens": 64}
    assert recorded_settings({"embedding": {}, "index": {"context": "path"}}) == {**DEFAULTS, "context": "path"}
