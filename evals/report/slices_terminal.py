"""The leading metric of a run by query type, for a terminal."""

from rich.console import Console
from rich.markup import escape

from evals.report.figure_text import ends, figure
from evals.report.headline import LEADING, deepest
from evals.report.model import Report


def print_slices(console: Console, report: Report) -> None:
    """Print the leading metric of each query type with n and interval, as many in a line as fit."""
    name = next((known for pattern in LEADING if (known := deepest(pattern, report.metrics)) in report.metrics), None)
    parts = [slice_ for slice_ in report.slices if slice_.by == "query_type" and name in slice_.metrics]
    if name is None or len(parts) < 2:
        return
    console.print(f"[bold]{name} by query type[/bold] (95% interval, n)")
    width = max(len(slice_.name) for slice_ in parts)
    cells = []
    for slice_ in sorted(parts, key=lambda part: part.metrics[name].value):
        metric = slice_.metrics[name]
        interval = ends(name, metric.ci_low, metric.ci_high)
        cells.append(f"{slice_.name:<{width}} {figure(name, metric.value)} ({interval}) {metric.n:>2}")
    longest = max(map(len, cells))
    across = max(1, (console.width - 2 + 2) // (longest + 2))
    for start in range(0, len(cells), across):
        row = "  ".join(cell.ljust(longest) for cell in cells[start : start + across])
        console.print(f"  {escape(row.rstrip())}", no_wrap=True, overflow="ellipsis")
