"""The rows of the report, one a query."""

from evals.collect.observations import Observed, Unscored
from evals.grid.measure import Measured
from evals.report.model import FailedValue, QueryRow
from evals.report.rows import query_rows
from tests.support.results import RIGHT, observation, report, report_of, result, verdict, without_scores


def row(name: str, made: Measured | None = None) -> QueryRow:
    return next(one for one in report(made or result()).queries if one.id == name)


def test_a_row_says_what_was_returned_and_what_it_was_worth() -> None:
    found = row("right")
    assert [(hit.rank, hit.score, hit.chunk_id, hit.grade) for hit in found.retrieved] == [
        (1, 0.9, "a", 2),
        (2, 0.5, "b", 0),
    ]
    assert found.retrieved[0].model_dump() == {
        "rank": 1, "score": 0.9, "scale": "cosine", "scores": {"semantic": 0.9}, "chunk_id": "a", "grade": 2,
        "judge": None,
    }  # fmt: skip
    assert found.retrieved[0].chunk.model_dump() == {
        "source": "a.md:1-2", "breadcrumb": "m › Heading of a", "heading": "Heading of a", "text": "text of a",
    }  # fmt: skip
    assert (found.relevant, found.top_score, found.best_below_threshold) == ({"a": 2, "c": 1}, 0.9, [])


def test_where_nothing_was_returned_the_three_best_candidates_are_shown() -> None:
    found = row("empty")
    assert found.retrieved == []
    assert [hit.chunk_id for hit in found.best_below_threshold] == ["d1", "d2", "d3"]


def test_a_row_has_the_scores_of_the_metrics_that_are_over_it() -> None:
    assert row("wrong").scores == {"scope/abstention": 0.0}
    assert row("empty").scores == {
        "ranking/hit_rate_at_5": 0.0,
        "ragas/id_context_recall": FailedValue(failed="ValueError: no contexts"),
        "content/topic_match": Unscored(reason="the case names no topics"),
    }


def test_a_row_has_its_verdict() -> None:
    found = row("empty")
    assert found.outcome == "FAILURE"
    assert found.reasons == ["returned 0 chunks, expected at least 1", "and more", "and yet more"]
    assert (found.time_ms, found.metadata_accuracy, found.content_relevance) == (1.5, None, 0.0)


def test_rows_are_in_the_order_of_the_golden_data() -> None:
    assert [one.id for one in query_rows(result())] == ["right", "wrong", "empty"]


def test_scores_stand_by_metric_in_the_order_of_the_queries() -> None:
    unlabelled = {"unscored": "the case names no topics"}
    assert report(result()).plain()["scores"] == {
        "ranking/hit_rate_at_5": [1.0, None, 0.0],
        "ragas/id_context_recall": [0.5, None, {"failed": "ValueError: no contexts"}],
        "content/topic_match": [unlabelled, None, unlabelled],
        "scope/abstention": [None, 0.0, None],
    }


def test_what_a_retriever_without_scores_cannot_give_is_null() -> None:
    found = row("right", without_scores())
    assert [hit.score for hit in found.retrieved] == [None, None]
    assert (found.top_score, found.relevant, found.relevant_complete) == (None, {"a": 2, "c": 1}, False)
    assert row("right").relevant_complete


def test_the_first_relevant_candidate_is_named_though_the_cut_left_it_out() -> None:
    assert [one.first_relevant for one in query_rows(result())] == [1, None, 5]


def test_places_of_the_evidence_are_named_once_best_first() -> None:
    evidence = [
        {"source_url": "/docs/x", "heading": "Low", "grade": 1},
        {"source_url": "/docs/y", "quote": "q", "grade": 3},
        {"source_url": "/docs/y", "quote": "other", "grade": 2},
    ]
    asked = observation("q", RIGHT.selection, 2, {"a": 2}, evidence=evidence)
    made = result(observed=Observed(observations=(asked,)), validation=report_of([verdict("q", "SUCCESS")]))
    assert row("q", made).expected == ["/docs/y", "/docs/x › Low"]
