"""A run as JUnit XML, for the test view of a CI system.

The suite `criteria` decides: a test case for each criterion, failed when it is not met, and one for completeness. The
suite `queries` informs: a test case for each query, under the id by which a CI system keeps its history; one that was
not answered as it should be is skipped, with its outcome and reasons. It is not failed, because a run passes by its
criteria: CI systems fail the job, or call it unstable, on any failed test, and few retrievers answer every query.
Elements and attributes are those that both Jenkins' schema (junit-10.xsd) and Ant's know.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from evals.report.model import QueryRow, Report
from evals.report.sections import judge_lines
from retrievers.terminal.present import score_text
from retrievers.text.shown import printable

# Results that a skipped query shows.
FIRST = 5


def junit(report: Report) -> str:
    """Return the run as an XML document."""
    suites = Element("testsuites")
    suite = _suite(suites, report, "criteria", report.facts.duration_s or 0.0)
    for gate in report.criteria:
        case = _case(suite, "criteria", f"{gate.metric} {gate.condition}", 0.0)
        if not gate.passed:
            figure = "no value" if gate.figure is None else f"{gate.figure:g}"
            message = f"expected {gate.metric} {gate.condition}, got {figure} ({gate.reason})"
            _explain(case, "failure", message, "undecided" if gate.undecided else "criterion")
    case = _case(suite, "criteria", "complete", 0.0)
    if report.incomplete:
        _explain(case, "failure", report.incomplete, "incomplete")
    _count(suite, judge_lines(report))
    suite = _suite(suites, report, "queries", sum(row.time_ms for row in report.queries) / 1000)
    for row in report.queries:
        case = _case(suite, f"queries.{row.query_type or 'untyped'}", row.id, row.time_ms / 1000)
        if row.outcome != "SUCCESS":
            _explain(case, "skipped", f"{row.outcome}: {'; '.join(row.reasons)}", row.outcome, _details(row))
    _count(suite)
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _details(row: QueryRow) -> str:
    returned = [
        f"{hit.rank}. {score_text(hit.score).strip()} {'relevant' if hit.grade else 'other'} {hit.source}"
        for hit in row.retrieved[:FIRST]
    ]
    return "\n".join([f"query: {row.query}", *row.reasons, *(returned or ["nothing was returned"])])


def _suite(suites: Element, report: Report, name: str, seconds: float) -> Element:
    facts = report.facts
    started = datetime.fromisoformat(facts.started_at).astimezone(UTC)
    about = {"name": name, "package": printable(report.name), "id": str(len(suites))}
    # Required by the schema; the real name would make reports of equal runs differ.
    about |= {"hostname": "localhost", "timestamp": f"{started:%Y-%m-%dT%H:%M:%S}", "time": f"{seconds:.3f}"}
    suite = SubElement(suites, "testsuite", about)
    values = {"dataset_fingerprint": facts.dataset_fingerprint, "commit": facts.commit}
    properties = SubElement(suite, "properties")
    for key, value in values.items():
        SubElement(properties, "property", name=key, value=printable(value))
    return suite


def _case(suite: Element, group: str, name: str, seconds: float) -> Element:
    return SubElement(suite, "testcase", classname=printable(group), name=printable(name), time=f"{seconds:.3f}")


def _explain(case: Element, tag: str, message: str, kind: str, details: str = "") -> None:
    SubElement(case, tag, message=printable(message), type=kind).text = printable(details or message)


def _count(suite: Element, remarks: Sequence[str] = ()) -> None:
    for count, path in (("tests", "testcase"), ("failures", "testcase/failure"), ("skipped", "testcase/skipped")):
        suite.set(count, str(len(suite.findall(path))))
    suite.set("errors", "0")
    SubElement(suite, "system-out").text = printable("\n".join(remarks)) or None
    SubElement(suite, "system-err")
