"""A result to its report: rows, columns, causes, slices, grid, judge; and whether the run passed."""

import json
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from math import nan
from typing import get_args

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from evals.collect.observations import Failure, Gate, LatencyPass, Summary, Unscored
from evals.grid.measure import Measured
from evals.grid.objective import describe
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.report.grid import grid_section
from evals.report.head import FLAGS, criteria_line, decided, deepest, headline, next_flags, tone, verdict
from evals.report.model import Cause, FailedValue
from evals.report.parsing import parse
from evals.report.sections import worst
from evals.run import load_config, parser
from retrievers.records import StageTimings
from retrievers.text.printable import json_text
from tests.support.grids import choice_of, swept_of, with_swept
from tests.support.judged import judging
from tests.support.results import UNLISTED, config, report, result, without_scores
from tests.support.sampled import sampled_result
from tests.support.stored_reports import stored

VALIDATOR = Draft202012Validator(json.loads(files("evals.report").joinpath("schema.json").read_text(encoding="utf-8")))


# Rows and columns


def test_a_row_says_what_was_asked_expected_and_returned_and_what_it_was_worth() -> None:
    timings = StageTimings(embed_ms=0.25, search_ms=1.5, total_ms=4.0)
    observed = replace(
        result().observed, latency=(LatencyPass(concurrency=1, query_ids=("right", "right"), timings=(timings,) * 2),)
    )
    right, wrong, empty = report(result(observed=observed)).queries
    assert (right.id, right.outcome, right.cause, right.in_scope) == ("right", "SUCCESS", "right", True)
    assert (right.first_relevant, right.top_score, right.relevant) == (1, 0.9, {"a": 2, "c": 1})
    assert right.stages_ms == {"embed": 0.25, "search": 1.5, "total": 4.0}
    first = right.retrieved[0]
    assert (first.rank, first.score, first.scale, first.grade) == (1, 0.9, "cosine", 2)
    assert (first.source, first.chunk.heading, first.preview) == ("a.md:1-2", "Heading of a", "text of a")
    assert (wrong.outcome, wrong.cause, wrong.first_relevant) == ("FAILURE", "wrongly answered", None)
    assert (empty.retrieved, [hit.rank for hit in empty.best_below_threshold]) == ([], [1, 2, 3])
    assert (empty.cause, empty.first_relevant, empty.reasons[1]) == ("nothing returned", 5, "and more")


def test_scores_stand_by_metric_in_the_order_of_the_queries_and_a_row_finds_its_own() -> None:
    made = report()
    assert made.scores["ranking/hit_rate_at_5"] == [1.0, None, 0.0]
    assert made.scores["ragas/id_context_recall"][2] == FailedValue(failed="ValueError: no contexts")
    assert made.queries[0].scores["content/topic_match"] == Unscored(reason="the case names no topics")
    assert "scope/abstention" not in made.queries[0].scores and made.queries[1].scores["scope/abstention"] == 0.0


def test_what_a_retriever_without_scores_cannot_give_is_null_and_every_file_follows_the_schema(grid: Measured) -> None:
    bare = report(without_scores(), UNLISTED)
    assert (bare.facts.collection, bare.queries[0].top_score, bare.queries[0].retrieved[0].score) == (None, None, None)
    for made in (bare, report(), report(grid), report(sampled_result()), stored("run"), stored("judged")):
        plain = made.plain()
        VALIDATOR.validate(plain)
        read = parse(json.dumps(plain), "r")
        assert read.plain() == plain and ("grid" in plain) == (made.grid is not None)


def test_the_worst_are_failures_first_then_by_what_was_right_then_the_most_confident() -> None:
    rows = {row.id: row for row in report().queries}
    assert [row.id for row in worst(rows.values())] == ["wrong", "empty"]
    poor = rows["right"].model_copy(update={"id": "poor", "outcome": "UNLABELLED", "content_relevance": None})
    poor._scores = {"ragas/llm_context_precision": 0.25}
    fine = poor.model_copy(update={"id": "fine"})
    fine._scores = {"ragas/llm_context_precision": 0.75}
    assert [row.id for row in worst([fine, poor, *rows.values()])] == ["wrong", "empty", "poor"]


# Judge, slices


def test_verdicts_stand_at_their_chunks_and_the_judge_in_a_section_of_its_own() -> None:
    said = judging(
        verdicts={
            ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
            ("right", "b"): Failure(type="JudgeError", message="no answer"),
            ("wrong", "b"): Unscored(reason="the budget is spent"),
        },
        claims={("right", ("a", "b")): (Claim(statement="It turns.", attributed=1, reason="so"),)},
    )
    made = report(result(judging=said))
    (first, second), (third,) = made.queries[0].retrieved, made.queries[1].retrieved
    assert (first.verdict, second.verdict, third.verdict) == (1, None, None)
    assert (first.said, second.said, third.said) == ("It helps.", "JudgeError: no answer", "the budget is spent")
    assert [claim.statement for claim in made.queries[0].claims] == ["It turns."]
    assert made.judge and made.judge.drawn is None
    assert made.judge.lines == ["cohere:command: 0 calls, 0 cached, 0 tokens"]
    assert report().judge is None


def test_slices_are_the_types_and_the_tags_of_three_queries_with_interval_and_n() -> None:
    observations = tuple(
        replace(one, case=one.case.model_copy(update={"query_type": kind, "tags": ("all", kind)}))
        for one, kind in zip(result().observed.observations, ("a", "b", "a"), strict=True)
    )
    made = report(result(observed=replace(result().observed, observations=observations)))
    assert [(one.by, one.name, one.n) for one in made.slices] == [
        ("query_type", "a", 2), ("query_type", "b", 1), ("tag", "all", 3),
    ]  # fmt: skip
    of_a = made.slices[0].metrics
    assert (of_a["ranking/hit_rate_at_5"].value, of_a["ranking/hit_rate_at_5"].n) == (0.5, 2)
    assert (of_a["queries/pass_rate"].value, of_a["ragas/id_context_recall"].n_failed) == (0.5, 1)
    assert "scope/abstention" not in of_a and made.slices[1].metrics["scope/abstention"].value == 0.0


def test_slices_of_a_judged_sample_are_corrected_with_the_weight_of_the_whole() -> None:
    made = sampled_result()
    of_type = {one.name: one.metrics["ragas/llm_context_precision"] for one in report(made).slices}
    whole = made.summaries[0].sampled
    assert whole and of_type["factual"].sampled and of_type["factual"].sampled.weight == whole.weight
    assert of_type["factual"].n == 12 and of_type["factual"].sampled.queries == 30


# A grid


def test_a_grid_stands_by_columns_with_its_choice_and_the_recommended_cell(grid: Measured) -> None:
    swept, section = swept_of(grid), report(grid).grid
    assert section and section.chosen == choice_of(grid).recommended.cell
    assert section.cells.count == len(section.cells.index) == 100
    for name, scores in swept.grid.metrics.items():
        expected = [None if np.isnan(mean) else mean for mean in scores.mean.tolist()]
        assert section.metrics[name].mean == expected
    cell = swept.grid.cell(57)
    assert section.configurations[section.cells.configuration[57]].name in describe(swept.grid, 57)
    assert (section.cells.top_k[57], section.cells.threshold[57]) == (cell.top_k, cell.threshold)
    assert section.ranking.metrics == dict(swept.ranking.weights) and section.ranking.order == list(swept.ranking.order)


def test_of_too_many_cells_the_best_are_reported_and_the_recommended_one_in_any_case(grid: Measured) -> None:
    section = grid_section(swept_of(grid), most=3)
    assert section.cells.count == 100 and len(section.cells.index) == 3 and section.chosen in section.cells.index
    assert {one.cell for one in section.choice.standings} <= {*section.cells.index}  # type: ignore[union-attr]
    assert all(len(metric.mean) == 3 for metric in section.metrics.values())


def test_cells_that_are_not_ranked_leave_the_run_incomplete(grid: Measured) -> None:
    ranking = replace(swept_of(grid).ranking, order=(), reason="no cell meets the constraints")
    made = report(with_swept(grid, choice=None, ranking=ranking))
    assert made.grid and made.grid.choice is None and made.grid.explanation[0].endswith(ranking.reason)
    assert not made.passed and made.incomplete.startswith("the cells are not ranked")


# Did it pass


def test_a_run_passed_when_all_criteria_are_met_and_nothing_is_missing() -> None:
    met = Gate(metric="ranking/hit_rate_at_5", condition=">= 0.4", figure=0.5, passed=True, reason="")
    made = report(result(gates=(met,)))
    assert (made.passed, made.incomplete, tone(made)) == (True, "", "fair")  # one of three queries passes
    assert not report().passed  # one criterion of two is not met
    changed = made.facts.model_copy(update={"collection_changed": "5 → 4 points"})
    after = decided(made.model_copy(update={"facts": changed}))
    assert not after.passed and "5 → 4 points" in after.incomplete and tone(after) == "bad"
    failed = Summary(metric="ranking/hit_rate_at_5", value=0.5, n=11, n_failed=5, note="5 of 16")
    broken = decided(made.model_copy(update={"metrics": {"ranking/hit_rate_at_5": failed}}))
    assert not broken.passed and "5 of 16 failed" in broken.incomplete


@pytest.mark.parametrize(
    ("own", "baseline", "incomplete", "said"),
    [
        ([], [], "", "No criteria to meet."),
        ([True, True], [], "", "All 2 criteria are met."),
        ([True, False], [], "", "1 of 2 criteria are not met."),
        ([], [True] * 3, "", "No worse than the baseline in 3 metrics."),
        ([True], [True, False], "", "Worse than the baseline in 1 of 2 metrics. All 1 criteria are met."),
        ([True], [True], "gone", "Incomplete: gone."),
    ],
)
def test_the_criteria_in_a_sentence(own: list[bool], baseline: list[bool], incomplete: str, said: str) -> None:
    gates = [Gate(metric="m", condition=">= 1", figure=1.0, passed=one, reason="") for one in own]
    gates += [Gate(metric="m", condition="no worse", figure=1.0, passed=one, reason="") for one in baseline]
    assert criteria_line(report().model_copy(update={"criteria": gates, "incomplete": incomplete})) == said


@pytest.mark.parametrize("flags", sorted({*FLAGS.values()}))
def test_every_suggestion_is_a_command_that_is_taken(flags: str) -> None:
    assert load_config(parser().parse_args(flags.split()), {})


def test_the_next_run_mends_the_main_cause_of_failure_and_of_a_grid_it_is_the_recommended_cell(grid: Measured) -> None:
    failing: Counter[Cause] = Counter({"not a candidate": 1, "ranked too low": 2})
    assert "main cause of failure: ranked too low (2 of 3)" in verdict(result(), failing)
    assert next_flags(result(), "ranked too low") == FLAGS["ranked too low"]
    assert next_flags(result(), "ranked too low", sparse_vectors=()) == "--sweep.top-k 3,5,10"
    own = result(config=config(python="mine:make"))
    assert next_flags(own, "ranked too low") == next_flags(result(), None) == "--html report.html"
    chosen = swept_of(grid).grid.cell(choice_of(grid).recommended.cell)
    assert f"--retriever.top-k {chosen.top_k}" in next_flags(grid, "ranked too low")
    assert set(FLAGS) <= set(get_args(Cause))


def test_the_headline_has_a_ranking_metric_at_the_deepest_that_all_runs_have() -> None:
    names = ["ranking/hit_rate_at_1", "ranking/hit_rate_at_5", "ranking/hit_rate_at_10", "scope/false_answer"]
    assert "ranking/hit_rate_at_10" in headline(names) and "ranking/hit_rate_at_5" not in headline(names)
    assert "ranking/hit_rate_at_5" in headline(names, names[:2])
    assert deepest("ranking/hit_rate_at_K", names, names[:2]) == "ranking/hit_rate_at_5"


def test_a_value_that_is_no_number_never_reaches_a_file() -> None:
    made = report(result(summaries=(Summary(metric="ranking/hit_rate_at_5", value=nan),)))
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text(made.plain())
