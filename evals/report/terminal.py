"""A run as an engineer reads it: what was decided and what to do next on the first screen, then the details."""

from collections.abc import Iterator

from evals.report.grid_sections import grid_sections
from evals.report.headline import leading
from evals.report.model import Report
from evals.report.section import Cell, Line, Section, line, terminal
from evals.report.sections import (
    before_and_after,
    disagreements,
    leading_slices,
    metrics,
    shown_metrics,
    unmet,
    worst_queries,
)
from evals.report.text import cache_line, judge_lines, remark, searched

TONES = {"good": "good", "mixed": "fair", "bad": "bad"}
# Rows of the first table of metrics, and of the table of cells.
FIRST, CELLS = 9, 10


def render(
    report: Report,
    *,
    width: int,
    color: bool,
    everything: bool = False,
    brief: bool = False,
    command: str = "python -m evals.run",
) -> str:
    """Return the report for a terminal: at first what fits a screen, then the details, on request all of them.

    Args:
        report: The run.
        width: Width of the terminal, in columns.
        color: Use colors.
        everything: Show every metric, more queries, and what each was expected to give.
        brief: End with the first table of metrics.
        command: The command that was typed, which the next one begins with.
    """
    names = shown_metrics(report, everything=everything)
    failing = {gate.metric for gate in report.criteria if not gate.passed}
    first = names if everything else [name for name in names if name in leading(names, failing, FIRST)]
    sections = [Section(lines=list(_head(report))), metrics(report, first)]
    if not brief:
        sections += _details(report, first, names, everything=everything, command=command)
    return terminal(sections, width=width, color=color)


def render_grid(report: Report, *, width: int, color: bool) -> str:
    """Return the head of the grid that a run is of; empty for a single run."""
    return terminal(grid_sections(report, report.grid, CELLS), width=width, color=color) if report.grid else ""


def _head(report: Report) -> Iterator[Line]:
    facts, head = report.facts, report.head
    if head:
        tone = TONES[head.tone]
        yield line(Cell(head.verdict, tone=f"bold {tone}"), " ", Cell(head.criteria, tone=tone))
        if head.index:
            yield line(Cell(head.index, tone="bold bad"))
    scope = f"{facts.in_scope} in scope, {facts.out_of_scope} out of scope"
    yield line(f"{report.name} · {scope} · {searched(facts)}", is_cut=True)
    yield line(Cell(report.settings, tone="dim"), is_cut=True)


def _details(
    report: Report, first: list[str], names: list[str], *, everything: bool, command: str
) -> Iterator[Section]:
    """Yield what must be known beside the first table and the next command, then the details."""
    yield Section(lines=[*_remarks(report, first, everything=everything), *unmet(report)])
    yield Section(lines=[line(Cell("Note:", tone="fair"), f" {note}") for note in report.notes])
    if report.head:
        following = Cell(f"{command} {report.head.next_flags}", tone="bold")
        yield Section(lines=[line("Next: ", following, is_command=True)])
    rest = [name for name in names if name not in first]
    yield Section(lines=[line(""), line(Cell("Details", tone="bold"))])
    if rest:
        yield metrics(report, rest)
        yield Section(lines=list(_remarks(report, rest, everything=everything)))
    yield Section(lines=[line(Cell(text, tone="dim")) for text in _how(report)])
    if report.reference:
        yield before_and_after(report, report.reference, everything=everything)
    parts = (leading_slices(report), worst_queries(report, everything=everything))
    yield from filter(None, (*parts, disagreements(report, everything=everything)))


def _remarks(report: Report, names: list[str], *, everything: bool) -> Iterator[Line]:
    """Yield what must be known beside the table: at first where values are not of every query."""
    for name in names:
        one = report.metrics[name]
        told = everything or one.n_failed or one.n_missing or one.value is None or one.sampled
        if told and (text := remark(one)):
            yield line(Cell(text, f"  {name}: {text}", "dim"))


def _how(report: Report) -> Iterator[str]:
    """Yield how the figures came about: judges, ragas' own classes, caches."""
    if report.judge and report.judge.tiers:
        yield from judge_lines(report.judge)
    if report.ragas_check and report.ragas_check.line:
        yield report.ragas_check.line
    if caches := cache_line(report.caches):
        yield caches
