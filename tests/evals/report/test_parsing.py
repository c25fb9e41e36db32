import json

import pytest

from evals.errors import ReportError
from evals.report.parsing import parse
from tests.support import reports


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a"', "r.json: not valid JSON: Expecting ':' delimiter"),
        ("", "r.json: not valid JSON: Expecting value"),
        ('{"schema_version": NaN}', "r.json: not valid JSON: NaN is no JSON number"),
        ("[" * 100_000, "r.json: not valid JSON: nested too deep; expected a report of evals.run"),
        ('{"schema_version": 1, "schema_version": 2}', "r.json: not valid JSON: 'schema_version' is given twice"),
        ("[]", "expected a report of evals.run, which has a schema_version; found a list"),
        ("null", "found null"),
        ('{"columns": [], "data": []}', "found the fields 'columns', 'data'"),
        ('{"schema_version": 3}', "expected a report of schema version 2, found version 3; make it again"),
        ('{"schema_version": "1"}', "found version '1'"),
        ('{"schema_version": true}', "found version True"),
        (
            '{"schema_version": 1, "queries": []}',
            "expected a report of schema version 2, found version 1; make it again",
        ),
        (
            '{"schema_version": 2}',
            "not a report of schema version 2:\n  name: Field required\n  passed: Field required",
        ),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ReportError) as caught:
        parse(text, "r.json")
    assert said in str(caught.value)


def test_many_faults_are_counted() -> None:
    with pytest.raises(ReportError) as caught:
        parse('{"schema_version": 2}', "r.json")
    assert len(caught.value.faults) == 6
    assert caught.value.faults[-1] == "… and 4 more"


def test_a_query_that_stands_there_twice_is_refused() -> None:
    twice = reports.document({}, rows=[reports.row("q0", {}), reports.row("q1", {}), reports.row("q0", {})])
    with pytest.raises(ReportError, match="expected every query once, found 'q0' more than once"):
        parse(json.dumps(twice), "r.json")
