"""A run as an engineer reads it at a glance: verdict, table, before and after, worst queries, what to do next."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.report.cache_line import cache_line
from evals.report.console import SafeConsole
from evals.report.disagreements import print_disagreements
from evals.report.figure_text import ends, figure
from evals.report.headline import NO_WORSE
from evals.report.judge_lines import judge_lines
from evals.report.model import Criterion, Facts, MetricEntry, Report, SampledEntry
from evals.report.reference_terminal import print_reference
from evals.report.slices_terminal import print_slices
from evals.report.worst import line, print_worst
from evals.stats.joint_weights import FEWEST_REGRESSED

TONES = {"good": "green", "mixed": "yellow", "bad": "red"}
COLORS = {"pass": "green", "FAIL": "red", "undecided": "yellow"}


def render(
    report: Report,
    *,
    width: int,
    color: bool,
    everything: bool = False,
    brief: bool = False,
    command: str = "python -m evals.run",
) -> str:
    """Return the report for a terminal: at first what fits a screen, on request everything.

    Args:
        report: The run.
        width: Width of the terminal, in columns.
        color: Use colors.
        everything: Show every metric, more queries, and what each was expected to give.
        brief: End with the table of metrics.
        command: The command that was typed, which the next one begins with.
    """
    console = SafeConsole(width=width, color=color)
    facts = report.facts
    if report.head:
        tone = TONES[report.head.tone]
        console.print(f"[bold {tone}]{escape(report.head.verdict)}[/] [{tone}]{escape(report.head.criteria)}[/]")
        if report.head.index:
            console.print(f"[bold red]{escape(report.head.index)}[/]")
    line(
        console,
        f"{escape(report.name)} · {facts.in_scope} in scope, {facts.out_of_scope} out of scope · "
        f"{escape(searched(facts))}",
    )
    line(console, escape(report.settings), style="dim")
    console.print(_table(report, everything=everything))
    if brief:
        return console.text.getvalue()
    for name, text in _remarks(report, everything=everything):
        console.print(f"  {escape(name)}: {escape(text)}", style="dim")
    _print_unmet(console, report)
    for note in report.notes:
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")
    if report.judge and report.judge.tiers:
        for text in judge_lines(report.judge):
            console.print(escape(text), style="dim")
    if caches := cache_line(report.caches):
        console.print(escape(caches), style="dim")
    if report.reference:
        print_reference(console, report.reference, everything=everything)
    print_slices(console, report)
    print_worst(console, report, everything=everything)
    print_disagreements(console, report, everything=everything)
    if report.head:
        console.print(f"Next: [bold]{escape(f'{command} {report.head.next_flags}')}[/bold]", soft_wrap=True)
    return console.text.getvalue()


def searched(facts: Facts) -> str:
    """Return what was searched, in a few words."""
    if facts.collection is None:
        return "a retriever whose chunks cannot be listed"
    return f"{facts.collection.name} ({facts.collection.points:,} chunks)"


def _table(report: Report, *, everything: bool) -> Table:
    criteria: dict[str, list[Criterion]] = {}
    for criterion in report.criteria:
        criteria.setdefault(criterion.metric, []).append(criterion)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    for name in ("value", "95% interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("criterion", no_wrap=True)
    for name in _shown(report, everything=everything):
        metric = report.metrics[name]
        # Of two criteria that are met the one of the baseline says less.
        of_metric = sorted(criteria.get(name, ()), key=lambda each: (each.passed, each.condition == NO_WORSE))
        conditions = [
            f"{each.condition} [{COLORS[each.verdict]}]{each.verdict}[/]"
            for number, each in enumerate(of_metric)
            if not (number and each.passed and each.condition == NO_WORSE)
        ]
        table.add_row(name, figure(name, metric.value), interval(name, metric), counted(metric), ", ".join(conditions))
    return table


def _shown(report: Report, *, everything: bool) -> list[str]:
    """Return the metrics of the table: all, or those of the first screen; one with a criterion also without a value."""
    judged = {criterion.metric for criterion in report.criteria}
    return [
        name
        for name, metric in report.metrics.items()
        if everything or name in judged or (name in report.headline and has_something(metric))
    ]


def _remarks(report: Report, *, everything: bool) -> list[tuple[str, str]]:
    """Return what must be known beside the table: at first where values are not of every query."""
    shown = [(name, report.metrics[name]) for name in _shown(report, everything=everything)]
    remarkable = [
        (name, metric)
        for name, metric in shown
        if everything or metric.n_failed or metric.n_missing or metric.value is None or metric.sampled
    ]
    return [(name, text) for name, metric in remarkable if (text := remark(metric))]


def has_something(metric: MetricEntry) -> bool:
    """Return True if there is a value, or a query that could have one."""
    return metric.value is not None or bool(metric.n_unscored or metric.n_failed)


def interval(name: str, metric: MetricEntry) -> str:
    """Return the interval of a metric, rounded for reading."""
    return ends(name, metric.ci_low, metric.ci_high)


def counted(metric: MetricEntry) -> str:
    """Return the number of scored queries; of a sample also how many its mean stands for."""
    return f"{metric.n} of {metric.sampled.queries}" if metric.sampled else str(metric.n)


def remark(metric: MetricEntry) -> str:
    """Return what must be known beside a value: the counts of missing scores, the bounds these leave, its note."""
    parts = []
    if metric.n_unscored and metric.value is not None:
        parts.append(f"{metric.n_unscored} unscored")
    if metric.n_failed:
        parts.append(f"{metric.n_failed} failed")
    if metric.n_missing:
        parts.append(f"{metric.n_missing} of them missing")
    if metric.sampled:
        parts += correction(metric, metric.sampled)
    elif parts and metric.bound_low is not None:
        parts[-1] += f", {metric.bound_low:.3f} … {metric.bound_high:.3f}"
    return ": ".join(part for part in ("; ".join(parts), metric.note) if part)


def correction(metric: MetricEntry, sampled: SampledEntry) -> list[str]:
    """Return how the mean of a sample was corrected, what that gained, and what judging all queries would give."""
    own, alone = _width(metric.ci_low, metric.ci_high), _width(sampled.alone_low, sampled.alone_high)
    if metric.n == sampled.queries:
        return ["all its queries were judged"]
    if not sampled.weight:
        few = metric.n < FEWEST_REGRESSED
        why = f"fewer than {FEWEST_REGRESSED} are judged" if few else f"{sampled.proxy} does not foretell the judge"
        parts = [f"mean of the judged queries alone, because {why}"]
    elif own is None or alone is None:
        parts = [f"corrected by {sampled.proxy}, weight {sampled.weight:.2f}"]
    else:
        narrower = f"{1 - own / alone:.0%} narrower than" if own < alone else "no narrower than"
        parts = [
            f"corrected by {sampled.proxy}, weight {sampled.weight:.2f}: interval {own:.3f} wide, {narrower} without "
            f"({alone:.3f})"
        ]
    if metric.bound_low is not None and metric.bound_high is not None:
        parts.append(f"judging all would give {metric.bound_low:.3f} … {metric.bound_high:.3f} (95%)")
    return parts


def _width(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else high - low


def _print_unmet(console: Console, report: Report) -> None:
    for criterion in report.criteria:
        if not criterion.passed:
            console.print(
                f"  [{COLORS[criterion.verdict]}]{criterion.verdict}[/] {criterion.metric} {criterion.condition}, got "
                f"{figure(criterion.metric, criterion.figure)} ({escape(criterion.reason)})"
            )
