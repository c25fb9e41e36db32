"""The JUnit file is one by the schema, whatever it quotes; what it says of stored reports stands in the snapshots."""

from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
import xmlschema
from hypothesis import example, given
from hypothesis import strategies as st

from evals.report.junit import junit
from tests.support.results import observation, report, report_of, result, verdict
from tests.support.stored_reports import NAMES, stored

SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[2] / "support" / "junit.xsd")


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_the_cases(name: str) -> None:
    SCHEMA.validate(text := junit(stored(name)))
    criteria, queries = fromstring(text).findall("testsuite")
    made = stored(name)
    unmet = sum(not gate.passed for gate in made.criteria) + bool(made.incomplete)
    assert (criteria.get("tests"), criteria.get("failures")) == (str(len(made.criteria) + 1), str(unmet))
    skipped = sum(row.outcome != "SUCCESS" for row in made.queries)
    assert (queries.get("failures"), queries.get("skipped")) == ("0", str(skipped))


@given(st.text(min_size=1, max_size=40).map(lambda text: (text, None)))
@example(("<b> & \"quotes\" 'too' ]]>", "<b> & \"quotes\" 'too' ]]>"))
@example(("\x1b[31mred\x00", r"\x1b[31mred\x00"))
@example(("half \ud800 pair", r"half \ud800 pair"))
@example(("\ufffe and \uffff", r"\ufffe and \uffff"))
@example(("ünïcode 🤖 日本", "ünïcode 🤖 日本"))
@example(("two\nlines\tand a tab", "two\nlines\tand a tab"))
def test_whatever_a_reason_holds_the_file_is_valid_utf_8_xml(case: tuple[str, str | None]) -> None:
    reason, shown = case
    one = observation("q", [], 0, {"a": 1}, id="q", query="why?")
    made = result(validation=report_of([verdict("q", "FAILURE", reason)]))
    text = junit(report(replace(made, observed=replace(made.observed, observations=(one,)))))
    SCHEMA.validate(text)
    found = fromstring(text.encode("utf-8")).find("testsuite[@name='queries']/testcase/skipped")
    assert found is not None and (shown is None or found.get("message") == f"FAILURE: {shown}")
