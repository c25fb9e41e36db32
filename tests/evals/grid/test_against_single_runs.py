"""Every metric of a cell equals that of a separate run with the cell's settings."""

import random
from collections.abc import Iterator
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from evals.cases.case import Case
from evals.config.experiment import ExperimentConfig
from evals.grid.measure import Measured
from evals.metrics import METRICS as METRICS_THERE_ARE
from evals.metrics import NEED_A_JUDGE
from evals.metrics.declaration import NO_LABELS
from tests.support.chat_server import CohereChatServer
from tests.support.cohere_server import KEY
from tests.support.experiment import Experiment, make_experiment, settings
from tests.support.grid_world import Bench, swept_of
from tests.support.judging import Oracle
from tests.support.observed import metric_of

DEEP = [name for name in METRICS_THERE_ARE if name.startswith(("ranking/", "candidates/"))]
METRICS = [*DEEP, "ragas/*", "metadata/*", "content/*", "scope/*", "cost/*", "queries/*"]
EVERY_WAY = {
    "mode": ["semantic", "keyword", "hybrid"],
    "fusion": ["weighted", "rrf", "dbsf"],
    "rerank": ["none", "mmr", "cross-encoder"],
}
VARIANTS = 15


@pytest.fixture(scope="module")
def server() -> Iterator[CohereChatServer]:
    with CohereChatServer(Oracle({})) as started:
        yield started


def experiment(world: Experiment, server: CohereChatServer, **changes: Any) -> ExperimentConfig:
    reranker = {"retriever__cross_encoder": {"base_url": server.url}}
    return settings(world, metrics=METRICS, retriever__candidates=20, **reranker, **changes)


def differing(found: Measured, bench: Bench, config: ExperimentConfig, cells: int, seed: int) -> list[Any]:
    """Return the differences between a random sample of the cells of every configuration and runs of their own."""
    rng = random.Random(seed)
    grid, made = swept_of(found).grid, list[Any]()
    for number in range(len(grid.variants)):
        cells_of = range(number * grid.size, (number + 1) * grid.size)
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
        here = (mean, known.n[index], known.n_failed[index])
        if here != (summary.value, summary.n, summary.n_failed):
            made.append((cell, here, summary))
    whole = grid.summaries[cell.variant]
    made += [(cell, summary, own[summary.metric]) for summary in whole if summary != own[summary.metric]]
    of_the_judge = NEED_A_JUDGE - grid.metrics.keys()  # what it cost and how far it is to be trusted: of the whole grid
    known_here = {*grid.metrics, *(s.metric for s in grid.summaries[0])}
    if own.keys() - of_the_judge != known_here:
        made.append((cell, own.keys() ^ known_here))
    return made


@pytest.mark.parametrize(("cells", "seed"), [(1, 1), pytest.param(6, 2, marks=pytest.mark.slow)])
def test_in_every_mode_and_reranker(
    bench: Bench, world: Experiment, server: CohereChatServer, cells: int, seed: int
) -> None:
    config = experiment(world, server, sweep={**EVERY_WAY, "top_k": "1:8", "threshold": "0:0.9:0.1"})
    found = bench.grid(config)
    assert len(swept_of(found).grid.variants) == VARIANTS
    assert len(swept_of(found).grid) == VARIANTS * 8 * 10
    assert differing(found, bench, config, cells, seed) == []


def test_with_queries_that_have_no_labels(world: Experiment, server: CohereChatServer) -> None:
    config = experiment(world, server, sweep={"mode": ["semantic", "hybrid"], "top_k": "1:4", "threshold": "0,0.3"})
    bench = Bench(config, {"COHERE_API_KEY": KEY})
    bench.golden = replace(bench.golden, cases=tuple(map(_unlabelled, bench.golden.cases)))
    found = bench.grid(config)
    assert differing(found, bench, config, cells=4, seed=6) == []
    for name in ("ranking/ndcg_at_3", "candidates/recall_at_10", "ragas/nonllm_context_recall", "queries/pass_rate"):
        assert swept_of(found).grid.metrics[name].n_dropped == 0
    scores = found.scores["ranking/ndcg_at_3"]
    assert {key for key, score in scores.items() if score == NO_LABELS} == {"in0", "in1", "in2"}
    assert NO_LABELS not in found.scores["scope/false_abstention"].values()


def _unlabelled(case: Case) -> Case:
    return case.model_copy(update={"evidence": []}) if case.id in ("in0", "in1", "in2") else case


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
