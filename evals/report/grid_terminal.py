"""A grid as an engineer reads it at a glance: its best cells by the objective."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.grid.abstaining import Abstaining
from evals.grid.cells import Cell, Grid
from evals.grid.choice import Choice, HeldOut, explain
from evals.grid.evaluation import GridResult
from evals.grid.objective import TOKENS, Ranking, figures
from evals.judge.tasks import RECALL
from evals.report.console import SafeConsole
from evals.report.terminal import figure

SHOWN = 10
BESIDE = (
    "ragas/id_context_precision",
    "ragas/id_context_recall",
    "scope/false_answer",
    "scope/false_abstention",
    TOKENS,
)
"""What is shown beside what is optimised and constrained, where the grid has it."""


def render_grid(result: GridResult, *, width: int, color: bool) -> str:
    """The head of the grid for a terminal of that width."""
    console = SafeConsole(width=width, color=color)
    grid, ranking = result.grid, result.ranking
    console.print(
        f"[bold]Grid of {len(grid):,} cells[/bold]  {len(grid.configurations)} × retrieved, "
        f"{len(grid.top_ks)} × top_k, {_thresholds(grid)} × threshold · {len(grid.query_ids)} queries"
    )
    console.print(escape(_by(ranking)), style="dim")
    if result.choice is None:
        console.print(f"[yellow]Not ranked:[/yellow] {escape(ranking.reason)}")
    else:
        for line in (*explain(result.choice), *held_out_lines(result.held_out), *approximation_lines(result)):
            console.print(escape(line))
        console.print()
        console.print(_table(grid, ranking, result.choice))
        console.print("✓ may be the best (95%) · ★ recommended · +n: so many more cells scored the same on every query")
    if result.abstaining:
        _print_abstention(console, result.abstaining)
    return console.text.getvalue()


def held_out_lines(found: HeldOut | None) -> list[str]:
    """The unbiased figure in a line; none without one."""
    if found is None:
        return []
    known = found.interval
    ends = "" if known.low is None or known.high is None else f" ({known.low:.3f} … {known.high:.3f})"
    return [
        f"Held out: {found.value:.3f}{ends} on {found.n} queries that had no part in the choice "
        f"({found.chosen_on:.3f} on those that had)"
    ]


def approximation_lines(result: GridResult) -> list[str]:
    """That cells were compared by recall of which a part was not asked for; none where they were not."""
    bisected, ranking = result.run.judging and result.run.judging.bisected, result.ranking
    if not bisected or not bisected.implied or RECALL not in {**ranking.weights, **ranking.constraints}:
        return []
    return [
        f"Approximation: cells were compared by {RECALL}, of which {bisected.saved} of {bisected.selections} results "
        "were not asked about (judge.recall bisect)"
    ]


def _print_abstention(console: Console, known: Abstaining) -> None:
    console.print(f"\n[bold]When to return nothing[/bold] ({escape(known.configuration)}, top_k {known.top_k})")
    for line in (known.known.statement, *dict.fromkeys(one.statement for one in known.wanted)):
        console.print(f"  {escape(line)}")


def _threshold(cell: Cell) -> str:
    return "–" if cell.threshold is None else f"{cell.threshold:.6g}"


def _thresholds(grid: Grid) -> str:
    counts = sorted({len(configuration.thresholds) for configuration in grid.configurations})
    return " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))


def _by(ranking: Ranking) -> str:
    parts = [name if weight == 1 else f"{weight:g} × {name}" for name, weight in ranking.weights.items()]
    compared = ", ".join(dict.fromkeys(f"{ranking.n[name]} queries" for name in ranking.weights))
    dropped = max(ranking.dropped.values(), default=0)
    said = f"by {' + '.join(parts)}, on {compared}" + (f" ({dropped} dropped)" if dropped else "")
    if ranking.constraints:
        wanted = " and ".join(f"{metric} {condition}" for metric, condition in ranking.constraints.items())
        said += f", where {wanted} ({ranking.excluded:,} cells are not)"
    return said


def _table(grid: Grid, ranking: Ranking, choice: Choice) -> Table:
    names = columns(grid, ranking)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", justify="right")
    table.add_column("retrieval", no_wrap=True)
    for name in ("top_k", "threshold"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    if len(ranking.weights) > 1 or set(ranking.weights.values()) != {1.0}:
        table.add_column("objective", justify="right", no_wrap=True)
    for name in names:
        table.add_column(name.replace("/", "/\n"), justify="right")
    for place, standing in enumerate(choice.standings, 1):
        if place <= SHOWN or standing is choice.recommended:
            mark = "★" if standing is choice.recommended else "✓" if standing.in_set else ""
            same = f" +{len(standing.members) - 1}" if len(standing.members) > 1 else ""
            table.add_row(str(place), *_row(grid, ranking, standing.cell, names, mark + same))
    return table


def columns(grid: Grid, ranking: Ranking) -> Sequence[str]:
    """The metrics that are shown of a cell: what is optimised and constrained, and some beside it."""
    wanted = (*ranking.weights, *ranking.constraints, *BESIDE)
    return [name for name in dict.fromkeys(wanted) if name in grid.metrics or name in ranking.constraints]


def _row(grid: Grid, ranking: Ranking, index: int, names: Sequence[str], mark: str) -> list[str]:
    cell = grid.cell(index)
    known = [escape(grid.configurations[cell.configuration].name), str(cell.top_k), _threshold(cell), mark]
    if len(ranking.weights) > 1 or set(ranking.weights.values()) != {1.0}:
        known.append(f"{ranking.values[index]:.3f}")
    values = [float(figures(grid, name, symbol=">=")[index]) for name in names]
    return known + [figure(name, None if np.isnan(v) else v) for name, v in zip(names, values, strict=True)]
