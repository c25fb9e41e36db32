"""A result to its report: rows, judge, cells of a grid, did it pass; and its file: its schema says what is read."""

import copy
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from evals.collect.observations import Failure, Gate, Score, Summary, Unscored
from evals.config.experiment import ThresholdConfig
from evals.errors import ReportError
from evals.grid.measure import Measured
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics import PASS_RATE
from evals.report.head import conclusion, criteria_line, decided, next_flags, tone
from evals.report.model import Cause, Facts, GridSection, RagasCheck, ResultsByCell
from evals.report.parsing import cell_report, parse
from evals.report.sections import worst
from evals.run import load_config, parser
from retrievers.records import StageTimings
from tests.support import reports
from tests.support.command import refusal
from tests.support.judged import judging
from tests.support.observed import candidates_of
from tests.support.recipes import follow, run
from tests.support.reports import closed
from tests.support.results import EMPTY, FACTS, RIGHT, WRONG, config, report, result, sampled_result

ROOT = Path(__file__).parents[3]
PUBLISHED: dict[str, Any] = json.loads((ROOT / "evals" / "report" / "schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(PUBLISHED)
HIT_RATE = "ranking/hit_rate_at_5"
LLM = "ragas/llm_context_precision"


def judged_run() -> Measured:
    said = judging(
        verdicts={
            ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
            ("right", "b"): Failure(failed="JudgeError: no answer"),
            ("wrong", "b"): Unscored(reason="the budget is spent"),
        },
        claims={("right", ("a", "b")): (Claim(statement="It turns.", attributed=1, reason="so"),)},
    )
    kinds = zip((RIGHT, WRONG, EMPTY), "aba", strict=True)
    own = [replace(o, case=o.case.model_copy(update={"query_type": kind, "tags": ("all", kind)})) for o, kind in kinds]
    made = result(*own, judging=said)
    failed: dict[str, Score] = {"right": 0.5, "empty": Failure(failed="ValueError: no contexts")}
    calls = (("right", StageTimings(embed_ms=0.25, search_ms=1.5, total_ms=4.0)),) * 2
    latency = dict.fromkeys((4, 1), calls)
    observed, scores = replace(made.observed, latency=latency), {**made.scores, "ragas/id_context_recall": failed}
    return replace(made, observed=observed, scores=scores)


UNLISTED = {"retriever": "Bm25", "embedding": None, "collection": None}


def unlisted_run() -> Measured:
    bare = [replace(one, score=None, score_scale="none", scores={}) for one in RIGHT.candidates]
    known = candidates_of(bare, no_cosine="it gives no scores")
    relevance = replace(RIGHT.relevance, incomplete="cannot be listed")
    observed = replace(RIGHT, candidates=known, selection=known.at(range(2)), relevance=relevance)
    return result(observed, config=config(python="mine:make"))


@pytest.mark.parametrize(
    ("make", "known", "parts"),
    [
        pytest.param(judged_run, FACTS, ("queries", "scores", "slices", "judge"), id="judged"),
        pytest.param(unlisted_run, FACTS.model_copy(update=UNLISTED), ("facts", "settings"), id="without scores"),
        pytest.param(sampled_result, FACTS, ("slices", "metrics"), id="sampled"),
    ],
)
def test_what_a_report_has_of_a_run(make: Any, known: Facts, parts: Sequence[str], snapshot: SnapshotAssertion) -> None:
    plain = report(make(), known).plain()
    text = json.dumps({part: plain[part] for part in parts})  # the last digits are the libraries' and the machine's
    assert json.loads(text, parse_float=lambda digits: float(f"{float(digits):.9g}")) == snapshot


def test_every_report_follows_the_schema_and_is_read_back_the_same(grid: Any) -> None:
    unlisted = report(unlisted_run(), FACTS.model_copy(update=UNLISTED))
    runs = (report(), report(judged_run()), unlisted, report(sampled_result()))
    for made in (*runs, report(grid)):
        plain = made.plain()
        VALIDATOR.validate(plain)
        assert parse(json.dumps(plain), "r").plain() == plain and (plain["grid"] is None) == (made.grid is None)


def test_the_worst_are_failures_first_then_by_what_was_right_then_the_most_confident() -> None:
    unlabelled = {"outcome": "UNLABELLED", "content_relevance": None}
    rows = [
        {"id": "fine by the judge", **unlabelled},
        {"id": "poor by the judge", **unlabelled},
        {"id": "half right", "content_relevance": 0.5},
        {"id": "nothing", "content_relevance": 0.0, "retrieved": []},
        {"id": "confident", "content_relevance": 0.0},
        {"id": "right", "outcome": "SUCCESS"},
    ]
    found = [row.id for row in worst(reports.report({LLM: [0.75, 0.25, None, None, None, None]}, rows=rows).queries, 5)]
    assert found == ["confident", "nothing", "half right", "poor by the judge"]


def test_met_criteria_alone_are_no_praise_and_a_run_that_is_incomplete_never_passes() -> None:
    made = report(result(gates=(Gate(metric=HIT_RATE, condition=">= 0.4", figure=0.5, passed=True, reason=""),)))
    assert (made.passed, made.incomplete, tone(made)) == (True, "", "fair")  # one of three queries passes
    failed = Summary(metric=HIT_RATE, value=0.5, n=11, n_failed=5)
    broken = decided(made.model_copy(update={"metrics": {HIT_RATE: failed}}))
    assert (broken.passed, tone(broken)) == (False, "bad") and "5 of 16 failed" in broken.incomplete
    by_ragas = RagasCheck(status="differs", line="ragas scores 1 of 3 otherwise")
    differing = decided(made.model_copy(update={"ragas_check": by_ragas}))
    assert (differing.passed, differing.incomplete) == (False, by_ragas.line)


def test_the_criteria_in_a_sentence(snapshot: SnapshotAssertion) -> None:
    told = []
    for own, baseline, incomplete in (
        ([], [], ""), ([True, False, None], [], ""), ([], [True] * 3, ""), ([True], [True, False], ""),
        ([True], [True], "gone"), ([True] * 2, [], ""), ([True] * 3, [], ""),
    ):  # fmt: skip
        gate = partial(Gate, metric="m", figure=1.0, reason="")
        gates = [gate(condition=">= 1", passed=one is True, undecided=one is None) for one in own]
        gates += [gate(condition="no worse", passed=one) for one in baseline]
        told.append(criteria_line(report().model_copy(update={"criteria": gates, "incomplete": incomplete})))
    assert told == snapshot


def test_the_next_run_is_a_grid_and_after_a_grid_its_recommended_cell(grid: Any) -> None:
    failing: Counter[Cause] = Counter({"not a candidate": 1, "ranked too low": 2})
    assert "main cause of failure: ranked too low (2 of 3)" in conclusion(result(), failing)

    def proposed(**changes: Any) -> str:
        flags = next_flags(replace(result(), config=config(**{"candidates": 100} | changes)), "ranked too low")
        assert load_config(parser().parse_args(flags.split()), {})
        return flags

    axes = "--sweep.mode semantic,hybrid --sweep.top-k 1:20"
    assert proposed(threshold=0.1) == f"{axes} --sweep.threshold-on each,best --sweep.threshold 0:0.9:0.03"
    assert proposed(threshold=0.1, threshold_on="best") == f"{axes} --sweep.threshold 0:0.9:0.03"
    assert " --sweep.top-k 1:7 " in proposed(candidates=7)
    without = next_flags(result(RIGHT, config=config(threshold=None)), "ranked too low")
    assert without == "--sweep.mode semantic,hybrid --sweep.top-k 1:5", "no query is out of scope"
    assert proposed(mode="keyword", top_k=30).startswith("--sweep.mode keyword,hybrid --sweep.top-k 1:30")
    assert proposed(mode="hybrid", threshold_signal="bm25").startswith("--sweep.top-k 1:20"), "which semantic lacks"
    assert next_flags(result(), "ranked too low", sparse_vectors=()).startswith("--sweep.top-k 1:5")
    assert next_flags(judged_run(), "ranked too low").endswith(" --judge.model null"), "free"
    paid = config().model_copy(update={"criteria": {"ragas/llm_context_recall": ">= 0.5"}})
    assert next_flags(replace(judged_run(), config=paid), "ranked too low").endswith(" --plan"), "a judge is paid"
    halves = replace(result(), splits=("dev", "test"))
    assert next_flags(halves, "ranked too low").startswith("--dataset.split dev --sweep.mode"), "test is for later"
    own = result(config=config(python="mine:make"))
    assert next_flags(own, "ranked too low") == next_flags(result(), None) == "--html report.html"
    assert proposed(python="mine:make", threshold=0.1) == "--sweep.top-k 1:20 --sweep.threshold 0:0.9:0.03"
    promised = config(threshold=0.1).model_copy(update={"threshold": ThresholdConfig(false_answer=0.5)})
    assert next_flags(replace(result(), config=promised), "wrongly answered") == "--html report.html", "it is settled"
    assert next_flags(result(WRONG), "wrongly answered") == "--html report.html", "no cell could be ranked"
    chosen = grid.swept.grid.cell(grid.swept.choice.recommended.cell)
    assert f"--retriever.top-k {chosen.top_k}" in next_flags(grid, "ranked too low")


def section_of(made: Any) -> tuple[GridSection, ResultsByCell]:
    section = report(made).grid
    assert section is not None and section.results is not None
    return section, section.results


def test_a_cell_of_a_saved_grid_is_a_run_of_its_own(grid: Any) -> None:
    made, (section, _), cells = report(grid), section_of(grid), grid.swept.grid
    names = section.addresses
    assert len({*names}) == len(names) == len(section.cells)
    for name, scores in cells.metrics.items():
        assert section.metrics[name].mean == [None if isnan(mean) else mean for mean in scores.mean.tolist()]
    for number in range(0, len(cells), 9):
        alone, results = cell_report(made, names[number]), cells.results(number)
        passes = PASS_RATE.values(results, grid.context).values
        for row, observation, passed in zip(alone.queries, results.observations(), passes, strict=True):
            assert tuple(hit.chunk_id for hit in row.retrieved) == observation.ranked_ids
            assert all(hit.chunk.source for hit in row.retrieved)
            assert (row.outcome == "SUCCESS") == (passed == 1)
        for name, metric in alone.metrics.items():
            assert metric.value == pytest.approx(section.metrics[name].mean[number], abs=1e-12)
        cell, settings = cells.cell(number), alone.config["retriever"]
        assert (settings["top_k"], settings["threshold"]) == (cell.top_k, cell.threshold)


@pytest.mark.parametrize("name", ["", "k99-t0.3", "semantic"])
def test_a_cell_that_is_not_there_is_refused_with_one_that_is(grid: Any, name: str) -> None:
    with pytest.raises(ReportError, match="expected one such as"):
        cell_report(report(grid), name)
    with pytest.raises(ReportError, match="no results by cell"):
        cell_report(report(), name)


def test_bands_hold_the_figures_and_open_with_fewer_queries(grid: Any) -> None:
    section, found = section_of(grid)
    shown = {"found": found.gain} | {
        name: section.metrics[name].mean for name in ("scope/false_answer", "scope/false_abstention")
    }
    assert found.bands.keys() == shown.keys()
    for name, (low, high) in found.bands.items():
        for least, figure, most in zip(low, shown[name], high, strict=True):
            assert figure is not None and 0 <= least <= figure + 1e-12 and figure - 1e-12 <= most <= 1
            assert most - least > 0.2  # eleven queries say little of all cells at once


GENERATE_AND_BUILD = """
import json, runpy
from tests.support.results import report
runpy.run_path(".ci/schema.py", run_name="__main__")
print(json.dumps(report().plain()))
"""
SMALL = json.loads(json.dumps(reports.document({reports.NDCG: [0.5, "failed"]}, {reports.P95: 1.5})))


def test_every_object_and_property_is_described_and_a_run_writes_nothing_else() -> None:
    Draft202012Validator.check_schema(PUBLISHED)
    found = [one for one in (PUBLISHED, *PUBLISHED["$defs"].values()) if "properties" in one]
    assert json.dumps(PUBLISHED).count('"properties": {') == len(found) >= 10
    for one in (PUBLISHED, *PUBLISHED["$defs"].values()):
        assert one["description"]
    for one in found:
        assert [name for name, inner in one["properties"].items() if not inner.get("description")] == []
    Draft202012Validator(closed(PUBLISHED)).validate(report().plain())


def test_a_reader_ignores_what_it_does_not_know_and_does_without_what_may_be_absent() -> None:
    later = {**SMALL, "pages": {"seen": 400}, "facts": {**SMALL["facts"], "mood": "good"}}
    VALIDATOR.validate(later)
    assert parse(json.dumps(later), "r") == parse(json.dumps(SMALL), "r")
    without = copy.deepcopy(SMALL)
    del without["facts"]["collection"], without["facts"]["duration_s"], without["queries"][0]["fingerprint"]
    VALIDATOR.validate(without)
    assert parse(json.dumps(without), "r").facts.collection is None


def paths(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*place, key)
        yield from paths(inner, (*place, key))


@given(
    st.sampled_from([path for path in paths(SMALL) if path[0] not in ("schema_version", "config")]),
    st.sampled_from(["delete", None, "x", -1, 0.5, True, [], {}, [1], {"a": 1}, {"unscored": "why"}]),
)
def test_schema_and_reader_refuse_the_same(path: tuple[Any, ...], value: Any) -> None:
    changed = copy.deepcopy(SMALL)
    *parents, last = path
    # How many queries and scores there are is compared, which no schema can say.
    assume(path[0] not in ("scores", "proxies") and (path[0] != "queries" or len(path) > 2))
    node = changed
    for key in parents:
        node = node[key]
    if value == "delete":
        del node[last]
    else:
        node[last] = value
    with nullcontext() if VALIDATOR.is_valid(changed) else pytest.raises(ReportError):
        parse(json.dumps(changed), "r")


NO_REPORTS = (
    "null", '{"schema_version": 1}', '{"schema_version": true}', '{"schema_version": 2}',
    json.dumps(SMALL | {"config": {"tracking": "x"}}), json.dumps(SMALL | {"queries": SMALL["queries"] * 2}),
)  # fmt: skip


def test_what_is_no_report_is_refused_with_its_place(snapshot: SnapshotAssertion) -> None:
    assert [refusal(ReportError, parse, text, "r.json") for text in NO_REPORTS] == snapshot


@pytest.mark.slow
def test_a_field_that_is_added_by_the_recipe_of_contributing_is_in_report_and_schema(tmp_path: Path) -> None:
    assert len(follow("Add a report field", tmp_path, ("evals", "tests/support", "docs", ".ci"))) == 2
    done = run(tmp_path, "-c", GENERATE_AND_BUILD)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["queries"][0]
    assert (first["query"], first["words"]) == ("query right", 2)
    schema = json.loads((tmp_path / "evals/report/schema.json").read_text(encoding="utf-8"))
    words = schema["$defs"]["QueryRow"]["properties"]["words"]
    assert (words["type"], words["description"]) == ("integer", "number of words of the query")
