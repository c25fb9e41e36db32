"""Settings tried in pairs: whatever two are set to, an experiment ends with a valid report or a clear refusal."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from allpairspy import AllPairs
from hypothesis import given
from hypothesis import strategies as st

from evals import Outputs, evaluate, sweep
from evals.config.experiment import ExperimentConfig
from evals.report.parsing import parse
from evals.run import load_config, parser
from retrievers.config.layers import ENVIRONMENT, Layer, build, environment, file_layer, flatten, leaves, nest
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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_experiment(tmp_path_factory.mktemp("pairs"))
    index_once(made)
    return made


@pytest.mark.parametrize("chosen", ARRAY, ids=map(str, range(len(ARRAY))))
def test_a_run_ends_with_a_valid_report_or_a_refusal(chosen: dict[str, Any], made: Experiment, tmp_path: Path) -> None:
    layers = [file_layer(made.config, ExperimentConfig), Layer(label="the pair", values=nest(chosen))]
    file = tmp_path / "report.json"
    try:
        config = build(ExperimentConfig, layers)
        run = sweep if config.sweep.axes else evaluate
        evaluation = run(experiment=config, outputs=Outputs(report=file))
    except RetrievalError as error:
        assert 20 < len(str(error)) < 2_000 and "Traceback" not in str(error) and not file.exists()
        return
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


# Flag over file over environment over .env over default, for any settings in any of them

# Of each setting a value for the file and one for the flags, both others than the default.
VALUES: dict[str, tuple[Any, Any]] = {
    "retriever.collection": ("of_file", "of_flag"),
    "retriever.top_k": (13, 14),
    "retriever.threshold": (0.13, 0.14),
    "retriever.mode": ("hybrid", "keyword"),
    "retriever.store.url": ("http://file:1", "http://flag:1"),
    "retriever.store.timeout_s": (3.0, 4.0),
    "retriever.keyword.synonyms": ({"a": ["b"]}, {"c": ["d", "e"]}),
    "retriever.metadata.required": (["title"], ["title", "tags"]),
    "dataset.limit": (3, 4),
    "latency.concurrency": ([1, 3], [1, 4]),
    "sweep.top_k": ([1, 2, 3], [4, 5]),
    "criteria": ({"queries/pass_rate": ">= 0.3"}, {"queries/pass_rate": ">= 0.4"}),
    "judge.temperature": (0.3, None),
    "objective.margin": (0.3, 0.4),
    "seed": (3, 4),
}
VARIABLES = {f"retriever.{setting}": name for name, setting in ENVIRONMENT.items()}
IN_ENVIRONMENT = {name: ("of_env_1", "of_env_2") for name in VARIABLES} | {
    "retriever.mode": ("semantic", "keyword"),
    "retriever.top_k": ("11", "12"),
    "retriever.threshold": ("0.11", "0.12"),
    "retriever.store.url": ("http://env:1", "http://env:2"),
}
NAMES, OF_ENVIRONMENT = st.sets(st.sampled_from([*VALUES])), st.sets(st.sampled_from([*VARIABLES]))


@given(OF_ENVIRONMENT, OF_ENVIRONMENT, NAMES, NAMES)
def test_the_highest_layer_wins(dotenv: set[str], environ: set[str], in_file: set[str], in_flags: set[str]) -> None:
    with TemporaryDirectory() as folder, patch.dict(os.environ):
        file, hidden = Path(folder) / "e.yaml", Path(folder) / ".env"
        file.write_text(yaml.safe_dump({"name": "mine", **nest({name: VALUES[name][0] for name in in_file})}))
        hidden.write_text("".join(f"{VARIABLES[name]}={IN_ENVIRONMENT[name][0]}\n" for name in dotenv))
        env = environment({VARIABLES[name]: IN_ENVIRONMENT[name][1] for name in environ}, hidden)
        flags = [f"--{n.replace('_', '-')}={written(VALUES[n][1])}" for n in sorted(in_flags)]
        config = load_config(parser().parse_args(["--config", str(file), *flags]), env)
    found = dict(flatten(config.model_dump(mode="json")))
    expected = dict(flatten(ExperimentConfig().model_dump(mode="json"))) | {"name": "mine"}
    for names, values in (
        (dotenv, {name: IN_ENVIRONMENT[name][0] for name in dotenv}),
        (environ, {name: IN_ENVIRONMENT[name][1] for name in environ}),
        (in_file, {name: VALUES[name][0] for name in in_file}),
        (in_flags, {name: VALUES[name][1] for name in in_flags}),
    ):
        for name in names:
            expected = {n: v for n, v in expected.items() if n != name and not n.startswith(f"{name}.")}
            expected |= dict(flatten(nest({name: values[name]})))
    # A flag that names one value ends the file's sweep of it.
    swept = {name.replace("retriever.", "sweep.") for name in in_flags}
    expected |= {name: [] for name in (swept & in_file) - in_flags}
    assert {name: str(value) for name, value in found.items()} == {name: str(value) for name, value in expected.items()}
    assert {*VALUES} <= {*leaves(ExperimentConfig)}


def written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
