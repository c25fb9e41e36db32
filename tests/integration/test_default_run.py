"""The default experiment from end to end: what it prints, writes, logs and tells, and whether its figures are true."""

import base64
import json
import re
import warnings
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import pytrec_eval
import yaml
from jsonschema import Draft202012Validator
from mlflow import MlflowClient

from evals import Experiment
from evals.config.files import PRESETS
from evals.metrics import choose, within
from evals.report.parsing import parse
from retrievers.config import RetrieverConfig, dump
from tests.support import recorder
from tests.support.command import ROOT, python, shared_folder
from tests.support.reports import closed

pytestmark = pytest.mark.integration
Report = dict[str, Any]


@dataclass(frozen=True)
class Finished:
    folder: Path
    code: int
    out: str
    err: str

    @property
    def report_file(self) -> Path:
        [file] = (self.folder / "mlruns" / "reports").iterdir()
        return file

    @property
    def report(self) -> Report:
        loaded: Report = json.loads(self.report_file.read_text(encoding="utf-8"), parse_constant=pytest.fail)
        return loaded


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Finished:
    """Run once for all workers, among keys and addresses, in an empty folder with a store of its own.

    What it connects to and starts is written beside the folder.
    """
    with shared_folder(tmp_path_factory, worker_id, "default") as folder:
        ended, events = folder.with_suffix(".ended"), folder.with_suffix(".events")
        if not ended.exists():
            command = ["-P", recorder.__file__, events, "--retriever.store.path", folder / "store"]
            done = python(command, folder, recorder.ENVIRONMENT)
            ended.write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
        return Finished(folder, *json.loads(ended.read_text()))


@pytest.fixture(scope="module")
def report(finished: Finished) -> Report:
    return finished.report


def test_the_report_follows_the_published_schema_and_nothing_is_lost_on_reading_it(
    finished: Finished, report: Report
) -> None:
    schema = json.loads(files("evals.report").joinpath("schema.json").read_text(encoding="utf-8"))
    for each in (schema, closed(schema)):
        assert list(Draft202012Validator(each).iter_errors(report)) == []
    text = finished.report_file.read_text(encoding="utf-8")
    assert parse(text, "report").model_dump(mode="json", exclude_unset=True) == report
    done = python([ROOT / ".ci" / "check_report.py", finished.report_file, "0"], finished.folder)
    assert (done.returncode, done.stderr) == (0, ""), "CI accepts it"


def test_it_ends_by_its_criteria_complains_of_nothing_and_writes_what_it_says_it_writes(
    finished: Finished, report: Report
) -> None:
    assert (finished.code, finished.err) == (0 if report["passed"] else 1, "")
    assert report["passed"] == all(gate["passed"] for gate in report["criteria"])
    assert finished.out.splitlines()[-3:] == [
        f"Report: {finished.report_file.relative_to(finished.folder)}",
        "ragas 0.4.3: equal in all 228 scores of 4 metrics",
        "MLflow: python -m evals ui",
    ]
    assert {path.name for path in finished.folder.iterdir()} == {"mlruns", "store"}
    kept = {path.name for path in (finished.folder / "mlruns").iterdir()}
    assert kept == {"mlflow.db", ".mlflow.db.lock", "artifacts", "reports"}
    assert not list(finished.folder.rglob("*.part"))


def test_the_report_has_every_query_of_the_split_every_metric_and_every_criterion(
    report: Report, handbook: Path
) -> None:
    golden = [json.loads(line) for line in (handbook / "golden.jsonl").read_text().splitlines()]
    assert [row["id"] for row in report["queries"]] == [case["id"] for case in golden if case["split"] == "test"]
    metrics = within(choose(["*"], [1, 4]), RetrieverConfig(top_k=5, candidates=100), [])
    assert set(report["metrics"]) == {*metrics, "queries/pass_rate"}
    default = yaml.safe_load((PRESETS / "default.yaml").read_text())["criteria"]
    conditions = [(gate["metric"], gate["condition"]) for gate in report["criteria"]]
    assert dict(conditions[: len(default)]) == default
    # It is its own baseline.
    compared = [metric for metric, condition in conditions[len(default) :] if condition == "no worse"]
    assert len(compared) == len(conditions) - len(default) > 8
    assert set(compared) <= set(report["headline"]) and report["passed"]
    assert all(one.get("wins", 0) == one.get("losses", 0) == 0 for one in report["baseline"]["differences"])


def test_the_artifacts_are_the_page_the_report_the_tables_and_the_experiment(
    finished: Finished, report: Report
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's of what MLflow does
        client = MlflowClient(tracking_uri=f"sqlite:///{finished.folder / 'mlruns' / 'mlflow.db'}")
        [experiment] = [one for one in client.search_experiments() if one.name == "retrieval-evals"]
        [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and 20 < len(run.data.metrics) <= 40 and len(run.data.params) <= 30
    artifacts = Path(run.info.artifact_uri.removeprefix("file://"))
    names = {str(file.relative_to(artifacts)) for file in artifacts.rglob("*") if file.is_file()}
    assert names == {"report.html", "report.json", "settings.yaml", "tables/metrics.json", "tables/queries.json"}
    assert (artifacts / "report.json").read_bytes() == finished.report_file.read_bytes()
    table = json.loads((artifacts / "tables" / "queries.json").read_text())
    assert [row[table["columns"].index("id")] for row in table["data"]] == [row["id"] for row in report["queries"]]
    assert dump(Experiment.load(artifacts / "settings.yaml", env={})) == report["config"], "it can be run again"
    page = (artifacts / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<figure id="figure-(\w+)"', page) == ["scores", "ranks"]
    assert all(f'<td class="id">{row["id"]}<td' in page for row in report["queries"])


def test_ranking_figures_are_those_of_pytrec_eval(report: Report) -> None:
    queries = [row for row in report["queries"] if row["in_scope"]]
    cut = {"precision": "P", "recall": "recall", "map": "map_cut", "ndcg": "ndcg_cut"}
    pairs = {f"ranking/{ours}_at_{k}": f"{theirs}_{k}" for ours, theirs in cut.items() for k in (1, 3, 5)}
    pairs |= {f"ranking/hit_rate_at_{k}": f"success_{k}" for k in (1, 5)} | {"ranking/mrr_at_5": "recip_rank"}
    measures = {re.sub(r"_(\d)$", r".\1", theirs) for theirs in pairs.values()}
    judge = pytrec_eval.RelevanceEvaluator({row["id"]: row["relevant"] for row in queries}, measures)
    ranked = {
        row["id"]: {hit["chunk_id"]: 1 / place for place, hit in enumerate(row["retrieved"], 1)} for row in queries
    }
    found = judge.evaluate({name: run for name, run in ranked.items() if run})  # it leaves out what found nothing
    for ours, theirs in pairs.items():
        values = [found[row["id"]][theirs] if row["retrieved"] else 0.0 for row in queries]
        assert report["metrics"][ours]["value"] == pytest.approx(fmean(values), abs=1e-12), ours


def test_nothing_but_this_machine_is_connected_to_and_no_secret_is_written(finished: Finished) -> None:
    events = json.loads(finished.folder.with_suffix(".events").read_text())
    assert {kind for kind, _ in events} <= {"process"}
    assert {started for _, started in events} <= {"git", "uname"}, "they ask for the commit and the machine"
    paths = [path for path in finished.folder.rglob("*") if path.is_file()]
    assert {"mlflow.db", "report.json", "queries.json", "settings.yaml"} <= {path.name for path in paths}
    secret = recorder.SECRET.encode()
    encoded = base64.b64encode(b"me:" + secret + b"-uri")
    for path in paths:
        assert secret not in path.read_bytes() and encoded not in path.read_bytes(), path
    assert recorder.SECRET not in finished.out + finished.err


# Before it has anything to do

HEAVY = set(
    "cohere datasets langchain langchain_core langchain_qdrant matplotlib mlflow numpy qdrant_client ragas scipy "
    "wordllama".split()
)


@pytest.mark.parametrize(
    "command", ["-m evals.run --print-config", "-m evals.compare --help", "-m retrievers search --help"]
)
def test_nothing_heavy_is_imported_to_answer(tmp_path: Path, command: str) -> None:
    done = python(["-X", "importtime", *command.split()], tmp_path)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "argparse" in imported and not HEAVY & imported
    assert list(tmp_path.iterdir()) == []
