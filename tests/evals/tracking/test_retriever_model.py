"""The measured retriever in MLflow's registry, loaded by another process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from evals.run.command import main
from retrievers.errors import ConfigError
from tests.support.child import environment
from tests.support.experiment import make_experiment, settings

LOAD = """
import json, sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
queries = json.loads(sys.argv[2])
retriever = mlflow.langchain.load_model("models:/robots/1")
found = [[d.metadata["chunk_id"] for d in retriever.invoke(query)] for query in queries]
retriever.close()
answers = mlflow.pyfunc.load_model("models:/robots/1").predict([{"query": query} for query in queries])
print(json.dumps([found, [[d["metadata"]["chunk_id"] for d in answer] for answer in answers]]))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of MLflow and what it imports
def test_a_fresh_process_loads_it_and_gets_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_experiment(tmp_path / "work")
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("QDRANT_API_KEY", "SECRET-0123456789")
    flags = ["--tracking.enabled", "true", "--tracking.register-as", "robots", "--output", "report.json", "--no-gate"]
    assert main(["--config", "experiment.yaml", *flags]) == 0
    rows = json.loads(Path("report.json").read_text(encoding="utf-8"))["queries"]
    wanted = [[hit["chunk_id"] for hit in row["retrieved"]] for row in rows]
    assert max(map(len, wanted)) > 1
    uri = f"sqlite:///{made.folder / 'mlruns' / 'mlflow.db'}"
    done = subprocess.run(
        [sys.executable, "-c", LOAD, uri, json.dumps([row["query"] for row in rows])],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [wanted, wanted]

    client = MlflowClient(uri)
    version = client.get_model_version("robots", "1")
    run = client.get_run(version.run_id)
    assert run.info.status == "FINISHED"
    assert version.source == f"models:/{run.outputs.model_outputs[0].model_id}"
    files = [file for file in (made.folder / "mlruns").rglob("*") if file.is_file()]
    assert any(file.name == "retriever_code.py" for file in files)
    assert not [file for file in files if b"SECRET" in file.read_bytes()]


def test_a_retriever_of_the_users_is_refused_before_the_run(tmp_path: Path) -> None:
    made = make_experiment(tmp_path)
    foreign: Any = {"retriever": {"python": "tests.support.foreign:plain"}}
    made.write_config({"name": "x", **foreign, "tracking": {"register_as": "robots"}})
    with pytest.raises(ConfigError, match=r"tracking\.register_as: python 'tests.*' is a retriever of its own; log it"):
        settings(made)
