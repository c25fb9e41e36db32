"""What a threshold reads, and thresholds that promise a rate of wrong answers: in a sweep, in a run, exported."""

import json
import random
import shlex
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from langchain_core.documents import Document
from syrupy.assertion import SnapshotAssertion

from evals import sweep
from evals.config.experiment import ExperimentConfig
from evals.report.grid_sections import decision_section
from evals.report.html import render_page
from evals.run import main
from evals.stats.abstention import FINAL as FINAL_SCORE
from evals.stats.abstention import Signal, promise
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.records import RetrievedChunk
from retrievers.retriever.opened import open_retriever
from tests.support.experiment import Experiment, make_experiment, settings
from tests.support.grid_world import METRICS, measured
from tests.support.stored_reports import stored

DOCUMENTS = [Document(page_content=f"chunk number {n}", metadata={"chunk_id": f"c{n}"}) for n in range(20)]


def scores(query: str) -> list[float]:
    drawn, mean = random.Random(query), 0.4 if query.startswith("o") else 0.7
    made = (round(min(1, max(0, drawn.gauss(mean, 0.12))), 2) for _ in DOCUMENTS)
    return sorted((float(np.float32(score)) for score in made), reverse=True)  # as they are kept


def golden(outside: int) -> list[dict[str, Any]]:
    inside = ({"id": f"i{n}", "query": f"in {n}", "relevant_ids": ["c1", "c3"]} for n in range(30))
    return [*inside, *({"id": f"o{n}", "query": f"out {n}", "in_scope": False} for n in range(outside))]


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_every_cell_has_the_threshold_that_the_best_scores_promise(rate: float) -> None:
    wanted = ExperimentConfig.load(None, {"threshold.false_answer": rate, "metrics": ["scope/*", "ranking/*"]})
    found = sweep(lambda q: [*zip(DOCUMENTS, scores(q), strict=True)], golden(40), top_k=[1, 5], experiment=wanted)
    inside, outside = ([scores(f"{kind} {n}")[0] for n in range(count)] for kind, count in (("in", 30), ("out", 40)))
    expected, grid = promise(inside, outside, rate, scale="cosine", among=1), found.report.grid
    assert grid is not None and expected.threshold is not None
    assert grid.cells.threshold == [expected.threshold] * 2
    assert grid.metrics["scope/false_answer"].mean == [sum(each >= expected.threshold for each in outside) / 40] * 2
    assert any(expected.statement in note for note in found.report.notes)
    assert found.report.config["retriever"]["threshold"] == expected.threshold


# The promise of a run, as a command

OUTSIDE = [{"id": f"o{n}", "query": f"recipe number {n}", "in_scope": False} for n in range(12)]
QUIET = ("--tracking.enabled", "false", "--no-gate", "--metrics", "scope/*")


def test_an_exported_threshold_says_what_it_was_fitted_on_and_is_fitted_again(here: Path, command: Any) -> None:
    made = make_experiment(here)
    lines = [json.loads(text) for text in made.golden.read_text(encoding="utf-8").splitlines()]
    made.write_golden([{**case, "split": "dev"} for case in [*lines, *OUTSIDE]] + [{**OUTSIDE[0], "id": "other"}])
    flags = ["--config", str(made.config), *QUIET]
    fit = ["--dataset.split", "dev", "--threshold.false-answer", "0.5", "--export", "r.yaml"]
    done = command(main, *flags, *fit)
    assert done.code == 0 and "--threshold.false-answer 0.5" in done.out.partition("Next: ")[2]
    file, first = here / "r.yaml", (here / "r.yaml").read_text(encoding="utf-8")
    fit = json.loads(first.splitlines()[0].removeprefix("# fitted: "))
    assert fit["dataset"] == {"path": "golden.jsonl", "split": "dev"}
    assert fit["false_answer"] == 0.5 and fit["threshold"] == yaml.safe_load(first)["threshold"]
    grid = command(main, *flags, "--dataset.split", "dev", "--threshold.false-answer", "0.5", "--sweep.top-k", "1:3")
    following = shlex.split(grid.out.partition("\nNext: ")[2].splitlines()[0])[3:]
    assert following[-2:] == ["--export", "retriever.yaml"] and command(main, *following, "--no-gate").code == 0
    assert (here / "retriever.yaml").read_text(encoding="utf-8").startswith('# fitted: {"false_answer": 0.5, ')
    again = ("--refit", "r.yaml")
    for experiment in (QUIET, flags):  # the experiment names all splits
        out = command(main, *experiment, *again).out
        assert f"r.yaml: threshold {fit['threshold']} as before" in out
        following = out.partition("Next: ")[2]
        assert "--export retriever.yaml" not in following, "it would lose the promise"
        assert "--refit r.yaml" in following and ("--export refitted.yaml" in following) == ("--sweep." in following)
    less = [*again, "--retriever.top-k", "2"]
    said = command(main, *QUIET, *less, "--limit", "17", "--export", "b.yaml").out.splitlines()[-1]
    assert said.startswith("b.yaml: threshold")
    assert "dataset.limit None → 17" in said and "retriever.top_k 3 → 2" in said
    assert yaml.safe_load((here / "b.yaml").read_text(encoding="utf-8"))["top_k"] == 2
    gated = [one for one in QUIET if one != "--no-gate"]
    failed = command(main, *gated, *less, "--criteria", "{scope/false_answer: '< 0'}")
    assert failed.code == 1 and "r.yaml: left as it was, as the run did not pass" in failed.out
    assert file.read_text(encoding="utf-8") == first
    both = command(main, *QUIET, *again, "--retriever.threshold", "0.3")
    file.write_text(first.split("\n", 1)[1], encoding="utf-8")
    bare = command(main, *QUIET, *again)
    assert (both.code, "retriever.threshold" in both.err) == (bare.code, "# fitted:" in bare.err) == (2, True)


THRESHOLDS = {"bm25": [0, 0.2, 0.5, 1, 2], "known_words": [0, 0.4, 0.5, 0.75, 1], "rerank": [0, 0.2, 0.4, 0.6, 0.9]}
RERANKED = {"rerank": "cross-encoder", "cross_encoder": {"model": "python:tests.support.rerankers:Scorer"}}


def experiment(world: Experiment, signal: str, on: str = "each", **changes: Any) -> ExperimentConfig:
    read = {"threshold_signal": signal, "threshold_on": on, "mode": "hybrid", "candidates": 20, "threshold": 0}
    retriever = read | (RERANKED if signal == "rerank" else {})
    return settings(world, **{"metrics": METRICS, **{f"retriever__{k}": v for k, v in retriever.items()}, **changes})


def readings(signal: str, query: str, hits: tuple[RetrievedChunk, ...], corpus: set[int]) -> Iterator[float]:
    words = Bm25Encoder().query(query)
    for hit in hits:
        if signal == "rerank":
            yield hit.scores["rerank"]
        elif signal == "bm25":
            yield hit.scores.get("keyword", 0.0) / (sum(words.values) or 1)
        else:
            yield len({*words.indices} & corpus) / max(1, len(words.indices))


@pytest.mark.parametrize(("signal", "on"), [(signal, on) for signal in THRESHOLDS for on in ("each", "best")])
def test_a_cell_keeps_what_reaches_its_threshold(world: Experiment, signal: str, on: str) -> None:
    made = measured(experiment(world, signal, on, sweep={"top_k": [2, 20], "threshold": THRESHOLDS[signal]}))
    grid, sizes = made.swept.grid, set[int]()
    with open_retriever(grid.variants[0].settings) as retriever:
        corpus = {term for chunk in retriever.chunks() for term in Bm25Encoder().document(chunk.text).indices}
        found = [tuple(retriever.candidates([case.query])[0]) for case in grid.pool.cases]
    for index, cell in enumerate(map(grid.cell, range(len(grid)))):
        for observed, hits in zip(grid.results(index).observations(), found, strict=True):
            read = list(readings(signal, observed.case.query, hits, corpus))
            read = [max(read, default=0.0)] * len(read) if on == "best" else read
            kept = [hit.chunk.chunk_id for hit, score in zip(hits, read, strict=True) if score >= (cell.threshold or 0)]
            assert list(observed.selection.chunk_ids) == kept[: cell.top_k]
            sizes.add(len(kept))
    assert len(sizes) > 1


@pytest.mark.parametrize("signal", ["cosine", "bm25", "rerank"])
def test_every_score_that_the_search_holds_says_how_far_it_separates(world: Experiment, signal: str) -> None:
    reranked: dict[str, Any] = {f"retriever__{name}": value for name, value in RERANKED.items()}
    made = measured(experiment(world, signal, sweep={"top_k": [2], "threshold": [0, 0.5]}, **reranked))
    own, *others = made.swept.signals
    assert own.name == signal and {each.name for each in (own, *others)} == {"cosine", "bm25", "rerank"}
    assert [other.auroc for other in others] == sorted((other.auroc for other in others), reverse=True)
    best: dict[bool, list[float]] = {True: [], False: []}
    for observed in made.swept.grid.results(0).observations():
        read = readings(signal, observed.case.query, tuple(observed.candidates), set())
        top = observed.top_score or 0.0 if signal == "cosine" else max(read, default=0.0)
        best[observed.case.in_scope].append(top)
    pairs = [(inside > outside) + (inside == outside) / 2 for inside in best[True] for outside in best[False]]
    assert own.auroc == pytest.approx(sum(pairs) / len(pairs))


def test_the_first_line_says_that_the_score_does_not_separate(snapshot: SnapshotAssertion) -> None:
    report, told = stored("grid"), []
    assert report.grid and report.grid.decision and report.grid.choice
    far, near = Signal(name="bm25", auroc=0.8, low=0.7, high=0.9), Signal(name="bm25", auroc=0.6, low=0.45, high=0.7)
    cosine, final = replace(near, name="cosine"), replace(near, name=FINAL_SCORE)
    separates, distance = replace(far, name="cosine"), Signal(name="cosine", auroc=0.1, low=0.0, high=0.3)
    for signals in ((separates, far), (cosine, far), (cosine, near), (final, far), (final, separates), (distance, far)):
        grid = report.grid.model_copy(update={"signals": signals})
        told.append(decision_section(report, grid, report.grid.decision, report.grid.choice).lines[0].parts[0].text)
        assert told[-1] in unescape(render_page(report.model_copy(update={"grid": grid}))) or signals[0].separates
    assert told == snapshot
