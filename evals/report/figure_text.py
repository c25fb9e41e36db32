"""Figures rounded for reading."""

from evals.metrics import declared


def figure(metric: str, value: float | None) -> str:
    """Return a value rounded as the metric's unit asks for, a dash for none."""
    return "–" if value is None else declared(metric).written(value)


def signed(metric: str, value: float | None) -> str:
    """Return a difference rounded likewise, with its sign."""
    text = figure(metric, value)
    return text if value is None or text.startswith(("-", "–")) else f"+{text}"


def ends(metric: str, low: float | None, high: float | None) -> str:
    """Return the ends of an interval, rounded likewise; a dash for none."""
    return "–" if low is None else f"{figure(metric, low)} … {figure(metric, high)}"
