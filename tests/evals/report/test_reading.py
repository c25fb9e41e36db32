"""A report's file: its schema says what is read, and both refuse the same; a field is added by the recipe."""

import copy
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evals.errors import ReportError
from evals.report.parsing import parse
from tests.support import reports
from tests.support.recipes import follow, run
from tests.support.reports import closed, objects
from tests.support.results import report

ROOT = Path(__file__).parents[3]
PUBLISHED: dict[str, Any] = json.loads((ROOT / "evals" / "report" / "schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(PUBLISHED)
GENERATE_AND_BUILD = """
import json, runpy
from tests.support.results import report
runpy.run_path(".ci/schema.py", run_name="__main__")
print(json.dumps(report().plain()))
"""
SMALL = json.loads(json.dumps(reports.document({reports.NDCG: [0.5, "failed"]}, {reports.P95: 1.5})))


def test_schema_and_documentation_are_what_the_model_says() -> None:
    files = runpy.run_path(str(ROOT / ".ci" / "schema.py"))["written"]()
    assert {file.name for file in files} == {"schema.json", "report.md", "metrics.md"}
    for file, text in files.items():
        assert file.read_text(encoding="utf-8") == text, "run make schema"
    Draft202012Validator.check_schema(PUBLISHED)


def test_every_object_and_property_is_described_and_a_run_writes_nothing_else() -> None:
    found = list(objects(PUBLISHED))
    assert len(found) == 1 + sum("properties" in one for one in PUBLISHED["$defs"].values()) >= 10
    for one in (PUBLISHED, *PUBLISHED["$defs"].values()):
        assert one["description"]
    for one in found:
        assert [name for name, inner in one["properties"].items() if not inner.get("description")] == []
    Draft202012Validator(closed(PUBLISHED)).validate(report().plain())


def test_a_reader_ignores_what_it_does_not_know_and_does_without_what_may_be_absent() -> None:
    later = {**SMALL, "pages": {"seen": 400}, "facts": {**SMALL["facts"], "mood": "good"}}
    VALIDATOR.validate(later)
    assert parse(json.dumps(later), "r") == parse(json.dumps(SMALL), "r")
    without = copy.deepcopy(SMALL)
    del without["facts"]["collection"], without["facts"]["duration_s"], without["queries"][0]["fingerprint"]
    VALIDATOR.validate(without)
    assert parse(json.dumps(without), "r").facts.collection is None


def paths(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*place, key)
        yield from paths(inner, (*place, key))


@given(
    st.sampled_from([path for path in paths(SMALL) if path[0] not in ("schema_version", "config")]),
    st.sampled_from(["delete", None, "x", -1, 0.5, True, [], {}, [1], {"a": 1}, {"unscored": "why"}]),
)
def test_schema_and_reader_refuse_the_same(path: tuple[Any, ...], value: Any) -> None:
    changed = copy.deepcopy(SMALL)
    *parents, last = path
    node = changed
    for key in parents:
        node = node[key]
    if value == "delete":
        del node[last]
    else:
        node[last] = value
    try:
        parse(json.dumps(changed), "r")
        accepted = True
    except ReportError:
        accepted = False
    assert VALIDATOR.is_valid(changed) == accepted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("null", "which has a schema_version"),
        ('{"schema_version": 1}', "expected a report of schema version 2, found version 1; make it again"),
        ('{"schema_version": true}', "found version True"),
        ('{"schema_version": 2}', "not a report of schema version 2:"),
        (json.dumps(SMALL | {"config": {"tracking": "x"}}), "tracking: expected a table of settings"),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ReportError, match=said):
        parse(text, "r.json")


@pytest.mark.slow
def test_a_field_that_is_added_by_the_recipe_of_contributing_is_in_report_and_schema(tmp_path: Path) -> None:
    """The recipe is followed to the letter in a copy of the code."""
    assert len(follow("Add a report field", tmp_path, ("evals", "tests/support", "docs", ".ci"))) == 2
    done = run(tmp_path, "-c", GENERATE_AND_BUILD)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["queries"][0]
    assert (first["query"], first["words"]) == ("query right", 2)
    schema = json.loads((tmp_path / "evals/report/schema.json").read_text(encoding="utf-8"))
    words = schema["$defs"]["QueryRow"]["properties"]["words"]
    assert (words["type"], words["description"]) == ("integer", "number of words of the query")
