"""Golden data to and from MLflow's evaluation datasets, by the commands."""

import json
import shutil
from pathlib import Path

import mlflow
import pytest

from evals.golden.command import main
from evals.golden.in_memory import golden_set
from evals.tracking.client import current
from tests.support.experiment import CASES

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow and what it imports


@pytest.fixture
def uri(tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    shutil.copy(mlflow_database, tmp_path)
    Path("golden.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def test_a_round_trip_keeps_every_case(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    export = ["export", "mlflow", "golden.jsonl", "--name", "it's mine", "--tracking.uri", uri]
    before = mlflow.get_tracking_uri()
    assert main(export) == 0
    assert main(export) == 2
    assert "already; give another --name, or replace it with --force" in capsys.readouterr().err
    assert main([*export, "--force"]) == 0
    assert main(["import", "mlflow", "it's mine", "-o", "back.jsonl", "--tracking.uri", uri]) == 0
    assert golden_set("back.jsonl").cases == golden_set("golden.jsonl").cases
    assert capsys.readouterr().out.endswith("back.jsonl: 6 cases of MLflow's dataset \"it's mine\"\n")
    assert main(["import", "mlflow", "its mine", "-o", "none.jsonl", "--tracking.uri", uri]) == 2
    assert "no evaluation dataset 'its mine'; did you mean" in capsys.readouterr().err
    assert mlflow.get_tracking_uri() == before and not Path("none.jsonl").exists()


def test_a_dataset_of_mlflows_tutorial_becomes_skeletons(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with current(uri):
        dataset = mlflow.genai.datasets.create_dataset(name="tutorial", experiment_id="0")
        dataset.merge_records(
            [
                {
                    "inputs": {"question": "What is MLflow?"},
                    "expectations": {"expected_facts": ["It is open source.", "It tracks experiments."]},
                }
            ]
        )
    assert main(["import", "mlflow", "tutorial", "-o", "golden.jsonl", "--tracking.uri", uri]) == 0
    assert "1 of them are without evidence, so that only a judge can score" in capsys.readouterr().out
    assert json.loads(Path("golden.jsonl").read_text(encoding="utf-8")) == {
        "id": "case-001",
        "query": "What is MLflow?",
        "reference_answer": "It is open source. It tracks experiments.",
    }


@pytest.mark.parametrize("address", ["file:///tmp/runs", "./mlruns", "mlruns"])
def test_a_store_of_files_is_refused(address: str, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "mlflow", "golden.jsonl", "--name", "x", "--tracking.uri", address]) == 2
    assert "in a SQL database alone, not in the files of" in capsys.readouterr().err
