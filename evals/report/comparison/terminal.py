"""A comparison for the terminal: other differences, the metrics, the queries that moved, the tolerances."""

from collections.abc import Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.report.comparison.differences import WHOLE_RUN
from evals.report.comparison.document import tested
from evals.report.comparison.records import Comparison, Moved, Regression, Run
from evals.report.console import SafeConsole
from evals.report.figure_text import figure, signed
from evals.report.model import Difference, Hit, QueryRow
from retrievers.terminal.present import score_text

HITS = 5
# Columns of the table of metrics; a terminal of fewer columns than WIDE has those that are not FIRST in a second table.
COLUMNS = ("metric", "baseline", "other", "difference", "95% interval", "p", "Holm", "win/tie/loss", "n", "")
FIRST, WIDE = {"metric", "baseline", "other", "difference", ""}, 116
# Width of a table that is not cut where no terminal shows it.
UNCUT = 10_000
NOTHING = {"", "–"}
COLORED = {"better": "[green]better[/green]", "worse": "[red]worse[/red]", "": ""}


def render(comparisons: Sequence[Comparison], *, width: int, color: bool, queries: int, whole: bool = False) -> str:
    """Return the comparisons with one baseline, for a terminal of that width.

    Args:
        comparisons: At least one.
        width: Columns.
        color: Use colors.
        queries: Number of moved queries to show for each run.
        whole: Shorten nothing, as no terminal shows it; only sentences are wrapped.
    """
    console = SafeConsole(width=width, color=color)
    family = tested(comparisons)
    for number, comparison in enumerate(comparisons):
        if number:
            console.print()
        _print_head(console, comparison, whole=whole)
        for difference in comparison.differences:
            if remark := _remark(difference):
                console.print(escape(f"  {difference.metric}: {remark}"), style="dim")
        _print_legend(console, comparison, family)
        _print_moved(console, comparison, queries, whole=whole)
        _print_regressions(console, comparison.regressions)
    return console.text.getvalue()


def render_head(comparison: Comparison, *, width: int, color: bool) -> str:
    """Return head and table of a comparison."""
    console = SafeConsole(width=width, color=color)
    _print_head(console, comparison, whole=True)
    return console.text.getvalue()


def _print_head(console: Console, comparison: Comparison, *, whole: bool) -> None:
    for role, run in (("baseline", comparison.baseline), ("other   ", comparison.other)):
        console.print(f"{role}  [bold]{escape(run.name)}[/bold]  {escape(_about(run))}", soft_wrap=True)
    _print_known(console, comparison)
    for table in _metrics(comparison.differences, narrow=console.width < WIDE and not whole):
        _print_table(console, table, whole=whole)


def _about(run: Run) -> str:
    facts = run.report.facts
    return f"{facts.cases} queries · {facts.started_at[:16].replace('T', ' ')} · {run.origin}"


def _print_known(console: Console, comparison: Comparison) -> None:
    if comparison.restricted:
        pairing = comparison.pairing
        left = len(pairing.only_baseline) + len(pairing.only_other) + len(pairing.changed)
        console.print(
            f"\n[bold red]Only the {len(pairing.rows)} queries that are the same in both runs are compared[/bold red] "
            f"(--common); {left} are left out."
        )
    if comparison.changes:
        table = _plain_table("Settings that differ")
        for change in comparison.changes:
            table.add_row(escape(change.setting), escape(f"{_value(change.baseline)} → {_value(change.other)}"))
        console.print(table)
    if comparison.mismatches:
        table = _plain_table("Other differences")
        for mismatch in comparison.mismatches:
            table.add_row(
                escape(mismatch.what), escape(f"{mismatch.baseline} → {mismatch.other}"), escape(mismatch.meaning)
            )
        console.print(table)
    if not comparison.changes and not comparison.mismatches:
        console.print("\nSettings, golden data, collection, versions and commit are the same.")


def _print_table(console: Console, table: Table, *, whole: bool) -> None:
    width = console.width
    console.width = UNCUT if whole else width
    console.print(table)
    console.width = width


def _metrics(differences: Sequence[Difference], *, narrow: bool) -> Iterator[Table]:
    """Yield the table, or for a narrow terminal two; without rows and columns that say nothing."""
    rows = [cells for cells in map(_cells, differences) if {*cells[1:]} - NOTHING]
    told = [name for name, *cells in zip(COLUMNS, *rows, strict=True) if {*cells} - NOTHING]
    further = ["metric", *(name for name in told if name not in FIRST)]
    for names in ([name for name in told if name in FIRST], further) if narrow else (told,):
        table = Table(box=None, pad_edge=False, header_style="bold", title="", title_justify="left")
        for name in names:
            if name == "metric":
                table.add_column(name, no_wrap=names is not further, overflow="fold")
            else:
                table.add_column(name, justify="right" if name else "left", no_wrap=True)
        for cells in rows:
            table.add_row(*(cells[COLUMNS.index(name)] for name in names))
        if len(names) > 1:
            yield table


def _cells(difference: Difference) -> list[str]:
    paired = difference.paired
    interval = paired.interval if paired else None
    has_interval = interval is not None and interval.low is not None
    return [
        difference.metric,
        figure(difference.metric, difference.baseline),
        figure(difference.metric, difference.other),
        signed(difference.metric, difference.difference),
        f"{signed(difference.metric, interval.low)} … {signed(difference.metric, interval.high)}"
        if interval and has_interval
        else "–",
        _p_value(paired.p if paired else None),
        _p_value(difference.p_adjusted),
        f"{difference.wins}/{paired.ties}/{difference.losses}" if paired else "–",
        str(paired.n) if paired else "–",
        COLORED[difference.verdict],
    ]


def _p_value(value: float | None) -> str:
    return "–" if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _remark(difference: Difference) -> str:
    parts = [difference.note] if difference.note not in ("", WHOLE_RUN) else []
    if difference.only_baseline or difference.only_other:
        parts.append(
            f"{len(difference.only_baseline)} scored in the baseline only, "
            f"{len(difference.only_other)} in the other only"
        )
    if difference.failed:
        worst = "" if difference.worst is None else f", at worst {signed(difference.metric, difference.worst)}"
        parts.append(f"{len(difference.failed)} failed{worst}")
    return "; ".join(parts)


def _print_legend(console: Console, comparison: Comparison, family: int) -> None:
    tests = list(dict.fromkeys(difference.paired.test for difference in comparison.differences if difference.paired))
    notes = ["Difference: other − baseline, over the queries scored in both. Win: the other is better."]
    if tests:
        notes.append(
            f"Intervals: each at 95%. p: of the test ({'; '.join(tests)}), at least 0.05 where the interval holds 0. "
            f"Holm: p adjusted over all {family} tests, by which better and worse are decided."
        )
    if any(difference.note == WHOLE_RUN for difference in comparison.differences):
        notes.append("Without n: statistics of the whole run, which are not paired by query and have no p.")
    console.print(escape(" ".join(notes)), style="dim")


def _print_moved(console: Console, comparison: Comparison, queries: int, *, whole: bool) -> None:
    shown = comparison.moved[:queries]
    if not comparison.moved:
        console.print("\nNo query moved.")
    elif shown:
        metrics = ", ".join(dict.fromkeys(moved.metric for moved in comparison.moved))
        console.print(
            f"\n[bold]Queries that moved most[/bold], {len(shown)} of {len(comparison.moved)}, by {escape(metrics)}"
        )
    for move in shown:
        console.print(
            f"\n  [bold]{escape(move.baseline.id)}[/bold] {escape(move.baseline.query)}\n  {escape(move.metric)} "
            f"{figure(move.metric, move.before)} → {figure(move.metric, move.after)}  {_gain(move)}"
        )
        _print_table(console, _side_by_side(move, UNCUT if whole else console.width), whole=whole)


def _gain(move: Moved) -> str:
    color, word = ("green", "better") if move.gain > 0 else ("red", "worse")
    return f"[{color}]{word} by {figure(move.metric, abs(move.gain))}[/{color}]"


def _side_by_side(move: Moved, width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    half = width // 2 - 3
    for name in ("baseline", "other"):
        table.add_column(f"  {name}", max_width=half, no_wrap=True)
    pairs = zip(move.baseline.retrieved, move.other.retrieved, strict=False)
    same = len(list(takewhile(lambda pair: pair[0].chunk_id == pair[1].chunk_id, pairs)))
    # What differs may stand below the first ranks.
    first = same if same >= HITS else 0
    if first:
        table.add_row(*([f"  [dim]1 to {first} the same[/dim]"] * 2))
    columns = [_hits(row, half, first) for row in (move.baseline, move.other)]
    for both in zip_longest(*columns, fillvalue=""):
        table.add_row(*(f"  {cell}" for cell in both))
    return table


def _hits(row: QueryRow, width: int, first: int) -> list[str]:
    if row.retrieved:
        return [_hit(hit, width) for hit in row.retrieved[first : first + HITS]]
    below = [f"[dim]below the threshold[/dim] {_hit(hit, width - 20)}" for hit in row.best_below_threshold[:1]]
    return ["nothing returned", *below]


def _hit(hit: Hit, width: int) -> str:
    """Return a chunk in a line; of a long source the end is shown, where its lines are."""
    prefix = f"{hit.rank}. {score_text(hit.score)} {'✓' if hit.grade else ' '} "
    room = max(width - len(prefix) - 4, 10)
    source = hit.source if len(hit.source) <= room else f"…{hit.source[1 - room :]}"
    return prefix + escape(source)


def _print_regressions(console: Console, regressions: Sequence[Regression]) -> None:
    if regressions:
        console.print("\n[bold]Tolerated drops[/bold]")
    for regression in regressions:
        verdict = "[green]pass[/green]" if regression.passed else "[red]FAIL[/red]"
        drop = "drop unknown" if regression.drop is None else f"drop {signed(regression.metric, regression.drop)}"
        console.print(
            f"  {verdict}  {escape(regression.metric)}  {drop}, tolerated {regression.tolerance:g}  "
            f"({escape(regression.reason)})"
        )


def _plain_table(title: str = "") -> Table:
    table = Table(
        box=None, pad_edge=False, show_header=False, title=f"\n{title}" if title else None, title_justify="left",
        title_style="bold",
    )  # fmt: skip
    return table


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)
