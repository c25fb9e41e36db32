"""The leading metric by query type."""

from evals.collect.observations import Summary
from evals.report.model import SliceEntry
from evals.report.section import terminal
from evals.report.sections import leading_slices
from tests.support.results import report

NAME = "ranking/hit_rate_at_5"


def shown(*slices: SliceEntry) -> list[str]:
    section = leading_slices(report().model_copy(update={"slices": list(slices)}))
    return [] if section is None else [one.rstrip() for one in terminal([section], width=80, color=False).splitlines()]


def of(name: str, value: float, **changes: str) -> SliceEntry:
    metric = Summary(metric=NAME, value=value, ci_low=0.1, ci_high=0.9, n=7)
    return SliceEntry(by=changes.get("by", "query_type"), name=name, n=9, metrics={NAME: metric})  # type: ignore[arg-type]


def test_the_worst_type_comes_first_with_interval_and_n() -> None:
    head, columns, *rows = shown(of("[b]good", 0.9), of("bad", 0.2), of("fair", 0.5), of("arms", 0.1, by="tag"))
    assert head == f"{NAME} by query type" and columns.split() == ["type", "value", "95%", "interval", "n"]
    assert [row.split() for row in rows] == [
        ["bad", "0.200", "0.100", "…", "0.900", "7"],
        ["fair", "0.500", "0.100", "…", "0.900", "7"],
        ["[b]good", "0.900", "0.100", "…", "0.900", "7"],
    ]


def test_one_type_alone_is_no_comparison() -> None:
    assert shown(of("keyword", 0.5)) == []
