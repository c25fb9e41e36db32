"""The criteria of a run as JUnit XML, for the test view of a CI system.

A test case for each criterion, failed when it is not met, and one for completeness. Queries are no test cases: a run
passes by its criteria, CI systems fail the job on any failed test, and few retrievers answer every query. Elements and
attributes are those that both Jenkins' schema (junit-10.xsd) and Ant's know.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from evals.report.model import Report
from evals.report.sections import judge_lines
from retrievers.text.shown import printable


def junit(report: Report) -> str:
    """Return the criteria of a run as an XML document."""
    facts, cases = report.facts, list(_cases(report))
    started = datetime.fromisoformat(facts.started_at).astimezone(UTC)
    failures = sum(bool(fault) for _, _, fault in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": 0, "skipped": 0}
    # Required by the schema; the real name of the host would make reports of equal runs differ.
    about = {"name": "criteria", "package": printable(report.name), "id": "0", "hostname": "localhost"}
    about |= {"timestamp": f"{started:%Y-%m-%dT%H:%M:%S}", "time": f"{facts.duration_s or 0.0:.3f}"}
    suites = Element("testsuites")
    suite = SubElement(suites, "testsuite", about | {name: str(count) for name, count in counts.items()})
    properties = SubElement(suite, "properties")
    for key, value in {"dataset_fingerprint": facts.dataset_fingerprint, "commit": facts.commit}.items():
        SubElement(properties, "property", name=key, value=printable(value))
    for name, kind, fault in cases:
        case = SubElement(suite, "testcase", classname="criteria", name=printable(name), time="0.000")
        if fault:
            SubElement(case, "failure", message=printable(fault), type=kind).text = printable(fault)
    SubElement(suite, "system-out").text = printable("\n".join(judge_lines(report))) or None
    SubElement(suite, "system-err")
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _cases(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and fault, empty where there is none, of each criterion; then whether the run is complete."""
    for gate in report.criteria:
        figure = "no value" if gate.figure is None else f"{gate.figure:g}"
        fault = f"expected {gate.metric} {gate.condition}, got {figure} ({gate.reason})"
        kind = "undecided" if gate.undecided else "criterion"
        yield f"{gate.metric} {gate.condition}", kind, "" if gate.passed else fault
    yield "complete", "incomplete", report.incomplete
