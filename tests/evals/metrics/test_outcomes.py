"""Whether each query was answered as it should be, and why not."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from evals.cases.pages import SourcePages
from evals.collect.observations import LatencyPass, Observation
from evals.metrics.declaration import NO_LABELS, Context
from evals.metrics.outcomes import FIRST, validate
from evals.stats import intervals as stats
from retrievers.records import Chunk, StageTimings
from tests.support.observed import make_case, make_chunk, make_context, observe, results
from tests.support.pages import read_pages, true_chunks
from tests.support.scored import results_of, scored

REQUIRED = ("title", "heading", "chunk_index")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return read_pages(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def context(sources: SourcePages) -> Context:
    return make_context(required=REQUIRED, sources=sources)


@pytest.fixture(scope="module")
def good(sources: SourcePages) -> Chunk:
    """A relevant chunk with all its metadata, true to its page."""
    return next(c for c in true_chunks(sources, "module-1/topics.md") if "publisher sends" in c.text)


def asked(*returned: Chunk | str, relevant: str = "", candidates: tuple[Any, ...] = (), **fields: Any) -> Observation:
    found = results(*returned)
    grades = {relevant: 1} if relevant else {}
    return observe(found, grades, candidates=results(*candidates) if candidates else found, case=make_case(**fields))


class Verdict(NamedTuple):
    """The verdict on one query."""

    outcome: str
    reasons: tuple[str, ...]
    metadata_accuracy: float | None
    content_relevance: float | None
    accuracy_score: float | None


def verdict(observation: Observation, context: Context, top_k: int = FIRST) -> Verdict:
    made = validate(results_of([observation]), None, context, top_k)
    columns = (made.outcomes, made.reasons, made.metadata_accuracy, made.content_relevance, made.accuracy_scores)
    [(outcome, reasons, metadata, relevance, accuracy)] = zip(*columns, strict=True)
    return Verdict(outcome, reasons, metadata, relevance, accuracy)


GONE = "rank 1: source page: 'gone.md' does not exist"


@pytest.mark.parametrize(
    ("change", "fields", "reason"),
    [
        ({}, {}, ""),
        ({}, {"expected_topics": ["publisher"], "source_url_pattern": "topics$"}, ""),
        ({"title": None}, {}, "rank 1: title: missing"),
        ({"title": "Services"}, {}, "rank 1: title: expected 'Topics' as in the page, got 'Services'"),
        ({"heading": "Topics"}, {}, "rank 1: heading: expected 'Publishers' as in the page, got 'Topics'"),
        ({"chunk_index": None, "problems": ("chunk_index: expected a whole number from 0, got 'x'",)}, {},
         "rank 1: chunk_index: expected a whole number from 0, got 'x'"),
        ({"file_path": "gone.md", "source_url": "/gone"}, {}, GONE),
        ({}, {"expected_topics": ["publisher", "tea", "cake", "milk"]},
         "only 25% of the expected topics occur: publisher, tea, cake, milk"),
        ({}, {"source_url_pattern": "services$"}, "no result from a page that matches 'services$'"),
    ],
)  # fmt: skip
def test_a_relevant_result_is_a_success_where_metadata_topics_and_pattern_hold_and_a_partial_one_else(
    good: Chunk, context: Context, change: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    found = verdict(asked(replace(good, **change), relevant=good.chunk_id, **fields), context)
    expected = ("PARTIAL_SUCCESS", (reason,)) if reason else ("SUCCESS", ())
    assert (found.outcome, found.reasons, found.content_relevance) == (*expected, 1.0)


def test_metadata_of_any_returned_chunk_counts_with_its_rank(good: Chunk, context: Context) -> None:
    found = verdict(asked(good, replace(good, chunk_id="bad", title="Services"), relevant=good.chunk_id), context)
    assert [reason.partition(":")[0] for reason in found.reasons] == ["rank 2"]
    assert found.metadata_accuracy == 0.75  # two of two comparable fields, then one of two
    assert found.accuracy_score == (0.75 + 0.5) / 2
    bare = verdict(asked(make_chunk("c"), relevant="c"), make_context(required=("title", "module", "chapter", "tags")))
    assert len(bare.reasons) == 3, "a chunk has at most three reasons"


def test_abstaining_is_right_out_of_scope_alone(context: Context) -> None:
    silent = verdict(asked(candidates=("x",), in_scope=False, min_results=3, expected_topics=["tea"]), context)
    assert silent == Verdict("SUCCESS", (), None, 1.0, 1.0)
    assert verdict(asked(relevant="a"), context) == Verdict(
        "FAILURE", ("returned 0 chunks, expected at least 1",), None, 0.0, 0.0
    )
    wrong = verdict(asked("x", "y", in_scope=False), make_context())
    assert wrong.reasons == ("out of scope, but 2 chunks were returned (best cosine 0.900)",)
    assert (wrong.outcome, wrong.content_relevance, wrong.accuracy_score) == ("FAILURE", 0.0, 0.0)


@pytest.mark.parametrize(
    ("candidates", "top_k", "where"),
    [
        (("x", "y", "a"), 1, "the first relevant one is candidate 3"),
        (("x", "y", "a"), 3, "the threshold cut the first relevant one, candidate 3"),
        (("x", "y", "z", "v", "w", "a"), 9, "the first relevant one is candidate 6"),
        (("x", "y"), 3, "none among the 2 candidates either"),
    ],
)
def test_nothing_relevant_says_where_it_was(candidates: tuple[str, ...], top_k: int, where: str) -> None:
    found = verdict(asked("x", relevant="a", candidates=candidates), make_context(), top_k)
    assert (found.outcome, found.reasons) == ("FAILURE", (f"no relevant chunk among the first 5; {where}",))


@pytest.mark.parametrize(
    ("returned", "expected"), [("", 0.0), ("a", 1.0), ("xa", 0.5), ("ab", 1.0), ("xyzwva", 0.0), ("aa", 1.0)]
)
def test_content_relevance_is_the_share_of_the_first_five(returned: str, expected: float) -> None:
    found = observe(results(*returned), {"a": 1, "b": 1})
    assert verdict(found, make_context()).content_relevance == expected


class TestReport:
    OBSERVATIONS = (
        asked("a", relevant="a", id="one"),
        asked("a", relevant="a", id="two", expected_topics=["tea"]),
        asked("x", relevant="a", id="three"),
        asked(in_scope=False, id="four"),
    )

    def test_partial_successes_count_as_failed(self) -> None:
        report = validate(results_of(self.OBSERVATIONS), None, make_context())
        assert report.outcomes == ("SUCCESS", "PARTIAL_SUCCESS", "FAILURE", "SUCCESS")
        assert (report.total, report.passed, report.failed, report.pass_rate) == (4, 2, 2, 0.5)
        assert scored("queries/pass_rate", self.OBSERVATIONS) == [1.0, 0.0, 0.0, 1.0]
        assert report.query_ids == ("one", "two", "three", "four")

    def test_times_are_those_of_the_serial_calls(self) -> None:
        totals = {"one": (1.0, 3.0), "two": (5.0, 5.0), "three": (10.0, 20.0), "four": (2.0, 2.0)}
        times = [StageTimings(embed_ms=0.5, total_ms=totals[query][repeat]) for repeat in range(2) for query in totals]
        calls = LatencyPass(concurrency=1, query_ids=(*totals, *totals), timings=tuple(times))
        report = validate(results_of(self.OBSERVATIONS), calls, make_context())
        assert report.times_ms == (2.0, 5.0, 15.0, 2.0)
        assert report.average_latency_ms == 6.0
        assert report.p95_latency_ms == stats.percentile([t for pair in totals.values() for t in pair], 0.95)

    def test_without_timed_calls_there_is_no_latency(self) -> None:
        report = validate(results_of(self.OBSERVATIONS[:1]), None, make_context())
        assert (report.average_latency_ms, report.p95_latency_ms) == (None, None)
        assert report.times_ms == (1.0,), "that of the search that was scored"


class TestWithoutLabels:
    def test_neither_right_nor_wrong(self, good: Chunk, context: Context) -> None:
        found = verdict(asked(good, relevant_ids={}), context)
        assert (found.outcome, found.content_relevance, found.accuracy_score) == ("UNLABELLED", None, 1.0)
        assert found.reasons == ("the query has no labels (evidence or relevant_ids)",)

    def test_left_out_of_the_rate(self, good: Chunk, context: Context) -> None:
        queries = [
            asked(good, relevant=good.chunk_id, case_id="right"),
            asked(good, relevant_ids={}, case_id="open"),
            asked(good, relevant="other", case_id="wrong"),
        ]
        totals = validate(results_of(queries), None, context)
        assert (totals.total, totals.passed, totals.failed, totals.unlabelled) == (3, 1, 1, 1)
        assert scored("queries/pass_rate", queries, context) == [1.0, NO_LABELS, 0.0]
        assert totals.pass_rate == 0.5
        assert validate(results_of(queries[1:2]), None, context).pass_rate is None
