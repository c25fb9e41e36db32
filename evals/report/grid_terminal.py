"""A grid for a terminal: its recommendation and its best cells."""

import re
from collections.abc import Collection

from rich.markup import escape
from rich.table import Table

from evals.metrics import declared
from evals.report.best_cells import CellRow, best_cells, columns
from evals.report.console import SafeConsole
from evals.report.decision import DecisionTable, decision_table
from evals.report.model import GridSection, Report
from evals.report.model.choice import ChoiceSection, HeldOutEntry
from evals.report.model.grid import AbstentionSection, RankingSection

SHOWN = 10
# Columns that a figure takes, the objective, and place, top_k, threshold and mark together.
FIGURE, OBJECTIVE, TAKEN = 9, 10, 32
# From this width on the decision shows tokens and passes.
WIDE = 100
# Longest line of a heading.
HEADING = 11


def render_grid(report: Report, *, width: int, color: bool) -> str:
    """Return the head of the grid that a run is of; empty for a single run.

    Args:
        report: The run.
        width: Width of the terminal, in columns.
        color: Use colors.
    """
    grid = report.grid
    if grid is None:
        return ""
    console = SafeConsole(width=width, color=color)
    if grid.proof:
        console.print(f"[bold]{escape(grid.proof.statement)}[/bold]")
    console.print(
        f"[bold]Grid of {grid.cells.count:,} cells[/bold]  {len(grid.configurations)} × retrieved, "
        f"{len(grid.top_k)} × top_k, {_thresholds(grid)} × threshold · {report.validation.total} queries"
    )
    sample = report.judge.sample if report.judge else None
    judged = {name for name in grid.ranking.metrics if declared(name).is_judged} if sample else set()
    console.print(escape(_by(grid.ranking, judged)), style="dim")
    if grid.choice is None:
        console.print(f"[yellow]Not ranked:[/yellow] {escape(grid.ranking.reason)}")
    else:
        if (table := decision_table(grid, report.validation.passed + report.validation.failed)) is not None:
            _print_decision(console, table, width)
        for line in recommendation(grid, grid.choice):
            console.print(escape(line))
        console.print()
        console.print(_table(grid, grid.choice, width))
        console.print("✓ may be the best · ★ recommended · +n: n more cells scored the same on every query")
    if grid.abstention:
        where = f"{escape(grid.abstention.configuration)}, top_k {grid.abstention.top_k}"
        console.print(f"\n[bold]When to return nothing[/bold] ({where})")
        for line in abstention_lines(grid.abstention):
            console.print(f"  {escape(line)}")
    return console.text.getvalue()


def _print_decision(console: SafeConsole, decision: DecisionTable, width: int) -> None:
    """Print which cell to take for what one can bear; a narrow terminal has no room for tokens and passes."""
    console.print(f"[bold]Which threshold and top_k?[/bold]  {escape(decision.head)}")
    shown = len(decision.columns) if width >= WIDE else len(decision.columns) - 2
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(decision.columns[:shown]):
        table.add_column(escape(name), justify="left" if number < 2 else "right", no_wrap=number != 1)
    for row in decision.rows:
        table.add_row(*map(escape, row[:shown]))
    console.print(table)
    for note in decision.notes:
        console.print(escape(note), style="dim")
    console.print()


def recommendation(grid: GridSection, choice: ChoiceSection) -> list[str]:
    """Return the choice, what it rests on, and the figure on held-out queries, a sentence a line."""
    held_out = [_held_out_line(choice.held_out)] if choice.held_out else []
    return [*choice.explanation, *held_out]


def abstention_lines(abstention: AbstentionSection) -> list[str]:
    """Return what thresholds can do about queries that the documents do not answer."""
    return [abstention.known.statement, *(entry.statement for entry in abstention.promised)]


def _held_out_line(held_out: HeldOutEntry) -> str:
    low, high = held_out.interval.low, held_out.interval.high
    ends = "" if low is None or high is None else f" ({low:.3f} … {high:.3f})"
    return (
        f"Held out: {held_out.value:.3f}{ends} on {held_out.n} queries that had no part in the choice "
        f"({held_out.chosen_on:.3f} on those that had)"
    )


def _thresholds(grid: GridSection) -> str:
    counts = sorted({configuration.thresholds for configuration in grid.configurations})
    return " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))


def _by(ranking: RankingSection, judged: Collection[str]) -> str:
    compared = ", ".join(
        dict.fromkeys(f"{ranking.n[name]} {'judged ' if name in judged else ''}queries" for name in ranking.metrics)
    )
    dropped = max(ranking.dropped.values(), default=0)
    line = f"by {ranking.objective}, on {compared}" + (f" ({dropped} dropped)" if dropped else "")
    if ranking.constraints:
        line += f", where {ranking.where} ({ranking.excluded:,} cells are not)"
    return line


def _table(grid: GridSection, choice: ChoiceSection, width: int) -> Table:
    weighted = len(grid.ranking.metrics) > 1 or set(grid.ranking.metrics.values()) != {1.0}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", justify="right")
    table.add_column("retrieval", no_wrap=True)
    for name in ("top_k", "threshold"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    if weighted:
        table.add_column("objective", justify="right", no_wrap=True)
    rows = best_cells(grid, choice, SHOWN)
    # What is optimised and constrained comes first; what has no room is on the page.
    taken = TAKEN + max(len(row.configuration) for row in rows) + (OBJECTIVE if weighted else 0)
    fitting = max(1, (width - taken) // FIGURE)
    for name in columns(grid)[:fitting]:
        table.add_column(_heading(name), justify="right", min_width=FIGURE - 1, overflow="fold")
    for row in rows:
        objective = [row.objective] if weighted else []
        cells = [str(row.place), escape(row.configuration), str(row.top_k), row.threshold, _mark(row)]
        table.add_row(*cells, *objective, *row.figures[:fitting])
    return table


def _heading(name: str) -> str:
    """Return the name of a metric in lines of few characters, broken after `/` and `_`."""
    lines = [""]
    for part in re.findall(r"[^/_]+[/_]?", name):
        if len(lines[-1]) + len(part) > HEADING or lines[-1].endswith("/"):
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _mark(row: CellRow) -> str:
    mark = "★" if row.recommended else "✓" if row.standing.in_set else ""
    return mark + (f" +{row.same}" if row.same else "")
