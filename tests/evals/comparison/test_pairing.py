from typing import Any

from evals.comparison.comparing import pair
from evals.report.model import Report
from tests.support.reports import HIT, report, row


def queries(*names: str, **changes: Any) -> Report:
    return report({HIT: []}, rows=[row(name, {HIT: 1.0}) for name in names], **changes)


def test_of_the_same_golden_data_all_queries_are_paired_by_id() -> None:
    pairing = pair(queries("a", "b", "c"), queries("c", "a", "b"))
    assert [(a.id, b.id) for a, b in pairing.rows] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert pairing.complete


def test_of_other_golden_data_those_whose_case_is_the_same() -> None:
    first = queries("a", "b", "c", dataset_fingerprint="1")
    rows = [row("b", {}), row("c", {}, fingerprint="another case"), row("d", {})]
    pairing = pair(first, report({}, rows=rows, dataset_fingerprint="2"))
    assert [a.id for a, _ in pairing.rows] == ["b"]
    assert (pairing.only_baseline, pairing.only_other, pairing.changed) == (("a",), ("d",), ("c",))
    assert not pairing.complete


def test_a_case_without_a_fingerprint_cannot_be_told_to_be_the_same() -> None:
    rows = [row("a", {}, fingerprint=None)]
    first, second = (report({}, rows=rows, dataset_fingerprint=name) for name in "12")
    assert pair(first, second).changed == ("a",)
    assert pair(first, first).complete


def test_nothing_in_common() -> None:
    pairing = pair(queries("a", dataset_fingerprint="1"), queries("b", dataset_fingerprint="2"))
    assert (pairing.rows, pairing.only_baseline, pairing.only_other) == ((), ("a",), ("b",))
