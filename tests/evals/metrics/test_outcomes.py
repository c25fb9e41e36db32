"""Whether each query was answered as it should be, and why not; notes that qualify the figures of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from evals.cases.pages import SourcePageError, SourcePages
from evals.cases.relevance import Relevance
from evals.collect.observations import Observation, Observed, Validation
from evals.judge.budget import Usage
from evals.judge.verdicts import Judging
from evals.metrics import notes as subject
from evals.metrics.declaration import NO_LABELS, Context
from evals.metrics.outcomes import validate
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, StageTimings
from tests.support.observed import candidates_of, make_case, make_context, observe, results, results_of, scored

REQUIRED = ("title", "heading", "chunk_index")


@pytest.fixture(scope="module")
def context(sources: SourcePages) -> Context:
    return make_context(required=REQUIRED, sources=sources)


def asked(*returned: Chunk | str, relevant: str = "", candidates: tuple[Any, ...] = (), **fields: Any) -> Observation:
    found = results(*returned)
    grades = {relevant: 1} if relevant else {}
    return observe(found, grades, candidates=results(*candidates) if candidates else found, case=make_case(**fields))


def verdict(observation: Observation, context: Context | None = None, **named: Any) -> tuple[Any, ...]:
    made = validate(results_of([observation]), (), context or make_context(), RetrieverConfig(**named))
    columns = (made.outcome, made.reasons, made.metadata_accuracy, made.content_relevance, made.accuracy_score)
    return tuple(value for [value] in columns)


@pytest.mark.parametrize(
    ("change", "fields", "reason"),
    [
        ({}, {"expected_topics": ["publisher"], "source_url_pattern": "topics$"}, ""),
        ({"title": None}, {}, "rank 1: title: missing"),
        ({"title": "Services"}, {}, "rank 1: title: expected 'Topics' as in the page, got 'Services'"),
        ({"chunk_index": None, "problems": ("chunk_index: expected a whole number from 0, got 'x'",)}, {},
         "rank 1: chunk_index: expected a whole number from 0, got 'x'"),
        ({"file_path": "gone.md", "source_url": "/gone"}, {}, "rank 1: source page: 'gone.md' does not exist"),
        ({}, {"expected_topics": ["publisher", "tea", "cake", "milk"]},
         "only 25% of the expected topics occur: publisher, tea, cake, milk"),
        ({}, {"source_url_pattern": "services$"}, "no result from a page that matches 'services$'"),
    ],
)  # fmt: skip
def test_a_relevant_result_is_a_success_where_metadata_topics_and_pattern_hold_and_a_partial_one_else(
    chunk: Chunk, context: Context, change: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    found = asked(replace(chunk, **change), relevant=chunk.chunk_id, **fields)
    outcome, reasons, _, relevance, _ = verdict(found, context)
    expected = ("PARTIAL_SUCCESS", (reason,)) if reason else ("SUCCESS", ())
    assert (outcome, reasons, relevance) == (*expected, 1.0)


def test_metadata_of_any_returned_chunk_counts_with_its_rank(chunk: Chunk, context: Context) -> None:
    found = asked(chunk, replace(chunk, chunk_id="bad", title="Services"), relevant=chunk.chunk_id)
    _, reasons, accuracy, _, score = verdict(found, context)
    assert [reason.partition(":")[0] for reason in reasons] == ["rank 2"]
    assert (accuracy, score) == (0.75, (0.75 + 0.5) / 2)  # two of two comparable fields, then one of two
    bare = verdict(asked("c", relevant="c"), make_context(required=("title", "module", "chapter", "tags")))
    assert len(bare[1]) == 3, "a chunk has at most three reasons"


BARE = candidates_of([replace(hit, score=None, scores={}) for hit in results("x")], no_cosine="it gives none")
UNSCORED = replace(asked("x", in_scope=False), candidates=BARE, selection=BARE)


@pytest.mark.parametrize(
    ("found", "top_k", "outcome", "reasons", "relevance"),
    [
        (asked(candidates=("x",), in_scope=False, min_results=3, expected_topics=["tea"]), 5, "SUCCESS", (), 1.0),
        (asked("x", "y", in_scope=False), 5, "FAILURE",
         ("out of scope, but chunks returned: 2 (best cosine 0.900)",), 0.0),
        (UNSCORED, 5, "FAILURE", ("out of scope, but chunks returned: 1",), 0.0),
        (asked("a", relevant="a", min_results=2), 5, "FAILURE", ("chunks returned: 1, expected at least 2",), 1.0),
        (asked("a", "x", relevant="a", min_results=2), 5, "SUCCESS", (), 0.5),
        (asked("x", relevant="a", candidates=("x", "y", "a")), 1, "FAILURE",
         ("no relevant chunk among the first 1; the first relevant one is candidate 3",), 0.0),
        (asked("x", relevant="a", candidates=("x", "y", "a")), 3, "FAILURE",
         ("no relevant chunk among the first 3; the threshold cut the first relevant one, candidate 3",), 0.0),
        (asked("x", relevant="a", candidates=("x", "y", "z", "v", "w", "a")), 9, "FAILURE",
         ("no relevant chunk among the first 5; the first relevant one is candidate 6",), 0.0),
        (asked("x", relevant="a", candidates=("x", "y")), 3, "FAILURE",
         ("no relevant chunk among the first 3; none among the 2 candidates either",), 0.0),
        (asked(*"xyzwa", relevant="a"), 9, "SUCCESS", (), 0.2),
        (asked(*"aa", relevant="a"), 9, "SUCCESS", (), 1.0),
        (asked("x", relevant_ids={}), 5, "UNLABELLED", (NO_LABELS.reason,), None),
    ],
)  # fmt: skip
def test_a_query_fails_for_what_it_returned_or_did_not(
    found: Observation, top_k: int, outcome: str, reasons: tuple[str, ...], relevance: float | None
) -> None:
    assert verdict(found, top_k=top_k) == (outcome, reasons, None, relevance, relevance)
    assert "threshold" not in str(verdict(found, top_k=top_k, group_by="title")), "a group may have taken its place"


RUN = (
    asked("a", relevant="a", id="one"),
    asked("a", relevant="a", id="two", expected_topics=["tea"]),
    asked("x", relevant="a", id="three"),
    asked(in_scope=False, id="four"),
    asked("a", relevant_ids={}, id="five"),
)


def test_partial_successes_count_as_failed_and_queries_without_labels_as_neither() -> None:
    report = validate(results_of(RUN), (), make_context(), RetrieverConfig())
    assert report.outcome == ("SUCCESS", "PARTIAL_SUCCESS", "FAILURE", "SUCCESS", "UNLABELLED")
    totals = Validation.of(report.outcome)
    assert (totals, totals.pass_rate, Validation.of(["UNLABELLED"]).pass_rate) == ((2, 2, 1), 0.5, None)
    assert scored("queries/pass_rate", RUN) == [1.0, 0.0, 0.0, 1.0, NO_LABELS]
    assert report.content_relevance == report.accuracy_score == (1.0, 1.0, 0.0, 1.0, None)
    assert report.time_ms == (1.0,) * 5, "that of the search that was scored"


def test_times_are_those_of_the_serial_calls() -> None:
    totals = {"one": (1.0, 3.0), "two": (5.0, 5.0), "three": (10.0, 20.0), "four": (2.0, 2.0)}
    times = [StageTimings(embed_ms=0.5, total_ms=totals[query][repeat]) for repeat in range(2) for query in totals]
    calls = tuple(zip((*totals, *totals), times, strict=True))
    assert validate(results_of(RUN[:4]), calls, make_context(), RetrieverConfig()).time_ms == (2.0, 5.0, 15.0, 2.0)


JUDGED = Judging(model="cohere:c", verdicts={}, scores={}, claims={})
STOPPED = replace(JUDGED, usage=Usage(stopped="the budget is spent"))
OUTSIDE = observe(results("a"), case=make_case("out", in_scope=False))
seen = partial(asked, relevant="a")
SILENT = observe((), case=make_case("out", in_scope=False))


def graded(found: Observation, **relevance: Any) -> Observation:
    return replace(found, relevance=Relevance(**relevance))


def asked_in(*queries: str) -> list[Observation]:
    english = "A topic is a named bus over which nodes exchange messages without knowing one another. " * 2
    [hit] = results("x")
    found = [replace(hit, chunk=replace(hit.chunk, text=english))]
    return [observe(found, {"a": 1}, case=make_case(f"q{n}", query=query)) for n, query in enumerate(queries)]


SETTINGS, DEEPER = RetrieverConfig(top_k=1, candidates=50), RetrieverConfig(top_k=3)
CUT = observe(results("b"), {"a": 1}, candidates=results("b", "a"))
QUOTED = asked("a", evidence=[{"source_url": "/docs/page", "quote": "text of a"}])
UNLISTED = graded(QUOTED, grades={"a": 1}, items=(frozenset("a"),), incomplete="cannot be listed")
OPEN, ANSWERED = seen("a", relevant_ids={}), seen("a", relevant_ids={}, reference_answer="So.")
USELESS = graded(seen("a", "b", "c"), grades={"a": 1}, irrelevant=frozenset("b"))
DEEP = ("ranking/hit_rate_at_1", "ranking/recall_at_10", "candidates/recall_at_100", "latency/total_p95_ms_c8")
LACKING = [graded(seen("a", id=f"q{n}"), grades={f"x{n}": 1, "a": 1}, missing=frozenset([f"x{n}"])) for n in range(4)]


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
    "unlisted": ([UNLISTED, OUTSIDE], {"listed": False}),
    "ids of none": ([seen("b", "c", relevant_ids={"x": 1, "y": 1, "z": 0}), OUTSIDE], {"listed": False}),
    "ids of some": ([seen("b", "x", relevant_ids={"x": 1}), OUTSIDE], {"listed": False}),
    "unreadable pages": ([seen("a"), OUTSIDE], {"sources": UNREADABLE}),
    "no judge": ([seen("a"), OUTSIDE], {"judging": None}),
    "a spent budget": ([seen("a"), OUTSIDE], {"judging": STOPPED}),
}


def notes_of(observations: Sequence[Observation], others: Mapping[str, Any]) -> list[str]:
    given = {"settings": SETTINGS, "metrics": (), "judging": JUDGED, "sources": None, "listed": True, **others}
    *read, judging = [given.pop(name) for name in ("settings", "metrics", "sources", "judging")]
    pool = replace(results_of(observations).lists.pool, texts={} if given.pop("listed") else None)
    observed = Observed(observations=tuple(observations), **given)
    return [*subject.notes(observed, pool, *read), *subject.on_judge(None, judging, ())]


def test_a_run_has_the_notes_that_its_figures_need(snapshot: SnapshotAssertion) -> None:
    assert {name: notes_of(*run) for name, run in RUNS.items()} == snapshot
