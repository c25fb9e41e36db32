import copy
import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evals.errors import ReportError
from evals.report.generate import DOCUMENTATION, SCHEMA, documented, json_schema
from evals.report.model import Hit, QueryRow, Report
from evals.report.parsing import parse
from tests.support import reports
from tests.support.json_schema import closed, objects
from tests.support.results import UNLISTED, report, without_scores

PUBLISHED: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(PUBLISHED)
SMALL = json.loads(json.dumps(reports.document({reports.NDCG: [0.5, "failed"]}, {reports.P95: 1.5})))


def test_the_published_schema_is_what_the_models_say() -> None:
    assert PUBLISHED == json_schema(), "run make schema"
    Draft202012Validator.check_schema(PUBLISHED)


def test_the_documentation_has_the_field_tables_of_the_model() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert documented(text) == text, "run make schema"
    for model in (Report, QueryRow, Hit):
        table = text.partition(f"\n### {model.__name__}\n")[2].partition("\n### ")[0]
        assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(model.model_fields)


def test_every_property_and_every_object_is_described() -> None:
    found = list(objects(PUBLISHED))
    assert len(found) == 1 + len(PUBLISHED["$defs"]) >= 10
    for one in found:
        assert one["description"]
        assert [name for name, inner in one["properties"].items() if not inner.get("description")] == []


def test_what_a_run_writes_follows_the_schema_and_is_described_by_it_in_full() -> None:
    made = report().plain()
    VALIDATOR.validate(made)
    Draft202012Validator(closed(PUBLISHED)).validate(made)
    assert parse(json.dumps(made), "r").model_dump(mode="json", exclude_unset=True) == made


def test_a_reader_ignores_fields_and_sections_it_does_not_know() -> None:
    later = {**SMALL, "pages": {"seen": 400}, "facts": {**SMALL["facts"], "mood": "good"}}
    VALIDATOR.validate(later)
    assert parse(json.dumps(later), "r") == parse(json.dumps(SMALL), "r")


def test_what_is_not_always_there_may_be_absent() -> None:
    without = copy.deepcopy(SMALL)
    del without["facts"]["collection"], without["facts"]["embedding"], without["facts"]["duration_s"]
    del without["queries"][0]["fingerprint"]
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


def test_a_run_of_a_retriever_without_scores_and_list_follows_the_schema() -> None:
    made = report(without_scores(), UNLISTED).plain()
    VALIDATOR.validate(made)
    read = parse(json.dumps(made), "r")
    assert (read.facts.collection, read.facts.relevance, read.facts.retriever) == (None, "returned", "Bm25")
    assert (read.queries[0].top_score, read.queries[0].retrieved[0].score) == (None, None)
    assert not read.queries[0].relevant_complete
