"""A run as text: for a terminal, in Markdown for the page of a run in MLflow, and in JUnit XML for a CI system."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from evals.grid.decision import NO_OUT_OF_SCOPE
from evals.report.grid_sections import decision_section, grid_sections
from evals.report.head import criteria_line, leading, ranked, tone
from evals.report.model import Report
from evals.report.section import Line, Section, Styled, escaped, line, markdown, terminal
from evals.report.sections import (
    disagreements,
    judge_lines,
    metrics,
    remark,
    searched,
    shown_metrics,
    slices,
    unmet,
    worst_queries,
)
from retrievers.text.shown import printable

# Rows of the table of metrics. --verbose and the page show all.
FIRST = 9
# Rows of the table of cells, besides the recommended one.
CELLS = 10


def render(
    report: Report,
    *,
    width: int,
    color: bool,
    everything: bool = False,
    brief: bool = False,
    whole: bool = False,
    command: str = "python -m evals.run",
) -> str:
    """Return the report for a terminal: the grid, then head and metrics of its run on one screen, then the details.

    Args:
        report: The run.
        width: Width of the terminal, in columns.
        color: Use colors.
        everything: Show every metric with its remarks, and all disagreements of judge and labels.
        brief: End with the notes on the table of metrics.
        whole: Shorten no line, since no terminal shows the text. Only sentences are wrapped.
        command: The command that was typed. The proposed next command begins with it. Empty for none.
    """
    names = shown_metrics(report, everything=everything)
    # Metrics of the user are always shown, since an experiment names them on purpose.
    wanted = {gate.metric for gate in report.criteria if not gate.passed} | {own.name for own in report.own_metrics}
    names = names if everything else leading(names, wanted, FIRST)
    sections = [*grid_sections(report, report.grid, CELLS), Section(lines=[line("")])] if report.grid else []
    sections += [Section(lines=list(_head(report))), metrics(report, names)]
    lines = [*_remarks(report, names, everything=everything), *unmet(report)]
    # A grid begins with the note that no query is out of scope.
    lines += [line(Styled("Note:", "fair"), f" {note}") for note in report.notes if note != NO_OUT_OF_SCOPE]
    sections.append(Section(lines=lines))
    if not brief:
        next_command = f"{command} {report.next_flags}" if command and report.next_flags else ""
        sections += _details(report, next_command, everything=everything)
    return terminal(sections, width=width, color=color, whole=whole)


def description(report: Report) -> str:
    """Return the run in a sentence, the headline metrics with interval and n, then the criteria, as Markdown."""
    return "\n".join(_markdown(report))


def _head(report: Report) -> Iterator[Line]:
    if report.verdict:
        look = tone(report)
        yield line(Styled(report.verdict, f"bold {look}"), " ", Styled(criteria_line(report), look))
    scope = f"{report.in_scope} in scope, {len(report.queries) - report.in_scope} out of scope"
    yield line(f"{report.name} · {scope} · {searched(report.facts)}", is_cut=True)
    yield line(Styled(report.settings, "dim"), is_cut=True)


def _details(report: Report, next_command: str, *, everything: bool) -> Iterator[Section]:
    """Yield the next command; then the details."""
    lines = [line("Next: ", Styled(next_command, "bold"), is_command=True)] if next_command else []
    yield Section(lines=[*lines, line(""), line(Styled("Details", "bold"))])
    ragas = [report.ragas_check.line] if report.ragas_check and report.ragas_check.line else []
    yield Section(lines=[line(Styled(text, "dim")) for text in (*judge_lines(report), *ragas)])
    by_type = slices(report, [*ranked(report.metrics)][:1], by=("query_type",))
    yield from filter(None, (by_type, worst_queries(report), disagreements(report, everything=everything)))


def _remarks(report: Report, names: Sequence[str], *, everything: bool) -> Iterator[Line]:
    """Yield a remark on each metric, unless its value is the mean of all queries and not everything is shown."""
    for name in names:
        metric = report.metrics[name]
        is_needed = everything or metric.n_failed or metric.n_missing or metric.value is None or metric.sampled
        if is_needed and (text := remark(metric)):
            yield line(Styled(f"  {name}: {text}", "dim"))


def _markdown(report: Report) -> Iterator[str]:
    grid = report.grid
    if grid and grid.decision and grid.choice:
        decision = decision_section(report, grid, grid.decision, grid.choice)
        yield from (*markdown(decision), *("\n" + escaped(note.parts[0].text) for note in decision.below), "")
    yield escaped(report.verdict)
    if grid and grid.proof:
        yield f"\n**{escaped(grid.proof)}**"
    yield f"\n{len(report.queries)} queries ({report.in_scope} in scope), {escaped(report.settings)}"
    yield from ("", *markdown(metrics(report, ranked(shown_metrics(report, everything=False)))))
    yield from ("", escaped(criteria_line(report)), *map(escaped, judge_lines(report)))


# JUnit


def junit(report: Report) -> str:
    """Return the criteria of a run as JUnit XML, for the test view of a CI system.

    Each criterion is a test case, which failed if the criterion is not met. One more test case says whether the run is
    complete. Queries are no test cases: CI systems fail a job on any failed test, and no retriever answers all queries.
    Elements and attributes are those that both Jenkins' schema (junit-10.xsd) and Ant's schema know.
    """
    facts, cases = report.facts, list(_test_cases(report))
    started = datetime.fromisoformat(facts.started_at).astimezone(UTC)
    failures = sum(bool(fault) for _, _, fault in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": 0, "skipped": 0}
    # The schema requires a host. Its real name would make reports of equal runs differ.
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


def _test_cases(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and fault of each test case; the fault is empty if the test passed."""
    for gate in report.criteria:
        figure = "no value" if gate.figure is None else f"{gate.figure:g}"
        fault = f"expected {gate.metric} {gate.condition}, got {figure} ({gate.reason})"
        kind = "undecided" if gate.undecided else "criterion"
        yield f"{gate.metric} {gate.condition}", kind, "" if gate.passed else fault
    yield "complete", "incomplete", report.incomplete
