"""The leading metric by query type."""

import pytest

from evals.collect.observations import Summary
from evals.report.console import SafeConsole
from evals.report.model import SliceEntry
from evals.report.terminal import print_slices
from tests.support.results import report

NAME = "ranking/hit_rate_at_5"


def shown(width: int, *slices: SliceEntry) -> list[str]:
    console = SafeConsole(width=width, color=False)
    print_slices(console, report().model_copy(update={"slices": list(slices)}))
    return [line.rstrip() for line in console.text.getvalue().splitlines()]


def of(name: str, value: float, **changes: str) -> SliceEntry:
    metric = Summary(metric=NAME, value=value, ci_low=0.1, ci_high=0.9, n=7)
    return SliceEntry(by=changes.get("by", "query_type"), name=name, n=9, metrics={NAME: metric})  # type: ignore[arg-type]


@pytest.mark.parametrize(("width", "lines"), [(60, 3), (80, 2), (120, 1)])
def test_the_worst_type_comes_first_and_as_many_stand_in_a_line_as_fit(width: int, lines: int) -> None:
    head, *rows = shown(width, of("[b]good", 0.9), of("bad", 0.2), of("fair", 0.5), of("arms", 0.1, by="tag"))
    assert head == f"{NAME} by query type (95% interval, n)"
    assert len(rows) == lines and max(map(len, rows)) <= width
    text = " ".join(rows)
    assert text.index("bad     0.200 (0.100 … 0.900)  7") < text.index("fair") < text.index("[b]good")
    assert "arms" not in text


def test_one_type_alone_is_no_comparison() -> None:
    assert shown(80, of("keyword", 0.5)) == []
