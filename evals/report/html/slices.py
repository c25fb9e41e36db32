"""Slices of a run as data of the page, whose script compares two of them. Pure."""

from evals.metrics import declared
from evals.metrics.declaration import DIGITS
from evals.report.figure_text import ends, figure
from evals.report.model import Report
from evals.report.model.slices import SliceMetric
from retrievers.text.printable import json_text, printable


def slice_names(report: Report) -> list[str]:
    """Return the names of the slices; empty where there are not two of them."""
    names = [
        f"{part.name} ({'type' if part.by == 'query_type' else 'tag'}, {part.n} queries)" for part in report.slices
    ]
    return names if len(names) > 1 else []


def slices_data(report: Report) -> str:
    """Return the metrics of each slice as JSON that cannot end a script element."""
    data = [{name: _metric(name, metric) for name, metric in part.metrics.items()} for part in report.slices]
    return printable(json_text(data, indent=None)).replace("<", "\\u003c")


def _metric(name: str, metric: SliceMetric) -> dict[str, object]:
    return {
        "value": metric.value,
        "low": metric.ci_low,
        "high": metric.ci_high,
        "n": metric.n,
        "text": figure(name, metric.value),
        "interval": ends(name, metric.ci_low, metric.ci_high),
        "digits": DIGITS.get(declared(name).unit, 3),
    }
