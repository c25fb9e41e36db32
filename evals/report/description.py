"""A run in Markdown: the description that the MLflow UI shows on its page. Pure."""

from collections.abc import Iterator

from evals.report.grid_sections import decision_section
from evals.report.headline import leading_first
from evals.report.model import Report
from evals.report.section import Section, escaped, markdown
from evals.report.sections import criteria, metrics
from evals.report.text import judge_lines


def description(report: Report) -> str:
    """Return the verdict in a sentence, the headline metrics with interval and n, then the criteria, as Markdown."""
    return "\n".join(_lines(report))


def most_telling(report: Report) -> list[str]:
    """Return all metrics of a run that have a value, those that say most about it first."""
    demanded = (criterion.metric for criterion in report.criteria)
    measured = [name for name, metric in report.metrics.items() if metric.value is not None]
    return leading_first(measured, (*demanded, *report.headline))


def _lines(report: Report) -> Iterator[str]:
    facts, grid, head, validation = report.facts, report.grid, report.head, report.validation
    if grid and grid.decision and grid.choice:
        taken = decision_section(grid, grid.decision, grid.choice, validation)
        yield from (*markdown(taken), *("\n" + escaped(each.cells[0].text) for each in taken.below), "")
    yield escaped(head.verdict) if head else f"{validation.passed} of {validation.total} queries pass."
    if grid and grid.proof:
        yield f"\n**{escaped(grid.proof)}**"
    yield f"\n{facts.cases} queries ({facts.in_scope} in scope), {escaped(report.settings)}"
    shown, gates = metrics(report, [name for name in most_telling(report) if name in report.headline]), criteria(report)
    for part in (
        markdown(Section(columns=shown.columns[:4], rows=[row[:4] for row in shown.rows])),
        [escaped(head.criteria)] if head else [],
        markdown(Section(columns=gates.columns[:4], rows=[row[:4] for row in gates.rows])),
        map(escaped, judge_lines(report.judge) if report.judge else ()),
    ):
        if lines := [*part]:
            yield from ("", *lines)
