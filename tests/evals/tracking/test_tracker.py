import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.entities import Run
from mlflow.store.tracking.dbmodels.models import SqlDataset
from sqlalchemy import event

from evals import tracking
from evals.errors import TrackingError
from evals.tracking.values import metric_values
from tests.support.mlflow_server import MlflowServer, mlflow_server
from tests.support.results import golden, report
from tests.support.tracking import artifact, client, config, start

SETTINGS = {
    "seed": 0,
    "retriever": {"top_k": 3, "store": {"url": None}},
    "criteria": {"ranking/mrr_at_10": ">= 0.1"},
    "tracking": {"uri": "http://***@host", "experiment": "tests"},
    "text": "x" * 10_000,
}


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """A run that was logged whole, as MLflow gives it back."""
    tracker = tracking.start(config(), "first", SETTINGS)
    tracker.log(report(), golden(), "ab")
    tracker.log_files({"report.json": '{"a": 1}', "experiment.yaml": "a: 1", "figures/one.svg": "<svg/>"})
    tracker.end("FINISHED")
    return client().get_run(tracker.run_id)


def test_the_run_has_its_name_its_experiment_and_ends(run: Run) -> None:
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert client().get_experiment(run.info.experiment_id).name == "tests"


def test_two_runs_that_enter_the_same_golden_data_at_once_both_have_it(folder: Path) -> None:
    """Between MLflow's look for the golden data and its entry another run enters it: MLflow refuses the second."""
    fresh = {"experiment": "two at once"}
    first, second = start("first of two", **fresh), start("second of two", **fresh)

    def overtaken(*_: object) -> None:
        second.log(report(), golden(), "b")

    event.listen(SqlDataset, "init", overtaken, once=True)
    first.log(report(), golden(), "a")
    inputs = [client().get_run(tracker.run_id).inputs.dataset_inputs for tracker in (first, second)]
    assert [[entry.dataset.digest for entry in entries] for entries in inputs] == [[golden().fingerprint[:36]]] * 2


def test_the_database_and_the_artifacts_are_under_mlruns(run: Run, folder: Path) -> None:
    assert (folder / "mlruns" / "mlflow.db").stat().st_size > 0
    assert artifact(run, "").is_relative_to(folder / "mlruns" / "artifacts")


def test_parameters_are_settings_in_force_but_not_where_runs_are_kept(run: Run) -> None:
    assert run.data.params == {"retriever.top_k": "3", "text": "x" * 6_000}


def test_metrics_are_those_that_have_a_value_and_all_are_in_a_table(run: Run) -> None:
    assert run.data.metrics == metric_values(report())
    table = json.loads(artifact(run, "metrics.json").read_text())
    rows = [dict(zip(table["columns"], values, strict=True)) for values in table["data"]]
    assert {row["metric"]: row["ci_low"] for row in rows} == {
        name: metric.ci_low for name, metric in report().metrics.items()
    }


def test_tags_are_what_runs_are_filtered_by_and_versions_are_an_artifact(run: Run) -> None:
    own = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.")}
    assert own == {
        "mode": "semantic",
        "collection": "robots",
        "dataset": "golden.jsonl",
        "passed": "False",
        "role": "run",
        "criteria.failed": "content/topic_match",
        "code.commit": "abc-dirty",
        "report.sha256": "ab",
    }
    facts = json.loads(artifact(run, "facts.json").read_text())
    assert (facts["dataset_fingerprint"], facts["versions"]["ragas"]) == ("beef", "0.4.3")


def test_the_runs_page_says_what_it_came_to(run: Run) -> None:
    shown = run.data.tags["mlflow.note.content"]
    assert shown.startswith("1 of 3 queries pass (33%): hit rate 0.500; main cause of failure: ")
    assert "1 of 2 criteria are not met." in shown
    assert "| content/topic_match" in shown
    assert "**FAIL**" in shown


def test_the_golden_data_is_the_runs_input(run: Run) -> None:
    [found] = run.inputs.dataset_inputs
    assert (found.dataset.name, found.dataset.digest) == ("golden", golden().fingerprint[:36])
    assert {tag.key: tag.value for tag in found.tags} == {"mlflow.data.context": "evaluation"}


def test_a_hub_data_set_is_named_as_the_source(run: Run) -> None:
    tracker = start("hub")
    tracker.log(report(), replace(golden(), name="someone/queries"), "ab")
    [found] = client().get_run(tracker.run_id).inputs.dataset_inputs
    assert (found.dataset.name, json.loads(found.dataset.source)["path"]) == ("queries", "someone/queries")


def test_the_table_has_a_row_a_query_and_a_column_a_metric(run: Run) -> None:
    table = json.loads(artifact(run, "queries.json").read_text())
    rows = [dict(zip(table["columns"], values, strict=True)) for values in table["data"]]
    assert [(row["id"], row["outcome"]) for row in rows] == [
        ("right", "SUCCESS"),
        ("wrong", "FAILURE"),
        ("empty", "FAILURE"),
    ]
    assert rows[0]["retrieved"] == "1. 0.900 a.md:1-2\n2. 0.500 b.md:2-3"
    assert [row["ranking/hit_rate_at_5"] for row in rows] == [1.0, None, 0.0]
    assert [row["ragas/id_context_recall"] for row in rows] == [0.5, None, None]
    assert rows[2]["reasons"].startswith("returned 0 chunks, expected at least 1; and more")


def test_files_and_figures_are_artifacts(run: Run) -> None:
    assert artifact(run, "report.json").read_text() == '{"a": 1}'
    assert artifact(run, "experiment.yaml").read_text() == "a: 1"
    assert artifact(run, "figures/one.svg").read_text() == "<svg/>"


def test_a_second_run_joins_the_first(run: Run) -> None:
    tracker = start("second")
    tracker.end("KILLED")
    again = client().get_run(tracker.run_id)
    assert (again.info.experiment_id, again.info.status) == (run.info.experiment_id, "KILLED")


def test_what_the_server_refuses_later_is_said_and_the_run_still_ended(server: MlflowServer) -> None:
    tracker = start("r", uri=server.url)
    server.refuse = ("runs/log-batch",)
    with pytest.raises(TrackingError, match="refused as the test wants it"):
        tracker.log(report(), golden(), "ab")
    tracker.end("FAILED")
    assert server.statuses == ["FAILED"]


def test_a_server_that_goes_away_is_said_and_a_run_it_can_no_longer_end_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with mlflow_server() as server:
        tracker = start("r", uri=server.url.replace("://", "://me:s3cret@"))
    with pytest.raises(TrackingError, match="MLflow at http") as caught:
        tracker.log(report(), golden(), "ab")
    with caplog.at_level(logging.ERROR, "evals.tracking"):
        tracker.end("FAILED")
    assert "MLflow run r1 could not be ended as FAILED" in caplog.text
    assert "s3cret" not in caplog.text + str(caught.value)
