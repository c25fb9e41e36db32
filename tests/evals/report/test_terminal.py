from dataclasses import replace
from typing import Any

import pytest

from evals.collect.observations import Summary
from evals.grid.measure import Measured
from evals.report.description import description
from evals.report.html import render_page
from evals.report.model import Facts
from evals.report.terminal import render
from evals.report.text import figure
from tests.support.candidates import candidates_of
from tests.support.results import (
    FACTS,
    GATES,
    RIGHT,
    UNLISTED,
    config,
    facts,
    hit,
    observation,
    report,
    report_of,
    result,
    verdict,
    without_scores,
)


def shown(made: Measured, known: Facts = FACTS, **options: Any) -> str:
    return render(report(made, known), width=120, color=False, **options)


def line(text: str, start: str) -> str:
    return next(one.rstrip() for one in text.split("\n") if one.strip().startswith(start))


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("ranking/mrr_at_10", 0.12349, "0.123"),
        ("ranking/mrr_at_10", 1.0, "1.000"),
        ("ranking/mrr_at_10", None, "–"),
        ("latency/total_p95_ms", 1234.56, "1,234.6"),
        ("latency/total_p95_ms_c4", 0.04, "0.0"),
        ("latency/drift", -0.0104, "-0.010"),
        ("cost/context_tokens", 379.66, "379.7"),
        ("cost/judge_calls", 1234.0, "1,234"),
        ("cost/judge_usd", 0.03126, "0.0313"),
    ],
)
def test_a_figure_is_rounded_by_what_it_measures(metric: str, value: float | None, text: str) -> None:
    assert figure(metric, value) == text


def test_the_head_says_what_ran() -> None:
    text = shown(result())
    assert "by hand · 2 in scope, 1 out of scope · robots (1,234 chunks)" in text
    assert "semantic · top_k 3 · threshold 0.3 · candidates 5 · wordllama:l2" in text
    assert "Note: one thing to know" in text


def test_a_metric_has_value_interval_n_criterion_and_outcome() -> None:
    text = shown(result())
    assert line(text, "ranking/hit_rate_at_5").split() == [
        "ranking/hit_rate_at_5", "0.500", "0.095", "…", "0.905", "2", ">=", "0.4", "pass",
    ]  # fmt: skip
    assert line(text, "latency/total_p95_ms").split() == [
        "latency/total_p95_ms", "1,234.6", "1,000.0", "…", "1,500.0", "6",
    ]  # fmt: skip
    assert line(text, "content/topic_match").split() == ["content/topic_match", "–", "–", "0", ">=", "0.4", "FAIL"]
    assert "  content/topic_match: the case names no topics\n" in text


def test_failures_and_their_bounds_stand_beside_the_mean() -> None:
    assert "  ragas/id_context_recall: 1 failed, 0.250 … 0.750\n" in shown(result())


def test_unscored_queries_are_counted_where_there_is_a_value() -> None:
    made = result(summaries=[Summary(metric="metadata/accuracy", value=1.0, n=2, n_unscored=3)])
    assert "metadata/accuracy: " not in shown(made)
    assert "  metadata/accuracy: 3 unscored\n" in shown(made, everything=True)


def test_only_the_telling_metrics_are_shown_unless_all_are_wanted() -> None:
    made = result()
    assert "ranking/precision_at_3" not in shown(made)
    assert "ranking/precision_at_3" in shown(made, everything=True)
    gate = replace(GATES[0], metric="ranking/precision_at_3")
    assert "ranking/precision_at_3" in shown(result(gates=[gate]))


def test_the_worst_queries_with_what_came_instead_and_what_was_expected() -> None:
    text = shown(result(), everything=True)
    assert "The 2 worst queries" in text
    assert text.index("wrong query wrong") < text.index("empty query empty")
    assert "out of scope, but 1 chunk was returned" in text
    assert "1. cosine 0.800   b.md:1-2  text of b" in text
    assert "and more" in text
    assert "and yet more" not in text


def test_relevant_results_are_marked_and_expected_places_named_once_best_first() -> None:
    evidence = [
        {"source_url": "/docs/x", "heading": "Low", "grade": 1},
        {"source_url": "/docs/y", "quote": "q", "grade": 3},
        {"source_url": "/docs/y", "quote": "other", "grade": 2},
    ]
    partial = observation("right", RIGHT.selection, 2, {"a": 2}, evidence=evidence)
    made = result(
        observed=replace(result().observed, observations=(partial,)),
        validation=report_of([verdict("right", "PARTIAL_SUCCESS", "rank 1: title: missing")]),
    )
    text = shown(made, everything=True)
    assert "The worst query" in text
    assert "1. cosine 0.900 ✓ a.md:1-2" in text
    assert "2. cosine 0.500   b.md:2-3" in text
    assert [one.strip() for one in text.split("\n") if "expected" in one] == [
        "expected /docs/y",
        "expected /docs/x › Low",
    ]


def test_when_all_is_well_no_worst_queries_are_shown() -> None:
    made = result(
        observed=replace(result().observed, observations=(RIGHT,)),
        validation=report_of([verdict("right", "SUCCESS", relevance=1.0)]),
        gates=GATES[:1],
    )
    text = shown(made)
    assert "worst" not in text
    assert text.startswith("1 of 1 queries pass (100%): hit rate 0.500. All 1 criteria are met.\n")


def test_criteria_that_are_not_met_are_listed_with_what_was_got() -> None:
    text = shown(result())
    assert "1 of 2 criteria are not met." in " ".join(text.split())
    assert "  FAIL content/topic_match >= 0.4, got – (no value: no topics)" in text
    assert "No criteria to meet." in shown(result(gates=()))


def test_text_from_outside_is_never_taken_for_markup() -> None:
    odd = observation("[red]id[/red]", [hit(1, 0.9, "x", heading="[/nope]", file_path="[b].md")], 1, query="[bold]q[/]")
    made = result(
        config=config("[/run]", mode="semantic"),
        observed=replace(result().observed, observations=(odd,)),
        validation=report_of([verdict("[red]id[/red]", "FAILURE", "[/reason]")]),
        notes=("[/note]",),
    )
    text = shown(made, facts(embedding="python:[x]:[/y]"))
    for piece in (
        "[/run]",
        "python:[x]:[/y]",
        "[red]id[/red] [bold]q[/]",
        "[/reason]",
        "[b].md:1-2",
        "[/note]",
    ):
        assert piece in text


def test_colour_only_where_it_is_asked_for() -> None:
    assert "\x1b[" not in shown(result())
    assert "\x1b[" in render(report(), width=120, color=True)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = render(report(), width=width, color=False, everything=True)
    assert max(len(one.rstrip()) for one in text.split("\n")) <= width


def test_a_retriever_without_scores_and_collection_is_shown_as_such() -> None:
    text = shown(without_scores(), UNLISTED)
    assert "2 in scope, 1 out of scope · a retriever whose chunks cannot be listed" in text
    assert line(text, "python").strip() == "python mine:make (Bm25) · top_k 3 · no threshold · candidates 5"
    assert "1.   –     b.md:1-2  text of b" in text
    assert "threshold 0" not in text and "None" not in text


@pytest.mark.parametrize(
    ("settings", "head"),
    [
        ({"mode": "semantic", "fusion": "weighted", "rerank": "none"}, "semantic · top_k 3"),
        ({"mode": "semantic", "fusion": "weighted", "rerank": "mmr"}, "semantic · rerank mmr · top_k 3"),
        ({"mode": "keyword", "fusion": "rrf", "rerank": "cross-encoder"}, "keyword · rerank cross-encoder · top_k 3"),
        ({"mode": "hybrid", "fusion": "weighted", "rerank": "none"}, "hybrid · fusion weighted · top_k 3"),
        ({"mode": "hybrid", "fusion": "weighted", "rerank": "rrf"}, "hybrid · fusion rrf · top_k 3"),
        ({"mode": "hybrid", "fusion": "dbsf", "rerank": "mmr"}, "hybrid · fusion dbsf · rerank mmr · top_k 3"),
    ],
)
def test_fusion_and_reranker_are_named_where_they_are_in_force(settings: dict[str, str], head: str) -> None:
    made = report(result(config=config(**settings, threshold=0.25)))
    assert f"\n{head} · threshold 0.25 · candidates 5" in render(made, width=120, color=False)
    assert f"{head} · threshold 0.25 · candidates 5" in description(made)
    assert head in render_page(made)


def test_of_a_users_store_the_collection_and_the_threshold_are_shown() -> None:
    made = result(config=config(python="mine:make", threshold=0.25))
    known = facts(retriever="QdrantVectorStore", embedding="CohereEmbeddings")
    text = shown(made, known)
    assert "robots (1,234 chunks)" in text
    head = "python mine:make (QdrantVectorStore) · top_k 3 · threshold 0.25 · candidates 5 · CohereEmbeddings"
    assert head in text
    assert head in description(report(made, known))


def test_caches_are_named_where_some_were_asked() -> None:
    warm = replace(RIGHT, candidates=candidates_of(RIGHT.candidates, cache={"embedding": "hit"}))
    made = result(observed=replace(result().observed, observations=(warm, *result().observed.observations[1:])))
    assert line(shown(made), "From caches") == "From caches: query vectors 1 of 1 (100%)"
    assert "From caches" not in shown(result())
