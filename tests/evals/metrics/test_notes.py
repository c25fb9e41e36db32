"""Notes that qualify the figures of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from syrupy.assertion import SnapshotAssertion

from evals.cases.pages import SourcePageError, SourcePages
from evals.cases.relevance import Relevance
from evals.collect.observations import Observation, Observed
from evals.judge.budget import Usage
from evals.judge.verdicts import Judging
from evals.metrics import notes as subject
from retrievers.config import RetrieverConfig
from tests.support.observed import PAGE, candidates_of, make_case, make_chunk, observe, results, results_of

JUDGED = Judging(model="cohere:c", verdicts={}, scores={}, claims={})
STOPPED = replace(JUDGED, usage=Usage(stopped="the budget is spent"))
OUTSIDE = observe(results("a"), case=make_case("out", in_scope=False))
SILENT = observe((), case=make_case("out", in_scope=False))


def seen(*ids: str, **case: Any) -> Observation:
    return observe(results(*ids), {"a": 1}, case=make_case(**case))


def graded(found: Observation, **relevance: Any) -> Observation:
    return replace(found, relevance=Relevance(**relevance))


def unlisted() -> Observation:
    """One whose relevance was resolved in what was returned."""
    found = observe(results("a"), case=make_case(evidence=[{"source_url": PAGE, "quote": "text of a"}]))
    return graded(found, grades={"a": 1}, items=(frozenset("a"),), incomplete="cannot be listed")


def asked_in(*queries: str) -> list[Observation]:
    english = "A topic is a named bus over which nodes exchange messages without knowing one another. " * 2
    found = results(make_chunk("x", english))
    return [observe(found, {"a": 1}, case=make_case(f"q{n}", query=query)) for n, query in enumerate(queries)]


SETTINGS, DEEPER = RetrieverConfig(top_k=1, candidates=50), RetrieverConfig(top_k=3)
CUT = observe(results("b"), {"a": 1}, candidates=results("b", "a"))
OPEN, ANSWERED = seen("a", relevant_ids={}), seen("a", relevant_ids={}, reference_answer="So.")
USELESS = graded(seen("a", "b", "c"), grades={"a": 1}, irrelevant=frozenset("b"))
DEEP = ("ranking/hit_rate_at_1", "ranking/recall_at_10", "candidates/recall_at_100", "latency/total_p95_ms_c8")
LACKING = [
    graded(seen("a", case_id=f"q{n}"), grades={f"x{n}": 1, "a": 1}, missing=frozenset([f"x{n}"])) for n in range(4)
]


UNREADABLE = SourcePages({f"{n}.md": SourcePageError(f"{n}.md: not UTF-8") for n in range(7)})
FOREIGN = asked_in("How does it work?", "Was ist ein Topic und wozu brauche ich es?", "什么是话题？")
RUNS: Mapping[str, tuple[Sequence[Observation], Mapping[str, Any]]] = {
    "nothing to say": ([seen("a", "b", "c"), OUTSIDE], {"settings": DEEPER}),
    "none in scope": ([OUTSIDE], {}),
    "none out of scope": ([seen("a")], {}),
    "some without labels": ([seen("a"), ANSWERED, OUTSIDE], {}),
    "all without labels": ([OPEN, ANSWERED, OUTSIDE], {}),
    "of the retriever": ([seen("a"), OUTSIDE], {"retriever_notes": ("one", "two")}),
    "another language": ([*FOREIGN, OUTSIDE], {}),
    "never judged": ([USELESS, seen("x", "y"), OUTSIDE], {}),
    "all judged": ([replace(USELESS, selection=candidates_of(results("b", "a"))), OUTSIDE], {}),
    "lacking": ([*LACKING, OUTSIDE], {}),
    "deeper metrics": ([seen("a"), OUTSIDE], {"metrics": DEEP}),
    "cut by the threshold": ([CUT, seen("a"), SILENT], {"settings": RetrieverConfig(top_k=2, threshold=0.5)}),
    "cut by something else": ([CUT, seen("a"), SILENT], {"settings": RetrieverConfig(top_k=2)}),
    "unlisted": ([unlisted(), OUTSIDE], {"listed": False}),
    "ids of none": ([seen("b", "c", relevant_ids={"x": 1, "y": 1, "z": 0}), OUTSIDE], {"listed": False}),
    "ids of some": ([seen("b", "x", relevant_ids={"x": 1}), OUTSIDE], {"listed": False}),
    "unreadable pages": ([seen("a"), OUTSIDE], {"sources": UNREADABLE}),
    "no judge": ([seen("a"), OUTSIDE], {"judging": None}),
    "a spent budget": ([seen("a"), OUTSIDE], {"judging": STOPPED}),
}


def notes_of(observations: Sequence[Observation], others: Mapping[str, Any]) -> list[str]:
    given = {"settings": SETTINGS, "metrics": (), "judging": JUDGED, "sources": None, **others}
    read = [given.pop(name) for name in ("settings", "metrics", "judging", "sources")]
    observed = Observed(observations=tuple(observations), **given)
    return [*subject.notes(observed, results_of(observations).lists.pool, *read)]


def test_a_run_has_the_notes_that_its_figures_need(snapshot: SnapshotAssertion) -> None:
    assert {name: notes_of(*run) for name, run in RUNS.items()} == snapshot
