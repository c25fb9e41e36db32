"""Every metric of a cell equals that of a separate run with the cell's settings."""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.cases.case import Case
from evals.config.experiment import ExperimentConfig
from evals.experiment.inputs import Inputs
from evals.experiment.plan import describe_plan
from evals.grid.axes import plan
from evals.grid.measure import Measured
from evals.judge.judge import Judge
from evals.metrics import METRICS as METRICS_THERE_ARE
from evals.metrics import NEED_A_JUDGE
from evals.metrics.collaborators import Collaborators
from evals.metrics.declaration import NO_LABELS
from tests.support.chat_server import CohereChatServer
from tests.support.cohere_server import KEY
from tests.support.experiment import Experiment, evidence, make_experiment, settings, silent
from tests.support.grid_world import PAGES, Bench, make_world
from tests.support.grids import swept_of
from tests.support.judging import Flaws, Labels, Oracle
from tests.support.scored import metric_of

DEEP = [name for name in METRICS_THERE_ARE if name.startswith(("ranking/", "candidates/"))]
METRICS = [*DEEP, "ragas/*", "metadata/*", "content/*", "scope/*", "cost/*", "queries/*"]
EVERY_WAY = {
    "mode": ["semantic", "keyword", "hybrid"],
    "fusion": ["weighted", "rrf", "dbsf"],
    "rerank": ["none", "mmr", "cross-encoder", "rrf"],
}
VARIANTS = 15


@pytest.fixture(scope="module")
def server() -> Iterator[CohereChatServer]:
    with CohereChatServer(Oracle({})) as started:
        yield started


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def bench(world: Experiment) -> Bench:
    return Bench(settings(world), {"COHERE_API_KEY": KEY})


def experiment(world: Experiment, server: CohereChatServer, **changes: Any) -> ExperimentConfig:
    reranker = {"retriever__cross_encoder": {"provider": "cohere", "base_url": server.url}}
    return settings(world, metrics=METRICS, retriever__candidates=20, **reranker, **changes)


def differing(found: Measured, bench: Bench, config: ExperimentConfig, cells: int, seed: int) -> list[Any]:
    """Return the differences between a random sample of the cells of every configuration and runs of their own."""
    rng = random.Random(seed)
    grid, made = swept_of(found).grid, list[Any]()
    for number in range(len(grid.configurations)):
        cells_of = range(grid.start(number), grid.start(number) + grid.size(number))
        for index in rng.sample(cells_of, k=min(cells, len(cells_of))):
            made += differences(found, index, bench.run(config, grid.settings(index)))
    return made


def differences(found: Measured, index: int, alone: Measured) -> list[Any]:
    """In what a cell is not as in a run of its own: scores of every query, their mean and counts."""
    grid = swept_of(found).grid
    cell, own = grid.cell(index), {summary.metric: summary for summary in alone.summaries}
    made: list[Any] = []
    for name, known in grid.metrics.items():
        if name in alone.scores:
            column = grid.matrix(metric_of(name), found.context)[:, index].tolist()
            scores = [score if isinstance(score, float) else None for score in alone.scores[name].values()]
            if [None if isnan(score) else pytest.approx(score, abs=1e-12) for score in column] != scores:
                made.append((cell, name, column, scores))
        summary = own[name]
        mean = None if known.n[index] == 0 else pytest.approx(known.mean[index], abs=1e-12)
        here = (mean, known.n[index], known.n_unscored[index], known.n_failed[index])
        if here != (summary.value, summary.n, summary.n_unscored, summary.n_failed):
            made.append((cell, here, summary))
    whole = grid.configurations[cell.configuration].summaries
    made += [(cell, summary, own[summary.metric]) for summary in whole if summary != own[summary.metric]]
    of_the_judge = NEED_A_JUDGE - grid.metrics.keys()  # what it cost and how far it is to be trusted: of the whole grid
    known_here = {*grid.metrics, *(s.metric for s in grid.configurations[0].summaries)}
    if own.keys() - of_the_judge != known_here:
        made.append((cell, own.keys() ^ known_here))
    return made


@pytest.mark.parametrize(("cells", "seed"), [(1, 1), pytest.param(6, 2, marks=pytest.mark.slow)])
def test_in_every_mode_and_reranker(
    bench: Bench, world: Experiment, server: CohereChatServer, cells: int, seed: int
) -> None:
    config = experiment(world, server, sweep={**EVERY_WAY, "top_k": "1:8", "threshold": "0:0.9:0.1"})
    found = bench.grid(config)
    assert len(swept_of(found).grid.configurations) == VARIANTS
    assert len(swept_of(found).grid) == VARIANTS * 8 * 10
    assert differing(found, bench, config, cells, seed) == []


def test_with_queries_that_have_no_labels(world: Experiment, server: CohereChatServer) -> None:
    config = experiment(world, server, sweep={"mode": ["semantic", "hybrid"], "top_k": "1:4", "threshold": "0,0.3"})
    bench = Bench(config, {"COHERE_API_KEY": KEY})
    bench.golden = replace(bench.golden, cases=tuple(map(_unlabelled, bench.golden.cases)))
    found = bench.grid(config)
    assert differing(found, bench, config, cells=4, seed=6) == []
    for name in ("ranking/ndcg_at_3", "candidates/recall_at_10", "ragas/nonllm_context_recall", "queries/pass_rate"):
        assert swept_of(found).grid.metrics[name].n_unscored[0] == 3
        assert swept_of(found).grid.metrics[name].n_dropped == 0
    scores = found.scores["ranking/ndcg_at_3"]
    assert {key for key, score in scores.items() if score == NO_LABELS} == {"in0", "in1", "in2"}
    assert NO_LABELS not in found.scores["scope/enough_results"].values()


def _unlabelled(case: Case) -> Case:
    return case.model_copy(update={"evidence": []}) if case.id in ("in0", "in1", "in2") else case


@pytest.mark.parametrize("metrics", ["ranking/*", "candidates/*", "*"])
def test_a_cell_has_the_metrics_that_its_own_run_has(bench: Bench, world: Experiment, metrics: str) -> None:
    objective = {"metrics": "ranking/recall_at_3"}
    sweep = {"top_k": "2,4", "threshold": "0,0.3"}
    config = settings(world, metrics=[metrics], retriever__candidates=20, sweep=sweep, objective=objective)
    found = bench.grid(config)
    alone = bench.run(config, found.config.retriever)
    assert {s.metric for s in found.summaries} == {s.metric for s in alone.summaries}
    assert {*swept_of(found).grid.metrics} >= {s.metric for s in alone.summaries if s.metric.startswith("ranking/")}


def test_candidates_score_the_same_in_every_cell_of_a_retrieval(
    bench: Bench, world: Experiment, server: CohereChatServer
) -> None:
    config = experiment(world, server, sweep={"mode": ["semantic", "keyword"], "top_k": "1:8", "threshold": "0,0.5"})
    grid = swept_of(bench.grid(config)).grid
    for name in (name for name in DEEP if name.startswith("candidates/")):
        means = grid.metrics[name].mean
        assert np.ptp(means[:16]) < 1e-12 and np.ptp(means[16:]) < 1e-12
    ndcg = grid.metrics["candidates/ndcg_at_10"].mean
    assert ndcg[0] != ndcg[16] and min(ndcg) > 0


@pytest.mark.slow
def test_with_and_without_term_counts(bench: Bench, world: Experiment, server: CohereChatServer) -> None:
    sweep = {"mode": ["keyword", "hybrid"], "term_counts": "true,false", "top_k": "1:8", "threshold": "0:0.9:0.1"}
    config = experiment(world, server, sweep=sweep)
    found = bench.grid(config)
    assert [c.settings.keyword.term_counts for c in swept_of(found).grid.configurations] == [True, False, True, False]
    assert differing(found, bench, config, cells=2, seed=4) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"retriever__group_by": "source_url", "sweep": {"mode": ["semantic", "hybrid"], "rerank": ["none", "mmr"]}},
        {"retriever__threshold_on": "final", "sweep": {"mode": "hybrid", "rerank": ["none", "cross-encoder"]}},
        {
            "retriever__threshold_on": "best",
            "sweep": {"mode": ["semantic", "keyword", "hybrid"], "rerank": ["none", "mmr"]},
        },
        {"retriever__filters": "source_url in ['/docs/p0', '/docs/p1']", "sweep": {"mode": ["keyword", "hybrid"]}},
        {"dataset__ids": ("in1",), "sweep": {"mode": ["semantic", "hybrid"]}},
        {"dataset__ids": ("soup", "france", "close"), "sweep": {"mode": ["semantic", "hybrid"]}},
    ],
    ids=["grouped", "on the final score", "on the best cosine", "filtered", "one query", "all out of scope"],
)
def test_under_other_settings(
    bench: Bench, world: Experiment, server: CohereChatServer, changes: dict[str, Any]
) -> None:
    cut = {"top_k": "1:6", "threshold": "0:0.9:0.1"}
    config = experiment(world, server, **{**changes, "sweep": {**changes["sweep"], **cut}})
    other = Bench(config, bench.env)
    assert differing(other.grid(config), other, config, cells=2, seed=3) == []


@pytest.mark.parametrize(
    ("python", "sweep"),
    [
        ("plain", {"top_k": "1:5"}),
        ("repeating", {"top_k": "1:6"}),
        ("with_ids", {"top_k": "1:3", "candidates": "3,5"}),
        ("dense", {"top_k": "1:5", "threshold": "0:1:0.1"}),
    ],
)
def test_of_retrievers_that_are_not_ours(tmp_path: Path, python: str, sweep: dict[str, str]) -> None:
    """Without scores, with ids that repeat, without a list of chunks, with cosines of their own."""
    own = {"python": f"tests.support.foreign:{python}", "candidates": 6}
    config = settings(make_experiment(tmp_path), metrics=METRICS, retriever=own, index={}, sweep=sweep)
    bench = Bench(config, {})
    assert differing(bench.grid(config), bench, config, cells=3, seed=5) == []


def test_a_tie_at_the_cut_is_broken_as_in_a_run_of_its_own(bench: Bench, world: Experiment) -> None:
    """The query for the glossary finds one text on six pages, all of one score."""
    config = settings(world, metrics=METRICS, retriever__candidates=20, sweep={"top_k": "1:8"})
    observation = next(
        o for o in swept_of(bench.grid(config)).grid.configurations[0].observed.observations if o.case.id == "in3"
    )
    scores = [c.score or 0.0 for c in observation.candidates]
    tied = next(score for score in scores if scores.count(score) == PAGES)
    thresholds = sorted(set(scores))
    config = settings(world, metrics=METRICS, retriever__candidates=20, sweep={"top_k": "1:8", "threshold": thresholds})
    found = bench.grid(config)
    for top_k in (scores.index(tied) + 1, scores.index(tied) + 3):
        index = thresholds.index(tied) * 8 + top_k - 1
        assert differences(found, index, bench.run(config, swept_of(found).grid.settings(index))) == []


@pytest.mark.slow
def test_where_all_scores_are_equal(tmp_path: Path) -> None:
    made = make_experiment(tmp_path)
    shutil.rmtree(made.docs)
    text = "The hand closes around the handle and lifts the cup off the table without a sound."
    made.write_pages({f"p{n}.md": f"---\ntitle: Same\n---\n\n# Same\n\n{text}\n" for n in range(5)})
    made.write_golden(
        [
            {"id": "two", "query": "lift the cup", "evidence": [evidence(f"p{n}", text) for n in (1, 3)]},
            {"id": "out", "query": "close the handle", "in_scope": False},
        ]
    )
    sweep = {"top_k": "1:6", "threshold": "0:1:0.1", "rerank": ["none", "mmr"]}
    config = settings(made, metrics=METRICS, sweep=sweep)
    bench = Bench(config, {})
    found = bench.grid(config)
    for o in swept_of(found).grid.configurations[0].observed.observations:
        assert len({c.score for c in o.candidates}) == 1
    assert differing(found, bench, config, cells=4, seed=6) == []


def judging(server: CohereChatServer, bench: Bench, folder: Path) -> dict[str, str]:
    """The settings of a judge on the loopback that knows the golden answers, and errs at times."""
    texts = {case.query: case.reference_answer or "" for case in bench.golden.cases}
    labels = {
        query: Labels(useful=[answer.removeprefix("It is said that ")], claims={answer: [answer[16:-1]]})
        for query, answer in texts.items()
    }
    server.oracle = Oracle(labels, entities=("joint", "motor"), flaws=Flaws(false_useful=0.3, seed=1))
    return {"model": "cohere:command-a-03-2025", "base_url": server.url, "cache_path": str(folder / "verdicts")}


@contextmanager
def judge_of(config: ExperimentConfig, bench: Bench) -> Iterator[Judge]:
    judge = Judge.open(config.judge, bench.env)
    try:
        yield judge
    finally:
        judge.close()


@pytest.mark.slow
def test_with_llm_metrics(bench: Bench, world: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    sweep = {"rerank": ["none", "mmr"], "top_k": "1:4", "threshold": "0:0.9:0.15"}
    config = experiment(world, server, judge=judging(server, bench, tmp_path), sweep=sweep)
    with judge_of(config, bench) as judge:
        found = bench.grid(config, judge)
        before = len(server.chats)
        rng = random.Random(4)
        for index in rng.sample(range(len(swept_of(found).grid)), k=5):
            assert differences(found, index, bench.run(config, swept_of(found).grid.settings(index), judge)) == []
        assert len(server.chats) == before, "a cell's run asks nothing that the grid has not asked"


@pytest.mark.slow
def test_verdicts_are_bought_once_and_planned_for(
    bench: Bench, world: Experiment, server: CohereChatServer, tmp_path: Path
) -> None:
    """One call a query and text for precision, one a query and distinct result for recall; equal prompts are one."""
    metrics = ["ragas/llm_context_precision", "ragas/llm_context_recall", "ranking/ndcg_at_10"]
    sweep = {"mode": ["semantic", "hybrid"], "top_k": "1:4", "threshold": "0:0.9:0.15"}
    config = experiment(world, server, judge=judging(server, bench, tmp_path), sweep=sweep)
    config = config.model_copy(update={"metrics": tuple(metrics)})
    with judge_of(config, bench) as judge:
        planned = plan(config.retriever, config.sweep)
        with bench.opened([variant.settings for variant in planned.variants]) as (retrievers, _):
            collaborators = Collaborators(retrievers=retrievers, progress=silent, judge=judge)
            inputs = Inputs(config=config, golden=bench.golden, sweep=planned, held_out=None)
            text = describe_plan(inputs, collaborators, width=120)
        before = len(server.chats)
        grid = swept_of(bench.grid(config, judge)).grid
        made = len(server.chats) - before
    results = {
        (o.case.query, tuple(c.chunk.text for c in o.selection))
        for index in range(len(grid)) for o in grid.results(index).observations() if o.case.in_scope and o.selection
    }  # fmt: skip
    texts = {(query, text) for query, returned in results for text in returned}
    assert made == len(texts) + len(results)
    total = next(line.split() for line in text.splitlines() if line.strip().startswith("all"))
    assert int(total[3].replace(",", "")) == made
