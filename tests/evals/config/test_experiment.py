from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evals.cases.reading import load_golden
from evals.config.experiment import DatasetConfig, ExperimentConfig, LatencyConfig, TrackingConfig
from evals.config.values import CRITERION
from evals.metrics import VERDICT_METRIC, choose
from evals.metrics.criteria import check_names
from retrievers.config import dump
from retrievers.config.layers import build, file_layer

EXPERIMENTS = sorted((Path(__file__).parents[3] / "evals" / "config" / "presets").glob("*.yaml"))


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        (">= 0.8", (">=", "0.8")),
        ("<300", ("<", "300")),
        (" == 1 ", ("==", "1")),
        ("> -.5", (">", "-.5")),
        ("<= 1e-3", ("<=", "1e-3")),
    ],
)
def test_a_condition_is_a_comparison_and_a_number(condition: str, parts: tuple[str, str]) -> None:
    found = CRITERION.fullmatch(condition)
    assert found
    assert found.groups() == parts


@pytest.mark.parametrize("condition", ["0.8", "=> 0.8", "= 1", "!= 1", ">= x", ">= 0.8 or so", "", ">= nan", ">= 80%"])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(ValidationError, match=r"expected a condition such as '>= 0\.8'"):
        ExperimentConfig.model_validate({"criteria": {"ranking/mrr_at_10": condition}})


@pytest.mark.parametrize(
    ("given", "used"), [((), (1,)), ((4,), (1, 4)), ((8, 1, 4, 8), (1, 4, 8)), ((64, 2), (1, 2, 64))]
)
def test_latency_is_always_measured_serially_too(given: tuple[int, ...], used: tuple[int, ...]) -> None:
    assert LatencyConfig.model_validate({"concurrency": given}).concurrency == used


def test_an_experiments_filter_keeps_the_users_own_keys(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text("retriever: {filters: {metadata.lang: en}, abbreviations: {e.g.: for example}}\n")
    retriever = build(ExperimentConfig, [file_layer(file, ExperimentConfig)]).retriever
    assert (retriever.filters, retriever.abbreviations) == ({"metadata.lang": "en"}, {"e.g.": "for example"})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"latency": {"concurrency": [0]}}, "numbers from 1 to 64"),
        ({"latency": {"concurrency": [65]}}, "numbers from 1 to 64"),
        ({"latency": {"repeats": 0}}, "greater than or equal to 1"),
        ({"determinism": {"repeats": 0}}, "greater than or equal to 1"),
        ({"dataset": {"hub": "a/b"}}, "hub needs a revision"),
        ({"dataset": {"hub": "a/b", "revision": "c", "path": "p"}}, "either path or hub"),
        ({"dataset": {"limit": 0}}, "greater than or equal to 1"),
        ({"metrics": []}, "at least 1 item"),
        ({"name": ""}, "at least 1 character"),
        ({"seed": -1}, "greater than or equal to 0"),
        ({"experiment": "x"}, "Extra inputs"),
    ],
)
def test_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ExperimentConfig.model_validate(settings)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (None, None),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("sqlite:////var/runs.db", "sqlite:////var/runs.db"),
        ("https://me:s3cret@mlflow.example", "https://***@mlflow.example"),
        ("postgresql://me:p@ss@db/runs?sslpassword=s3cret", "postgresql://***@db/runs?sslpassword=***"),
    ],
)
def test_the_credentials_of_a_tracking_address_are_used_but_never_written(uri: str | None, shown: str | None) -> None:
    config = ExperimentConfig(tracking=TrackingConfig(uri=uri))
    assert config.tracking.uri == uri
    assert dump(config)["tracking"]["uri"] == config.model_dump(mode="json")["tracking"]["uri"] == shown


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_the_experiments_that_come_along_are_in_order(file: Path) -> None:
    config = ExperimentConfig.load(file)
    check_names(config.criteria, [*choose(config.metrics, config.latency.concurrency), VERDICT_METRIC])
    assert load_golden(config.dataset).cases
    assert config.sources.dir
    assert config.sources.dir.is_dir()


def test_the_default_experiment_needs_no_key_and_no_network() -> None:
    default = next(file for file in EXPERIMENTS if file.stem == "default")
    config = ExperimentConfig.load(default)
    assert config.retriever.embedding.provider == "wordllama"
    assert (config.retriever.store.url, config.tracking.uri, config.dataset.hub) == (None, None, None)
    assert config.dataset.split == "test"


def test_paths_are_written_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = dump(ExperimentConfig(dataset=DatasetConfig.model_validate({"path": "golden.jsonl"})))
    assert plain["dataset"]["path"] == str(tmp_path / "golden.jsonl")
    assert plain["retriever"]["store"]["path"] is None


@pytest.mark.parametrize("ids", [("",), ("q1", " "), ("", "", "")])
def test_an_id_that_is_empty_is_refused(ids: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="expected ids of cases separated by commas, and one of them is empty"):
        DatasetConfig(path=None, hub=None, revision=None, split=None, ids=ids, limit=None)
