"""The metrics there are, as `--list-metrics` and docs/metrics.md list them. Pure."""

import re
from collections.abc import Iterable, Iterator
from math import isinf

from evals.metrics import METRICS, PASS_RATE
from evals.metrics.declaration import Declaration

DEPTH = re.compile(r"_at_(\d+)$")
COLUMNS = ("metric", "values", "better", "source", "needs", "about")


def listing() -> str:
    """Return a line for each metric: name, unit and range, direction, one line about it."""
    metrics = (PASS_RATE, *METRICS.values())
    rows = [(metric.name, values(metric), metric.direction, metric.about) for metric in metrics]
    *widths, _ = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, [*widths, 0])) for row in rows)


def markdown() -> str:
    """Return the table of docs/metrics.md; metrics that differ in their depth alone are one row, `_at_K`."""
    head = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
    rows = {row[0]: row for row in _rows((PASS_RATE, *METRICS.values()))}
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows.values())


def values(metric: Declaration) -> str:
    """Return unit and range, such as `share, 0 to 1` or `ms, from 0`."""
    low, high = metric.range
    return f"{metric.unit}, from {low:g}" if isinf(high) else f"{metric.unit}, {low:g} to {high:g}"


def _rows(metrics: Iterable[Declaration]) -> Iterator[tuple[str, ...]]:
    for metric in metrics:
        depth = DEPTH.search(metric.name)
        about = re.sub(rf"\b{depth[1]}\b", "K", metric.about) if depth else metric.about
        needs = ", ".join(sorted(metric.needs))
        yield (f"`{DEPTH.sub('_at_K', metric.name)}`", values(metric), metric.direction, metric.source, needs, about)
