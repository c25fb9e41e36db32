"""Queries without labels contradict nothing, whatever runs say of them."""

from dataclasses import replace

import pytest

from evals.golden.audit.doubtful_labels import contradicted, unfound
from evals.judge.verdicts import ChunkVerdict
from evals.report.rows import query_rows
from tests.support.judged import judging
from tests.support.results import hit, observation, report_of, result, verdict


@pytest.mark.parametrize(("labels", "lost"), [({"b": 1}, ["bare"]), ({}, None)])
def test_only_labelled_queries_are_lost_or_contradicted(labels: dict[str, int], lost: list[str] | None) -> None:
    asked = observation("bare", [hit(1, 0.9, "a")], 1, labels, in_scope=True)
    made = result(
        observed=replace(result().observed, observations=(asked,)),
        validation=report_of([verdict("bare", "FAILURE" if labels else "UNLABELLED")]),
        judging=judging(verdicts={("bare", "a"): ChunkVerdict(verdict=1, reason="")}),
    )
    runs = {"run": {row.id: row for row in query_rows(made)}}
    section = unfound([asked.case], runs)
    assert section.figures.get("queries") == lost
    assert section.lines[0].startswith("1 of 1 queries have no relevant" if lost else "no query of the runs has labels")
    assert contradicted(runs).doubtful is False
    assert ("not known" in contradicted(runs).lines[0]) is (lost is None)
