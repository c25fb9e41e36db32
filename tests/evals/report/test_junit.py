from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from evals.grid.measure import Measured
from evals.report.junit import junit
from tests.support.results import facts, observation, report, report_of, result, verdict

SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[2] / "support" / "junit.xsd")


def parsed(made: Measured, changed: str = "") -> Element:
    text = junit(report(made, facts(collection_changed=changed)))
    SCHEMA.validate(text)
    return fromstring(text)


def suite(made: Element, name: str) -> Element:
    found = made.find(f"testsuite[@name='{name}']")
    assert found is not None
    return found


def cases(made: Element, name: str) -> dict[str, dict[str, Any]]:
    """Test case to what it holds: tag to message."""
    return {
        case.get("name", ""): {inner.tag: inner.get("message") for inner in case}
        for case in suite(made, name).iter("testcase")
    }


def asked(name: str, query: str, *reasons: str) -> Measured:
    """A run of one query that failed."""
    one = observation("q", [], 0, {"a": 1}, id=name, query=query)
    made = result(validation=report_of([verdict(name, "FAILURE", *reasons)]))
    return replace(made, observed=replace(made.observed, observations=(one,)))


def test_every_criterion_is_a_test_case_and_fails_when_it_is_not_met() -> None:
    assert cases(parsed(result()), "criteria") == {
        "ranking/hit_rate_at_5 >= 0.4": {},
        "content/topic_match >= 0.4": {
            "failure": "expected content/topic_match >= 0.4, got no value (no value: no topics)"
        },
        "complete": {},
    }


def test_a_run_that_is_incomplete_fails() -> None:
    found = cases(parsed(result(gates=()), "2 chunks more"), "criteria")
    assert found == {"complete": {"failure": "the collection changed during the run: 2 chunks more"}}


def test_every_query_is_a_test_case_and_skipped_with_its_reasons_when_it_was_not_answered_as_it_should_be() -> None:
    assert cases(parsed(result()), "queries") == {
        "right": {},
        "wrong": {"skipped": "FAILURE: out of scope, but 1 chunk was returned"},
        "empty": {"skipped": "FAILURE: returned 0 chunks, expected at least 1; and more; and yet more"},
    }


def test_counts_and_times() -> None:
    made = parsed(result())
    counts = ("tests", "failures", "errors", "skipped")
    assert [suite(made, "criteria").get(name) for name in counts] == ["3", "1", "0", "0"]
    assert [suite(made, "queries").get(name) for name in counts] == ["3", "0", "0", "2"]
    assert suite(made, "queries").get("time") == "0.004"
    assert suite(made, "criteria").get("timestamp") == "2026-01-02T03:04:05"
    assert suite(made, "criteria").get("package") == "by hand"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b> & \"quotes\" 'too' ]]>", "<b> & \"quotes\" 'too' ]]>"),
        ("\x1b[31mred\x00", r"\x1b[31mred\x00"),
        ("half \ud800 pair", r"half \ud800 pair"),
        ("\ufffe and \uffff", r"\ufffe and \uffff"),
        ("ünïcode 🤖 日本", "ünïcode 🤖 日本"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
    ],
)
def test_any_text_can_be_written(text: str, shown: str) -> None:
    found = cases(parsed(asked("q", "why?", text)), "queries")
    assert found["q"] == {"skipped": f"FAILURE: {shown}"}


@given(st.text(min_size=1, max_size=40))
def test_whatever_a_reason_holds_the_file_is_valid_utf_8_xml(reason: str) -> None:
    made = asked("q", "why?", reason)
    assert fromstring(junit(report(made)).encode("utf-8")).tag == "testsuites"
    SCHEMA.validate(junit(report(made)))
