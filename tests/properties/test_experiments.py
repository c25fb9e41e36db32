"""Settings tried in pairs: whatever two are set to, an experiment ends with a valid report or a clear refusal."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from allpairspy import AllPairs

from evals import Outputs, evaluate, sweep
from evals.config.experiment import ExperimentConfig
from evals.report.parsing import parse
from retrievers.config.layers import Layer, build, file_layer, nest
from retrievers.errors import RetrievalError
from tests.support.experiment import CASES, Experiment, index_once, make_experiment

OPTIONS: Mapping[str, list[Any]] = {
    "retriever.mode": ["semantic", "keyword", "hybrid"],
    "retriever.fusion": ["weighted", "rrf", "dbsf"],
    "retriever.rerank": ["none", "mmr"],
    "retriever.threshold": [None, 0.3, 1.0],
    "retriever.threshold_on": ["each", "best", "final"],
    "retriever.top_k": [1, 3, 10],
    "retriever.candidates": [10, 3],
    "retriever.semantic_weight": [0.7, 0.0, 1.0],
    "retriever.group_by": [None, "source_url"],
    "retriever.filters": [None, "tags contains arms or sidebar_position >= 2", {"module": ["ros", "nowhere"]}],
    "retriever.keyword.synonyms": [{}, {"pose": ["transforms"]}],
    "retriever.abbreviations": [{}, {"arm": "robot arm"}],
    "retriever.metadata.required": [None, ["title", "chapter"]],
    "dataset.limit": [None, 1],
    "dataset.ids": [(), ("france", "soup")],
    "metrics": [("ranking/*", "scope/*", "queries/*"), ("*",), ("determinism/*", "content/*")],
    "criteria": [{}, {"queries/pass_rate": ">= 0.5"}],
    "latency.concurrency": [(1,), (1, 3)],
    "sweep": [{}, {"top_k": "1:3"}, {"threshold": "0:1:0.5"}, {"mode": "keyword,hybrid"}],
    "objective.metrics": ["ranking/ndcg_at_10", "scope/abstention"],
    "seed": [0, 7],
}
# Several arrays, the later ones with the values of each option in another order, so that pairs meet other company.
ARRAY = [
    dict(zip(OPTIONS, row, strict=True))
    for turn in range(4)
    for row in AllPairs([[*values[turn % len(values) :], *values[: turn % len(values)]] for values in OPTIONS.values()])
][:64]
ended = {"report": 0, "refused": 0}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_experiment(tmp_path_factory.mktemp("pairs"))
    index_once(made)
    return made


@pytest.mark.parametrize("chosen", ARRAY, ids=map(str, range(len(ARRAY))))
def test_an_experiment_ends_with_a_valid_report_or_a_clear_refusal(
    chosen: dict[str, Any], made: Experiment, tmp_path: Path
) -> None:
    layers = [file_layer(made.config, ExperimentConfig), Layer(label="the pair", values=nest(chosen))]
    file = tmp_path / "report.json"
    try:
        config = build(ExperimentConfig, layers)
        run = sweep if config.sweep.axes else evaluate
        evaluation = run(experiment=config, outputs=Outputs(report=file))
    except RetrievalError as error:
        ended["refused"] += 1
        assert 20 < len(str(error)) < 2_000 and "Traceback" not in str(error)
        assert not file.exists()
        return
    ended["report"] += 1
    text = file.read_text(encoding="utf-8")
    report = parse(text, "report")
    assert json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the report"))
    chosen_ids = chosen["dataset.ids"] or [case["id"] for case in CASES]
    assert [row.id for row in report.queries] == [*chosen_ids][: chosen["dataset.limit"]]
    top_k, settings = report.config["retriever"]["top_k"], report.config["retriever"]
    for row in report.queries:
        scores = [hit.score for hit in row.retrieved if hit.score is not None]
        assert len(scores) == len(row.retrieved) <= top_k
        assert settings["rerank"] == "mmr" or scores == sorted(scores, reverse=True)
    assert evaluation.passed is (report.passed and not report.incomplete)


def test_most_pairs_can_be() -> None:
    if sum(ended.values()) < len(ARRAY):
        pytest.skip("not all of them ran in this process")
    assert len(ARRAY) >= 60 and ended["report"] > 0.5 * len(ARRAY)
