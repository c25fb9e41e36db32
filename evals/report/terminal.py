"""A run as an engineer reads it at a glance: verdict, table, before and after, worst queries, what to do next."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.collect.observations import Gate, SampledMean, Summary
from evals.report.console import SafeConsole
from evals.report.figure_text import ends, figure, signed
from evals.report.headline import BESIDE_REFERENCE, LEADING, NO_WORSE, deepest
from evals.report.judge_lines import judge_lines, print_disagreements
from evals.report.model import ComparedSection, Difference, Facts, Report
from evals.report.worst import hit_line, line, print_worst
from evals.sampling.corrected import FEWEST_REGRESSED

TONES = {"good": "green", "mixed": "yellow", "bad": "red"}
COLORS = {"pass": "green", "FAIL": "red", "undecided": "yellow"}
CACHES = {"embedding": "query vectors", "result": "results", "judge": "verdicts"}
CHANGES = {"better": "green", "worse": "red", "": "default"}


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
    if report.ragas_check and report.ragas_check.line:
        console.print(escape(report.ragas_check.line), style="dim")
    if caches := cache_line(report.caches):
        console.print(escape(caches), style="dim")
    if report.reference:
        _print_reference(console, report, report.reference, everything=everything)
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
    criteria: dict[str, list[Gate]] = {}
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


def has_something(metric: Summary) -> bool:
    """Return True if there is a value, or a query that could have one."""
    return metric.value is not None or bool(metric.n_unscored or metric.n_failed)


def interval(name: str, metric: Summary) -> str:
    """Return the interval of a metric, rounded for reading."""
    return ends(name, metric.ci_low, metric.ci_high)


def counted(metric: Summary) -> str:
    """Return the number of scored queries; of a sample also how many its mean stands for."""
    return f"{metric.n} of {metric.sampled.queries}" if metric.sampled else str(metric.n)


def remark(metric: Summary) -> str:
    """Return what must be known beside a value: the counts of missing scores, the bounds these leave, its note."""
    parts = []
    if metric.n_unscored and metric.value is not None:
        parts.append(f"{metric.n_unscored} unscored")
    if metric.n_failed:
        parts.append(f"{metric.n_failed} failed")
    if metric.n_missing:
        parts.append(f"{metric.n_missing} of them missing")
    if metric.sampled:
        parts += _correction(metric, metric.sampled)
    elif parts and metric.bound_low is not None:
        parts[-1] += f", {metric.bound_low:.3f} … {metric.bound_high:.3f}"
    return ": ".join(part for part in ("; ".join(parts), metric.note) if part)


def _correction(metric: Summary, sampled: SampledMean) -> list[str]:
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


def cache_line(caches: Mapping[str, tuple[int, int]]) -> str:
    """Return the hit rates of the caches that were asked; empty where none was."""
    asked = [
        f"{CACHES.get(name, name)} {hits:,} of {lookups:,} ({hits / lookups:.0%})"
        for name, (hits, lookups) in caches.items()
        if lookups
    ]
    return f"From caches: {', '.join(asked)}" if asked else ""


def print_slices(console: Console, report: Report) -> None:
    """Print the leading metric of each query type with n and interval, as many in a line as fit."""
    name = next((known for pattern in LEADING if (known := deepest(pattern, report.metrics)) in report.metrics), None)
    parts = [slice_ for slice_ in report.slices if slice_.by == "query_type" and name in slice_.metrics]
    if name is None or len(parts) < 2:
        return
    console.print(f"[bold]{name} by query type[/bold] (95% interval, n)")
    width = max(len(slice_.name) for slice_ in parts)
    cells = []
    for slice_ in sorted(parts, key=lambda part: part.metrics[name].value or 0.0):
        metric = slice_.metrics[name]
        interval = ends(name, metric.ci_low, metric.ci_high)
        cells.append(f"{slice_.name:<{width}} {figure(name, metric.value)} ({interval}) {metric.n:>2}")
    longest = max(map(len, cells))
    across = max(1, (console.width - 2 + 2) // (longest + 2))
    for start in range(0, len(cells), across):
        row = "  ".join(cell.ljust(longest) for cell in cells[start : start + across])
        console.print(f"  {escape(row.rstrip())}", no_wrap=True, overflow="ellipsis")


def _print_reference(console: Console, report: Report, section: ComparedSection, *, everything: bool) -> None:
    """Print the difference of the metrics that say most, and one query that flipped with both results.

    Args:
        console: Console to print to.
        report: The run.
        section: The run beside its reference.
        everything: Print every metric.
    """
    line(console, f"[bold]Before → after[/bold], wins/ties/losses; before: {escape(section.settings)}")
    differences = {difference.metric: difference for difference in section.differences}
    names = [*differences] if everything else [deepest(pattern, differences) for pattern in BESIDE_REFERENCE]
    for name in names:
        if name in differences:
            line(console, _difference(differences[name]))
    rows = {row.id: row for row in report.queries}
    for flip in section.flipped[:1]:
        line(console, f"  flipped: [bold]{escape(flip.id)}[/bold] {escape(rows[flip.id].query)}")
        for when, hits in (("before", flip.retrieved), ("after ", rows[flip.id].retrieved[:3])):
            # The chunk that decides: the first relevant one, or the one in its place.
            chosen = next((hit for hit in hits if hit.grade), hits[0] if hits else None)
            first_hit = hit_line(chosen, console.width - 11) if chosen else "nothing returned"
            line(console, f"    {when} {first_hit}")


def _difference(one: Difference) -> str:
    interval, counts = "", ""
    if one.paired:
        low, high = one.paired.interval.low, one.paired.interval.high
        interval = "" if low is None else f" ({signed(one.metric, low)} … {signed(one.metric, high)})"
        counts = f", {one.wins}/{one.paired.ties}/{one.losses}"
    change = f"{figure(one.metric, one.baseline)} → {figure(one.metric, one.other)}"
    difference = signed(one.metric, one.difference)
    return f"  {one.metric} {change} [{CHANGES[one.verdict]}]{difference}[/]{interval}{counts}"
