"""The default experiment from end to end: what it prints, writes, logs and tells, and whether its figures are true."""

import base64
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping
from functools import reduce
from importlib.resources import files
from math import isclose
from operator import getitem
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import pytrec_eval
import yaml
from jsonschema import Draft202012Validator
from mlflow import MlflowClient
from mlflow.entities import Run
from scipy.stats import binomtest

from evals import Experiment
from evals.config.files import PRESETS
from evals.metrics import choose
from retrievers.config import RetrieverConfig, dump
from tests.support.child import Finished, python
from tests.support.json_schema import closed
from tests.support.recorder import SECRET
from tests.support.reports import read_back

pytestmark = pytest.mark.integration
Row = Mapping[str, Any]
TIMED = ("time_ms", "stages_ms")
HEAVY = {"ragas", "mlflow", "qdrant_client", "langchain", "langchain_core", "datasets", "scipy", "matplotlib", "numpy"}
USUAL = tuple(f"retriever.{name}" for name in ("mode", "top_k", "threshold", "rerank", "embedding.model"))
"""The settings that every run has as parameters in MLflow."""


@pytest.fixture(scope="module")
def report(finished: Finished) -> dict[str, Any]:
    return finished.report


@pytest.fixture(scope="module")
def run(finished: Finished) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's of what MLflow does
        client = MlflowClient(tracking_uri=f"sqlite:///{finished.folder / 'mlruns' / 'mlflow.db'}")
        [experiment] = [one for one in client.search_experiments() if one.name == "retrieval-evals"]
        [found] = client.search_runs([experiment.experiment_id])
    return found


@pytest.fixture(scope="module")
def artifacts(run: Run) -> Path:
    return Path(run.info.artifact_uri.removeprefix("file://"))


def test_the_report_follows_the_published_schema_and_nothing_is_lost_on_reading_it(finished: Finished) -> None:
    schema = json.loads(files("evals.report").joinpath("schema.json").read_text(encoding="utf-8"))
    assert list(Draft202012Validator(schema).iter_errors(finished.report)) == []
    assert list(Draft202012Validator(closed(schema)).iter_errors(finished.report)) == []
    assert read_back(finished.report_file.read_text(encoding="utf-8")) == finished.report


def test_ci_accepts_the_report(report: dict[str, Any], tmp_path: Path) -> None:
    file, script = tmp_path / "report.json", Path(__file__).parents[2] / ".ci" / "check_report.py"
    file.write_text(json.dumps(report), encoding="utf-8")
    done = subprocess.run([sys.executable, script, file, "0"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def rows(report: Mapping[str, Any], *, in_scope: bool) -> list[Row]:
    return [row for row in report["queries"] if row["in_scope"] == in_scope]


def returned(row: Row) -> list[str]:
    return [hit["chunk_id"] for hit in row["retrieved"]]


def test_it_ends_by_its_criteria_and_complains_of_nothing(finished: Finished, report: dict[str, Any]) -> None:
    assert finished.err == ""
    assert finished.code == (0 if report["passed"] else 1)
    assert report["passed"] == all(gate["passed"] for gate in report["criteria"])
    report_line = f"Report: {finished.report_file.relative_to(finished.folder)}"
    checked, shown = "ragas 0.4.3: equal (228 scores by its 4 classes)", "MLflow: python -m evals ui"
    assert finished.out.splitlines()[-3:] == [report_line, checked, shown]


def test_it_writes_below_its_folder_what_it_says_it_writes(finished: Finished) -> None:
    assert {path.name for path in finished.folder.iterdir()} == {"mlruns", "store", "log.jsonl"}
    assert {path.name for path in (finished.folder / "mlruns").iterdir()} == {
        "mlflow.db", ".mlflow.db.lock", "artifacts", "reports",
    }  # fmt: skip
    assert not list(finished.folder.rglob("*.part"))
    for line in (finished.folder / "log.jsonl").read_text().splitlines():
        assert json.loads(line)["level"] in ("DEBUG", "INFO")


def test_the_report_has_every_query_of_the_split_every_metric_and_every_criterion(
    report: dict[str, Any], handbook: Path
) -> None:
    golden = [json.loads(line) for line in (handbook / "golden.jsonl").read_text().splitlines()]
    assert [row["id"] for row in report["queries"]] == [case["id"] for case in golden if case["split"] == "test"]
    assert set(report["metrics"]) == {
        *choose(["*"], [1, 4], reach=RetrieverConfig(top_k=5, candidates=100)),
        "queries/pass_rate",
    }
    default = yaml.safe_load((PRESETS / "default.yaml").read_text())
    conditions = [(gate["metric"], gate["condition"]) for gate in report["criteria"]]
    assert dict(conditions[: len(default["criteria"])]) == default["criteria"]
    # It is its own baseline.
    compared = [metric for metric, condition in conditions[len(default["criteria"]) :] if condition == "no worse"]
    assert len(compared) == len(conditions) - len(default["criteria"]) > 8
    assert set(compared) <= set(report["headline"]) and report["passed"]
    assert all(one.get("wins", 0) == one.get("losses", 0) == 0 for one in report["baseline"]["differences"])


def test_the_run_in_mlflow_is_finished_and_has_the_settings_that_matter(run: Run, report: dict[str, Any]) -> None:
    assert run.info.status == "FINISHED"
    facts = report["facts"]
    told = {"collection": facts["collection"]["name"], "code.commit": facts["commit"], "passed": str(report["passed"])}
    assert told.items() <= run.data.tags.items()
    usual = {name: str(reduce(getitem, name.split("."), report["config"])) for name in USUAL}
    assert usual.items() <= run.data.params.items()
    assert len(run.data.params) <= 30


def test_the_run_in_mlflow_has_the_figures_of_the_report(run: Run, report: dict[str, Any]) -> None:
    assert 20 < len(run.data.metrics) <= 40
    for name, value in run.data.metrics.items():
        assert value == pytest.approx(report["metrics"][name]["value"], rel=1e-5)


def test_the_artifacts_are_the_page_the_report_the_tables_and_the_experiment(
    artifacts: Path, finished: Finished, report: dict[str, Any]
) -> None:
    names = {str(file.relative_to(artifacts)) for file in artifacts.rglob("*") if file.is_file()}
    assert names == {"report.html", "report.json", "settings.yaml", "tables/metrics.json", "tables/queries.json"}
    assert (artifacts / "report.json").read_bytes() == finished.report_file.read_bytes()
    table = json.loads((artifacts / "tables" / "queries.json").read_text())
    assert [row[table["columns"].index("id")] for row in table["data"]] == [row["id"] for row in report["queries"]]
    assert dump(Experiment.load(artifacts / "settings.yaml", env={})) == report["config"], "it can be run again"
    page = (artifacts / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<figure id="figure-(\w+)"', page) == ["scores", "ranks"]
    assert all(f'<td class="nowrap">{row["id"]}<td' in page for row in report["queries"])


def test_every_mean_is_that_of_its_queries(report: dict[str, Any]) -> None:
    averaged = 0
    for name, metric in report["metrics"].items():
        scores = [score for score in report["scores"].get(name, []) if score is not None]
        values = [score for score in scores if not isinstance(score, dict)]
        if scores:
            averaged += 1
            assert metric["n"] == len(values)
            assert metric["n_unscored"] == sum(isinstance(score, dict) and "unscored" in score for score in scores)
            expected = pytest.approx(fmean(values), abs=1e-12) if values else None
            assert (name, metric["value"]) == (name, expected)
    assert averaged > 40


def test_relevance_is_over_all_queries_in_scope_and_abstention_over_all_others(report: dict[str, Any]) -> None:
    inside, outside = len(rows(report, in_scope=True)), len(rows(report, in_scope=False))
    assert (inside, outside) == (report["facts"]["in_scope"], report["facts"]["out_of_scope"])
    for name, metric in report["metrics"].items():
        if name.startswith(("ranking/", "candidates/", "ragas/")) and name != "ranking/expected_top3_in_5":
            assert (name, metric["n"], metric["n_unscored"]) == (name, inside, 0)
    assert report["metrics"]["scope/abstention"]["n"] == outside


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        *((f"ranking/hit_rate_at_{k}", f"success_{k}") for k in (1, 5)),
        *((f"ranking/precision_at_{k}", f"P_{k}") for k in (1, 3, 5)),
        *((f"ranking/recall_at_{k}", f"recall_{k}") for k in (1, 3, 5)),
        *((f"ranking/map_at_{k}", f"map_cut_{k}") for k in (1, 3, 5)),
        *((f"ranking/ndcg_at_{k}", f"ndcg_cut_{k}") for k in (1, 3, 5)),
        ("ranking/mrr_at_5", "recip_rank"),
    ],
)
def test_ranking_figures_are_those_of_pytrec_eval(report: dict[str, Any], ours: str, theirs: str) -> None:
    queries = rows(report, in_scope=True)
    measure = theirs if theirs == "recip_rank" else "{}.{}".format(*theirs.rsplit("_", 1))
    judge = pytrec_eval.RelevanceEvaluator({row["id"]: row["relevant"] for row in queries}, {measure})
    ranked = {row["id"]: {key: 1 / place for place, key in enumerate(returned(row), 1)} for row in queries}
    found = judge.evaluate({name: run for name, run in ranked.items() if run})  # it leaves out what found nothing
    values = [found[row["id"]][theirs] if row["retrieved"] else 0.0 for row in queries]
    assert report["metrics"][ours]["value"] == pytest.approx(fmean(values), abs=1e-12)


def test_a_row_shows_a_whole_answer_where_the_best_cosine_reaches_the_threshold(report: dict[str, Any]) -> None:
    retriever = report["config"]["retriever"]
    assert retriever["threshold_on"] == "best"
    for row in report["queries"]:
        answered = row["top_score"] >= retriever["threshold"]
        assert (len(row["retrieved"]), len(row["best_below_threshold"])) == ((5, 0) if answered else (0, 3))
        scores = [hit["score"] for hit in row["retrieved"] or row["best_below_threshold"]]
        assert scores == sorted(scores, reverse=True)


def test_scope_figures_follow_from_the_best_scores(report: dict[str, Any]) -> None:
    inside = [row["top_score"] for row in rows(report, in_scope=True)]
    outside = [row["top_score"] for row in rows(report, in_scope=False)]
    threshold = report["config"]["retriever"]["threshold"]
    metrics = report["metrics"]
    assert metrics["scope/max_out_of_scope_score"]["value"] == max(outside)
    assert metrics["scope/abstention"]["value"] == fmean(score < threshold for score in outside)
    assert metrics["scope/false_answer"]["value"] == fmean(score >= threshold for score in outside)
    pairs = [(a > b) + (a == b) / 2 for a in inside for b in outside]
    assert metrics["scope/auroc"]["value"] == pytest.approx(fmean(pairs), abs=1e-12)


def test_verdicts_add_up(report: dict[str, Any]) -> None:
    outcomes = [row["outcome"] for row in report["queries"]]
    rate = fmean(outcome == "SUCCESS" for outcome in outcomes)
    assert report["metrics"]["queries/pass_rate"]["value"] == rate
    assert all((row["outcome"] == "SUCCESS") == (not row["reasons"]) for row in report["queries"])


@pytest.mark.parametrize("name", ["queries/pass_rate", "ranking/hit_rate_at_5", "scope/abstention", "determinism/rate"])
def test_intervals_of_proportions_are_wilsons(report: dict[str, Any], name: str) -> None:
    metric = report["metrics"][name]
    expected = binomtest(round(metric["value"] * metric["n"]), metric["n"]).proportion_ci(0.95, "wilson")
    assert (metric["ci_low"], metric["ci_high"]) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_intervals_hold_their_value_and_counts_add_up(report: dict[str, Any]) -> None:
    for name, metric in report["metrics"].items():
        if metric["ci_low"] is not None:
            assert metric["ci_low"] <= metric["value"] <= metric["ci_high"], name
        if metric["value"] is None:
            assert metric["note"], name
        assert metric["n_failed"] == 0, name


# Among keys and addresses: it uses none, and tells none


@pytest.fixture
def events(events_file: Path) -> list[list[str]]:
    found: list[list[str]] = json.loads(events_file.read_text())
    return found


@pytest.mark.slow
def test_nothing_but_this_machine_is_connected_to(watched: Finished, events: list[list[str]]) -> None:
    assert (watched.code in (0, 1), watched.err) == (True, "")
    assert {path.name for path in watched.folder.iterdir()} == {"mlruns", "store", "log.jsonl"}
    assert [event for event in events if event[0] != "process"] == []


@pytest.mark.slow
def test_no_process_is_started_but_those_that_ask_for_the_commit_and_the_machine(events: list[list[str]]) -> None:
    assert {event[1] for event in events if event[0] == "process"} <= {"git", "uname"}


@pytest.mark.slow
def test_keys_and_settings_of_the_environment_change_no_score(watched: Finished, finished: Finished) -> None:
    ours, theirs = watched.report, finished.report
    assert ours["config"]["retriever"]["store"].pop("path") != theirs["config"]["retriever"]["store"].pop("path")
    assert ours["config"] == theirs["config"]
    # The engine adds up the weights of terms in an order of its own, so two indexings differ by about 1e-8.
    assert same([without_times(row) for row in ours["queries"]], [without_times(row) for row in theirs["queries"]])
    for name, metric in theirs["metrics"].items():
        if not name.startswith("latency/"):
            assert ours["metrics"][name] == metric
    for name in ("dataset_fingerprint", "collection", "embedding", "versions", "seed"):
        assert ours["facts"][name] == theirs["facts"][name]


def same(one: Any, other: Any) -> bool:
    """Return True for equal JSON values, numbers within 1e-6."""
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMED}


@pytest.mark.slow
def test_no_secret_is_written_anywhere(watched: Finished) -> None:
    files = [path for path in watched.folder.rglob("*") if path.is_file()]
    assert {"mlflow.db", "report.json", "queries.json", "settings.yaml", "log.jsonl"} <= {path.name for path in files}
    encoded = base64.b64encode(f"me:{SECRET}-uri".encode())
    for name, data in [(str(path), path.read_bytes()) for path in files] + [
        ("stdout", watched.out.encode()),
        ("stderr", watched.err.encode()),
    ]:
        assert SECRET.encode() not in data, name
        assert encoded not in data, name


# Before it has anything to do


@pytest.mark.parametrize(
    ("command", "argument"), [("evals.run", "--help"), ("evals.run", "--print-config"), ("evals.compare", "--help")]
)
def test_nothing_heavy_is_imported_to_answer(tmp_path: Path, command: str, argument: str) -> None:
    done = python(["-X", "importtime", "-m", command, argument], tmp_path)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert not HEAVY & imported
    assert list(tmp_path.iterdir()) == []
