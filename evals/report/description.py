"""A run in Markdown: the description that the MLflow UI shows on its page. Pure."""

from collections.abc import Collection, Iterable

from evals.report.grid_sections import decision_section
from evals.report.headline import LEADING, deepest
from evals.report.model import Report
from evals.report.section import Cell, Column, Section, markdown
from evals.report.sections import metrics
from evals.report.text import figure, judge_lines


def description(report: Report) -> str:
    """Return the verdict in a sentence, the headline metrics with interval and n, then the criteria, as Markdown."""
    facts, validation = report.facts, report.validation
    shown = metrics(report, [name for name in most_telling(report) if name in report.headline])
    table = Section(columns=shown.columns[:4], rows=[row[:4] for row in shown.rows])
    gates = Section(
        columns=[Column("criterion"), Column("figure"), Column("")],
        rows=[
            (
                Cell(f"{gate.metric} {gate.condition}"),
                Cell(gate.figure, figure(gate.metric, gate.figure)),
                Cell(gate.verdict, tone="" if gate.passed else "bad"),
            )
            for gate in report.criteria
        ],
    )
    grid = report.grid
    taken = (
        decision_section(grid, grid.decision, grid.choice, validation)
        if grid and grid.decision and grid.choice
        else None
    )
    lines = [
        *([*markdown(taken), *("\n" + each.cells[0].text for each in taken.below), ""] if taken else []),
        report.head.verdict if report.head else f"{validation.passed} of {validation.total} queries pass.",
        *(["", f"**{report.grid.proof}**"] if report.grid and report.grid.proof else []),
        *(["", f"**{report.head.index}**"] if report.head and report.head.index else []),
        "",
        f"{facts.cases} queries ({facts.in_scope} in scope), {report.settings}",
        *(["", *markdown(table)] if table.rows else []),
        *(["", report.head.criteria] if report.head else []),
        *(["", *markdown(gates)] if gates.rows else []),
        *(["", *judge_lines(report.judge)] if report.judge else []),
    ]
    return "\n".join(lines)


def most_telling(report: Report) -> list[str]:
    """Return all metrics of a run that have a value, those that say most about it first."""
    demanded = (criterion.metric for criterion in report.criteria)
    measured = [name for name, metric in report.metrics.items() if metric.value is not None]
    return leading_first(measured, (*demanded, *report.headline))


def leading_first(names: Collection[str], further: Iterable[str] = ()) -> list[str]:
    """Return names of metrics: the leading ones, then those of `further`, then the rest."""
    order = dict.fromkeys((*(deepest(pattern, names) for pattern in LEADING), *further, *names))
    return [name for name in order if name in names]
