"""A run as an engineer reads it at a glance: the table of metrics, the criteria, the worst queries."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.metrics import declared
from evals.report.cache_line import cache_line
from evals.report.console import SafeConsole
from evals.report.disagreements import print_disagreements
from evals.report.judge_lines import judge_lines
from evals.report.model import Criterion, Facts, MetricEntry, Report
from evals.report.worst import print_worst

COLORS = {"pass": "green", "FAIL": "red", "undecided": "yellow"}


def render(report: Report, *, width: int, color: bool, everything: bool = False) -> str:
    """Return the report for a terminal.

    Args:
        report: The run.
        width: Width of the terminal, in columns.
        color: Use colors.
        everything: Show every metric.
    """
    console = SafeConsole(width=width, color=color)
    facts = report.facts
    console.print(
        f"[bold]{escape(report.name)}[/bold]  {facts.cases} queries "
        f"({facts.in_scope} in scope, {facts.out_of_scope} out of scope)"
        f" · {escape(searched(facts))}"
    )
    console.print(escape(report.settings), style="dim")
    console.print(_table(report, everything=everything))
    for note in report.notes:
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")
    if caches := cache_line(report.caches):
        console.print(escape(caches), style="dim")
    print_worst(console, report)
    print_disagreements(console, report, everything=everything)
    _print_outcome(console, report.criteria)
    return console.text.getvalue()


def description(report: Report) -> str:
    """Return a run in a few lines of Markdown: the description that the MLflow UI shows on its page."""
    facts, validation = report.facts, report.validation
    lines = [
        f"{facts.cases} queries ({facts.in_scope} in scope), {report.settings}",
        "",
        f"{validation.passed} of {validation.total} queries answered as they should be.",
    ]
    if report.criteria:
        lines += ["", "| criterion | figure | |", "|---|---|---|"]
    for criterion in report.criteria:
        shown = figure(criterion.metric, criterion.figure)
        verdict = criterion.verdict if criterion.passed else f"**{criterion.verdict}**"
        lines.append(f"| {criterion.metric} {criterion.condition} | {shown} | {verdict} |")
    if report.judge:
        lines += ["", *judge_lines(report.judge)]
    return "\n".join(lines)


def figure(metric: str, value: float | None) -> str:
    """Return a value rounded as the metric's unit asks for, a dash for none."""
    return "–" if value is None else declared(metric).written(value)


def searched(facts: Facts) -> str:
    """Return what was searched, in a few words."""
    if facts.collection is None:
        return "a retriever whose chunks cannot be listed"
    return f"collection {facts.collection.name} ({facts.collection.points:,} chunks)"


def _table(report: Report, *, everything: bool) -> Table:
    criteria = {criterion.metric: criterion for criterion in report.criteria}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    for name in ("value", "95% interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("criterion", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("", style="dim", overflow="fold")
    for name, metric in report.metrics.items():
        # A metric with a criterion is always shown, also without a value.
        if everything or name in criteria or (name in report.headline and has_something(metric)):
            table.add_row(*_cells(name, metric, criteria.get(name)))
    return table


def has_something(metric: MetricEntry) -> bool:
    """Return True if there is a value, or a query that could have one."""
    return metric.value is not None or bool(metric.n_unscored or metric.n_failed)


def _cells(name: str, metric: MetricEntry, criterion: Criterion | None) -> list[str]:
    return [
        name,
        figure(name, metric.value),
        interval(name, metric),
        str(metric.n),
        criterion.condition if criterion else "",
        "" if criterion is None else f"[{COLORS[criterion.verdict]}]{criterion.verdict}[/]",
        escape(remark(metric)),
    ]


def interval(name: str, metric: MetricEntry) -> str:
    """Return the interval of a metric, rounded for reading."""
    return "–" if metric.ci_low is None else f"{figure(name, metric.ci_low)} … {figure(name, metric.ci_high)}"


def remark(metric: MetricEntry) -> str:
    """Return what must be known beside a value: the counts of missing scores, the bounds these leave, its note."""
    parts = []
    if metric.n_unscored and metric.value is not None:
        parts.append(f"{metric.n_unscored} unscored")
    if metric.n_failed:
        parts.append(f"{metric.n_failed} failed")
    if metric.n_missing:
        parts.append(f"{metric.n_missing} of them missing")
    if parts and metric.bound_low is not None:
        parts[-1] += f", {metric.bound_low:.3f} … {metric.bound_high:.3f}"
    return ": ".join(part for part in ("; ".join(parts), metric.note) if part)


def _print_outcome(console: Console, criteria: Sequence[Criterion]) -> None:
    if not criteria:
        console.print("\nNo criteria to meet.")
        return
    if all(criterion.passed for criterion in criteria):
        console.print(f"\n[green]All {len(criteria)} criteria are met.[/green]")
    for verdict, text in (("FAIL", "not met"), ("undecided", "undecided")):
        chosen = [criterion for criterion in criteria if criterion.verdict == verdict]
        if not chosen:
            continue
        console.print(f"\n[{COLORS[verdict]}]{len(chosen)} of {len(criteria)} criteria are {text}:[/]")
        for one in chosen:
            console.print(
                f"  {one.metric} {one.condition}, got {figure(one.metric, one.figure)} ({escape(one.reason)})"
            )
