"""A run as JUnit XML, for the test view of a CI system.

The suite `criteria` decides: a test case for each criterion, failed when it is not met, and one for completeness. The
suite `queries` informs: a test case for each query, under the id by which a CI system keeps its history; one that was
not answered as it should be is skipped, with its verdict and reasons. It is not failed, because a run passes by its
criteria: CI systems fail the job, or call it unstable, on any failed test, and few retrievers answer every query.
Elements and attributes are those that both Jenkins' schema (junit-10.xsd) and Ant's know.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from evals.collect.observations import Gate, Observation, QueryVerdict
from evals.metrics.run_result import RunResult
from retrievers.terminal.present import score_text
from retrievers.text.printable import printable

FIRST = 5


def junit(result: RunResult, incomplete: str = "") -> str:
    """The run as an XML document.

    Args:
        result: The run.
        incomplete: Why its scores are not to be relied on, if they are not.
    """
    suites = Element("testsuites")
    _criteria(suites, result, incomplete)
    _queries(suites, result)
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _criteria(suites: Element, result: RunResult, incomplete: str) -> None:
    suite = _suite(suites, result, "criteria", float(result.facts.get("duration_s", 0.0)))
    for gate in result.gates:
        case = _case(suite, "criteria", f"{gate.metric} {gate.condition}", 0.0)
        if not gate.passed:
            _explain(case, "failure", _said(gate), "undecided" if gate.undecided else "criterion")
    case = _case(suite, "criteria", "complete", 0.0)
    if incomplete:
        _explain(case, "failure", incomplete, "incomplete")
    _count(suite)


def _said(gate: Gate) -> str:
    figure = "no value" if gate.figure is None else f"{gate.figure:g}"
    return f"expected {gate.metric} {gate.condition}, got {figure} ({gate.reason})"


def _queries(suites: Element, result: RunResult) -> None:
    observations = {o.case.id: o for o in result.observed.observations}
    verdicts = result.validation.verdicts
    suite = _suite(suites, result, "queries", sum(verdict.time_ms for verdict in verdicts) / 1000)
    for verdict in verdicts:
        observation = observations[verdict.query_id]
        group = f"queries.{observation.case.query_type or 'untyped'}"
        case = _case(suite, group, verdict.query_id, verdict.time_ms / 1000)
        if verdict.outcome != "SUCCESS":
            message = f"{verdict.outcome}: {'; '.join(verdict.reasons)}"
            _explain(case, "skipped", message, verdict.outcome, _details(observation, verdict))
    _count(suite)


def _details(observation: Observation, verdict: QueryVerdict) -> Sequence[str]:
    returned = [
        f"{found.rank}. {score_text(found.score).strip()} "
        f"{'relevant' if _relevant(observation, found.chunk.chunk_id) else 'other'} {found.source}"
        for found in observation.selection[:FIRST]
    ]
    return [f"query: {observation.case.query}", *verdict.reasons, *(returned or ["nothing was returned"])]


def _relevant(observation: Observation, chunk_id: str) -> bool:
    return observation.relevance.grades.get(chunk_id, 0) > 0


def _suite(suites: Element, result: RunResult, name: str, seconds: float) -> Element:
    started = datetime.fromisoformat(result.facts["started_at"]).astimezone(UTC)
    suite = SubElement(
        suites,
        "testsuite",
        name=name,
        package=printable(result.name),
        id=str(len(suites)),
        hostname="localhost",
        timestamp=f"{started:%Y-%m-%dT%H:%M:%S}",
        time=f"{seconds:.3f}",
    )
    properties = SubElement(suite, "properties")
    for key in ("dataset_fingerprint", "commit"):
        SubElement(properties, "property", name=key, value=printable(str(result.facts[key])))
    return suite


def _case(suite: Element, group: str, name: str, seconds: float) -> Element:
    return SubElement(suite, "testcase", classname=printable(group), name=printable(name), time=f"{seconds:.3f}")


def _explain(case: Element, tag: str, message: str, kind: str, details: Sequence[str] = ()) -> None:
    made = SubElement(case, tag, message=printable(message), type=kind)
    made.text = printable("\n".join(details or [message]))


def _count(suite: Element) -> None:
    suite.set("tests", str(len(suite.findall("testcase"))))
    for count, tag in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("errors", "0")
    SubElement(suite, "system-out")
    SubElement(suite, "system-err")
