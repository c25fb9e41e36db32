"""A grid for a terminal: its recommendation and its best cells."""

import re
from collections import Counter
from collections.abc import Collection

from rich.markup import escape
from rich.table import Table

from evals.grid.choice import Choice
from evals.metrics import declared
from evals.report.best_cells import CellRow, best_cells, columns
from evals.report.console import SafeConsole
from evals.report.model import GridSection, RankingSection, Report

SHOWN = 10
# Columns that a figure takes, the objective, and place, top_k, threshold and mark together.
FIGURE, OBJECTIVE, TAKEN = 9, 10, 32
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
        console.print(f"[bold]{escape(grid.proof)}[/bold]")
    console.print(
        f"[bold]Grid of {grid.cells.count:,} cells[/bold]  {len(grid.configurations)} × retrieved, "
        f"{len(set(grid.cells.top_k))} × top_k, {_thresholds(grid)} × threshold · {report.validation.total} queries"
    )
    drawn = report.judge.drawn if report.judge else None
    judged = {name for name in grid.ranking.metrics if declared(name).is_judged} if drawn is not None else set()
    console.print(escape(_by(grid.ranking, judged)), style="dim")
    for line in grid.explanation:
        console.print(escape(line))
    if grid.choice:
        console.print()
        console.print(_table(grid, grid.choice, width))
        console.print("✓ may be the best · ★ recommended · +n: n more cells scored the same on every query")
    if grid.abstention:
        console.print(f"\n[bold]When to return nothing[/bold] ({escape(chosen_place(grid))})")
        for line in grid.abstention:
            console.print(f"  {escape(line)}")
    return console.text.getvalue()


def chosen_place(grid: GridSection) -> str:
    """Return the configuration and the cut of the recommended cell, or else of the first."""
    place = 0 if grid.chosen is None else grid.cells.index.index(grid.chosen)
    return f"{grid.configurations[grid.cells.configuration[place]].name}, top_k {grid.cells.top_k[place]}"


def _thresholds(grid: GridSection) -> str:
    cells = zip(grid.cells.configuration, grid.cells.threshold, strict=True)
    counts = sorted({*Counter(number for number, _ in dict.fromkeys(cells)).values()})
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


def _table(grid: GridSection, choice: Choice, width: int) -> Table:
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
