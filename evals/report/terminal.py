"""A run as an engineer reads it: on a terminal, and in Markdown as MLflow shows it on a run's page."""

from collections.abc import Iterator, Sequence

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

# Rows of the table of metrics; --verbose and the page have all.
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
    """Return the report for a terminal: a grid, then what fits a screen of its run, then the details.

    Args:
        report: The run.
        width: Width of the terminal, in columns.
        color: Use colors.
        everything: Show every metric, more queries, and what each was expected to give.
        brief: End with the table of metrics.
        whole: Shorten nothing, as no terminal shows it; only sentences are wrapped.
        command: The command that was typed, which the next one begins with.
    """
    names = shown_metrics(report, everything=everything)
    # Those of the user's own are shown, too, as none of them was named by chance.
    wanted = {gate.metric for gate in report.criteria if not gate.passed} | {one.name for one in report.own_metrics}
    names = names if everything else leading(names, wanted, FIRST)
    sections = [*grid_sections(report, report.grid, CELLS), Section(lines=[line("")])] if report.grid else []
    sections += [Section(lines=list(_head(report))), metrics(report, names)]
    if not brief:
        following = f"{command} {report.next_flags}" if report.next_flags else ""
        sections += _details(report, names, following, everything=everything)
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


def _details(report: Report, names: Sequence[str], following: str, *, everything: bool) -> Iterator[Section]:
    """Yield what must be known beside the table and the next command, then the details."""
    beside = [*_remarks(report, names, everything=everything), *unmet(report)]
    # Of a grid it is the first line.
    beside += [line(Styled("Note:", "fair"), f" {note}") for note in report.notes if note != NO_OUT_OF_SCOPE]
    if following:
        beside.append(line("Next: ", Styled(following, "bold"), is_command=True))
    yield Section(lines=[*beside, line(""), line(Styled("Details", "bold"))])
    ragas = [report.ragas_check.line] if report.ragas_check and report.ragas_check.line else []
    yield Section(lines=[line(Styled(text, "dim")) for text in (*judge_lines(report), *ragas)])
    by_type = slices(report, [*ranked(report.metrics)][:1], by=("query_type",))
    parts = (by_type, worst_queries(report), disagreements(report, everything=everything))
    yield from filter(None, parts)


def _remarks(report: Report, names: Sequence[str], *, everything: bool) -> Iterator[Line]:
    """Yield what must be known beside the table: at first where values are not of every query."""
    for name in names:
        metric = report.metrics[name]
        is_told = everything or metric.n_failed or metric.n_missing or metric.value is None or metric.sampled
        if is_told and (text := remark(metric)):
            yield line(Styled(f"  {name}: {text}", "dim"))


def _markdown(report: Report) -> Iterator[str]:
    grid = report.grid
    if grid and grid.decision and grid.choice:
        taken = decision_section(report, grid, grid.decision, grid.choice)
        yield from (*markdown(taken), *("\n" + escaped(each.parts[0].text) for each in taken.below), "")
    yield escaped(report.verdict)
    if grid and grid.proof:
        yield f"\n**{escaped(grid.proof)}**"
    yield f"\n{len(report.queries)} queries ({report.in_scope} in scope), {escaped(report.settings)}"
    yield from ("", *markdown(metrics(report, ranked(shown_metrics(report, everything=False)))))
    yield from ("", escaped(criteria_line(report)), *map(escaped, judge_lines(report)))
