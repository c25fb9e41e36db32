"""A metric of the user's own: one more row, from the function to report, grid, criteria and comparison."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import date
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from pydantic import ValidationError

from evals import Experiment, Outputs, compare_runs, evaluate, metric, sweep
from evals.cases.case import Case
from evals.collect.observations import Failure, Unscored
from evals.errors import ExperimentError
from evals.metrics import OWN
from evals.metrics.declaration import own_metric
from evals.run import main
from retrievers.errors import ConfigError
from retrievers.records import Chunk
from tests.support.command import Done
from tests.support.experiment import load_report, make_experiment
from tests.support.observed import observe, results, scored

HERE = "tests.evals.metrics.test_own"
ROWS: list[dict[str, Any]] = [
    {"id": "one", "query": "one", "relevant_ids": {"x": 1}},
    {"id": "two", "query": "two", "relevant_ids": {"x": 1}},
    {"id": "out", "query": "out", "in_scope": False},
]
ASKED: list[tuple[str, tuple[str, ...]]] = []
ZERO = Failure(failed="ZeroDivisionError: division by zero")


@metric("team/says_more", direction="higher")
def says_more(case: Case, chunks: Sequence[Chunk]) -> bool:
    ASKED.append((case.id, tuple(chunk.text for chunk in chunks)))
    return any(len(chunk.text) > len(case.query) for chunk in chunks)


def find(query: str) -> list[str]:
    return [query, f"{query} and more", f"{query} and yet more"] if query != "out" else []


def test_a_grid_asks_it_of_each_distinct_result_and_may_be_chosen_by_it() -> None:
    ASKED.clear()
    wanted = Experiment.model_validate({"objective": {"metrics": "team/says_more"}})
    grid = sweep(find, ROWS, top_k="1:3", metrics=[says_more, "ranking/*"], experiment=wanted)
    assert grid.cells.set_index("top_k")["team/says_more"].to_dict() == pytest.approx({1: 0, 2: 2 / 3, 3: 2 / 3})
    assert grid.recommended is not None and grid.recommended.top_k == 2
    assert "\nteam/says_more " in str(grid), "on the first screen, however many metrics there are"
    assert len(set(ASKED)) == 7 and len(ASKED) == 7 + 3, "nine results, two of them the same; and a run"


@pytest.mark.parametrize("name", ["all", "in_scope", "evidence", "team/look_at_me"])
def test_any_name_is_scored_by_its_own_function_and_compared(name: str) -> None:
    @metric(name)
    def always(case: Case, chunks: Sequence[Chunk]) -> float:
        return 1.0

    run = evaluate(find, ROWS, metrics=[always, "ranking/*"])
    assert (run.metrics[name].value, run.metrics[name].n) == (1.0, 3)
    [comparison] = compare_runs(run, run, metrics=[name])
    assert [each.difference for each in comparison.differences] == [0.0]


def test_an_experiment_names_it_and_two_reports_compare_it(tmp_path: Path, command: Callable[..., Done]) -> None:
    made = make_experiment(tmp_path)
    files = [made.folder / f"{top_k}.json" for top_k in (1, 3)]
    for file in files:
        flags = ["--metrics", f"python:{HERE}:says_more", "--retriever.top-k", file.stem, "--output", file, "--quiet"]
        assert command(main, "--config", made.config, *flags).code == 0
    assert load_report(files[0])["own_metrics"][0]["name"] == "team/says_more"
    [comparison] = compare_runs(*files, metrics=["team/*"])
    assert [(each.metric, each.better) for each in comparison.differences] == [("team/says_more", "higher")]


def rerank(query: str) -> list[Document]:
    said = {"relevance_score": np.float32(ord(query[0]) / 128), "day": date(2026, 1, 1)}
    return [Document(page_content="one text", id="x", metadata=said)]


@metric("team/reranked")
def reranked(case: Case, chunks: Sequence[Chunk]) -> bool:
    assert str(chunks[0].extra["day"]) == "2026-01-01"
    return bool(chunks[0].extra["relevance_score"] == ord(case.query[0]) / 128)


@metric("team/alters")
def alters(case: Case, chunks: list[Chunk]) -> bool:
    case.expected_topics.append("not in the text")
    for chunk in chunks:
        chunk.extra.clear()  # type: ignore[attr-defined]  # as whoever reads no types may do
    return True


@pytest.mark.parametrize("saved", [False, True])
def test_it_reads_the_metadata_that_the_query_returned(tmp_path: Path, saved: bool) -> None:
    file, named = tmp_path / "kept", Experiment.model_validate({"retriever": {"python": f"{HERE}:rerank"}})
    asked: dict[str, Any] = {"metrics": [alters, reranked]}
    result = evaluate(rerank, ROWS, **asked, outputs=Outputs(retrieval=file))
    if saved:
        result = evaluate(None, ROWS, **asked, experiment=named, from_retrieval=file)
    found = result.metrics["team/reranked"]
    assert (found.value, found.n_failed) == (1, 0)
    assert result.metrics["queries/pass_rate"].value == 2 / 3, "whatever a metric does to its copy of the case"
    assert result.report.queries[0].retrieved[0].chunk_id == result.report.queries[1].retrieved[0].chunk_id == "x"


def out_of_range(value: float) -> Failure:
    return Failure(failed=f"OutOfRange: got {value}; the metric's range is 0 to 1")


async def leave(case: Case, chunks: list[Chunk]) -> float:
    return await asyncio.wait_for(leave(case, []), 5) if chunks else sys.exit("no key")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda case, chunks: 1 / (chunks[0].chunk_id == "a"), [1.0, ZERO]),
        (lambda case, chunks: sys.exit("no\n key"), [Failure(failed="SystemExit: no key")] * 2),
        (lambda case, chunks: "0.5", [Failure(failed="TypeError: expected a number, got the text '0.5'")] * 2),
        (leave, [Failure(failed="SystemExit: no key")] * 2),
        (lambda case, chunks: None, [Unscored(reason="the metric gives no score")] * 2),
        (lambda case, chunks: 2 * len(chunks), [out_of_range(2.0)] * 2),
        (lambda case, chunks: 1.0000001 if chunks[0].chunk_id == "a" else -1e-6, [1.0, 0.0]),
        (lambda case, chunks: float("nan"), [out_of_range(float("nan"))] * 2),
        (lambda case, chunks: chunks[0].chunk_id == "a", [1.0, 0.0]),
        (lambda case, chunks: asyncio.sleep(0, chunks[0].chunk_id == "a"), [1.0, 0.0]),
    ],
)
def test_what_it_cannot_tell_is_that_score_alone(function: Callable[..., Any], expected: list[Any]) -> None:
    observations = [observe(results(name), {"a": 1}) for name in ("a", "b")]
    assert scored(own_metric(metric("team/x")(function)), observations) == expected


@metric("team/gain", range=(-1, 1))
def gain(case: Case, chunks: Sequence[Chunk]) -> float:
    return {"one": 0.5, "two": 0.5}[case.id]


@metric("team/price", unit="USD", direction="lower", range=(0, inf))
def price(case: Case, chunks: list[Chunk]) -> float:
    return {"one": 0.5, "two": 0.5}[case.id]


def test_a_failed_score_counts_at_the_ends_of_its_range(tmp_path: Path) -> None:
    wanted = {"criteria": {"team/gain": ">= 0.1", "team/price": "<= 9"}, "metrics": ["ranking/hit_*"]}
    failing = evaluate(find, ROWS, metrics=[gain, price], experiment=Experiment.model_validate(wanted))
    found = [failing.metrics[name] for name in ("team/gain", "team/price")]
    assert [(each.bound_low, each.bound_high) for each in found] == [(0, pytest.approx(2 / 3)), (1 / 3, None)]
    assert [(gate.answer, gate.figure) for gate in failing.report.criteria] == [("undecided", 0), ("undecided", 0.5)]
    for condition, nearest in (
        ("gain >= 0.1", "gain 0.000"),
        ("gain == 0.5", "gain is open"),
        ("price <= 9", "price is open"),
    ):
        held = Experiment.model_validate(
            {"objective": {"metrics": "ranking/hit_rate_at_1", "constraints": f"team/{condition}"}}
        )
        with pytest.raises(ExperimentError, match=f"none of 2 cells has team/{condition}; the nearest: team/{nearest}"):
            sweep(find, ROWS, top_k="1:2", metrics=[gain, price, "ranking/*"], experiment=held)
    named = Experiment.model_validate({"objective": {"metrics": "team/gain"}})
    unranked = sweep(find, ROWS, top_k="1:2", metrics=[gain], experiment=named).report.incomplete
    assert "not ranked: team/gain failed on up to 1 of 3 queries" in unranked
    rows = [own_metric(function) for function in (gain, price)]
    whole = [metric(row.name, range=row.range, direction=row.direction)(lambda case, chunks: 0.5) for row in rows]
    files = [tmp_path / "whole.json", tmp_path / "failing.json"]
    evaluate(find, ROWS, metrics=whole).save(files[0])
    failing.save(files[1])
    for row in rows:
        del OWN[row.name]
    [comparison] = compare_runs(*files, metrics=["team/*"], tolerances={"team/gain": 0.49, "team/price": 99})
    assert [each.worst for each in comparison.differences] == [pytest.approx(-0.5), None]
    assert [each.passed for each in comparison.regressions] == [False, False]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (find, ExperimentError, r"expected a function declared by @evals.metric\(NAME\), got <function find"),
        (f"python:{HERE}:find", ExperimentError, r"put @metric\(\"team/name\"\) above it"),
        (f"python:{HERE}:gone", ConfigError, "found none"),
        *(
            (metric(name)(lambda case, chunks: 1), ExperimentError, f"'{name}' is the name of a metric of this")
            for name in ("ranking/mrr_at_5", "ranking/hit_rate_at_7", "latency/total_p95_ms_c7")
        ),
        (metric("team/gain")(lambda case, chunks: 1), ExperimentError, "'team/gain' is the name of two of these"),
    ],
)
def test_what_is_no_metric_is_refused_before_any_search(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        evaluate(lambda query: pytest.fail("it was searched"), ROWS, metrics=[f"python:{HERE}:gain", gain, given])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scope": "in-scope"}, "scope\n.*'in_scope', 'out_of_scope' or 'all'"),
        ({"name": "team/is it code?"}, "name\n.*should match pattern"),
        ({"name": "team/../x"}, "name\n.*should match pattern"),
        ({"name": "x" * 201}, "name\n.*at most 200 characters"),
        ({"range": (1, 0)}, "range\n.*expected the lowest value, then a higher one, got"),
    ],
)
def test_what_is_declared_wrongly_is_refused_at_once(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        metric(**{"name": "team/x", **wrong})
