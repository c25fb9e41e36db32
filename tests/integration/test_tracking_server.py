"""Runs and golden data on MLflow's own server: read by name and tag, written and read back over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import mlflow
import pytest
from mlflow import MlflowClient

from evals import tracking
from evals.config.experiment import TrackingConfig
from evals.golden.command import main
from evals.golden.in_memory import golden_set
from evals.tracking.finding import read_run
from tests.support.command import call
from tests.support.experiment import CASES, make_experiment
from tests.support.mlflow_process import MlflowProcess, mlflow_process
from tests.support.results import golden, report

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowProcess]:
    with mlflow_process(tmp_path_factory.mktemp("server")) as running:
        yield running


def test_a_run_on_a_server(server: MlflowProcess) -> None:
    config = TrackingConfig.model_validate({"experiment": "tests", "uri": server.url})
    tracker = tracking.start(config, "it's a run", {})
    tracker.log(report(), golden(), "ab")
    tracker.log_files({"report.json": '{"a": 1}'})
    tracker.end("FINISHED")
    MlflowClient(tracking_uri=server.url).set_tag(tracker.run_id, "prod", "")
    for reference in ("it's a run", tracker.run_id, "tag:prod"):
        found = read_run(reference, server.url, "tests")
        assert (found.run_id, found.report) == (tracker.run_id, '{"a": 1}')


@pytest.mark.filterwarnings("ignore")  # of MLflow and what it imports
def test_golden_data_to_a_server_and_back(
    server: MlflowProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(make_experiment(tmp_path).folder)
    before, at = mlflow.get_tracking_uri(), ["--tracking.uri", server.url]
    export = ["export", "mlflow", "golden.jsonl", "--name", "it's mine", *at]
    assert call(main, export, capsys).code == 0
    again = call(main, export, capsys)
    assert again.code == 2 and "already; give another --name, or replace it with --force" in again.err
    assert call(main, [*export, "--force"], capsys).code == 0
    done = call(main, ["import", "mlflow", "it's mine", "-o", "back.jsonl", *at], capsys)
    assert (done.code, done.err) == (0, "") and "back.jsonl: 6 cases" in done.out
    assert golden_set("back.jsonl").cases == golden_set("golden.jsonl").cases
    [dataset] = MlflowClient(server.url).search_datasets()
    records = f"{server.url}/api/3.0/mlflow/datasets/{dataset.dataset_id}/records?max_results=100"
    with urlopen(records, timeout=60) as answer:
        asked = {record["inputs"]["query"] for record in json.loads(json.load(answer)["records"])}
    assert dataset.name == "it's mine" and asked == {case["query"] for case in CASES}
    wrong = call(main, ["import", "mlflow", "its mine", "-o", "none.jsonl", *at], capsys)
    assert wrong.code == 2 and "no evaluation dataset 'its mine'; did you mean" in wrong.err
    assert mlflow.get_tracking_uri() == before and not Path("none.jsonl").exists()
