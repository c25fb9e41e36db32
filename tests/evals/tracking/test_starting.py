import logging
import threading
from pathlib import Path

import pytest

from evals import tracking
from evals.errors import TrackingError
from evals.report.traces import kept_traces
from tests.support.loopback import free_port
from tests.support.mlflow_server import MlflowServer
from tests.support.results import golden, report
from tests.support.tracking import client, config, start


def test_the_environment_does_not_redirect_a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = start("before")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "another")
    monkeypatch.setenv("MLFLOW_RUN_ID", "deadbeef")
    tracker = start("third")
    tracker.log(report(), golden(), "ab")
    tracker.end("FINISHED")
    assert client().get_run(tracker.run_id).info.experiment_id == before.experiment_id


def test_loggers_are_as_loud_after_as_before(folder: Path) -> None:
    logger = logging.getLogger("mlflow")
    before = logger.level
    start("quiet").end("FINISHED")
    assert logger.level == before


@pytest.mark.slow
def test_runs_that_begin_at_once_share_a_database_that_none_of_them_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    monkeypatch.chdir(tmp_path)
    trackers: list[tracking.Tracker] = []
    threads = [threading.Thread(target=lambda: trackers.append(start("r", uri=uri))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tracker.run_id for tracker in trackers}) == 3
    assert len({tracker.experiment_id for tracker in trackers}) == 1


def test_a_server_that_does_not_answer() -> None:
    uri = f"http://me:s3cret@127.0.0.1:{free_port()}"
    with pytest.raises(TrackingError) as caught:
        start("r", uri=uri)
    assert f"MLflow at {uri.replace('me:s3cret', '***')} failed: MlflowException" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_run_whose_parameters_are_refused_ends_as_failed(server: MlflowServer) -> None:
    server.refuse = ("runs/log-batch",)
    with pytest.raises(TrackingError, match="refused as the test wants it"):
        tracking.start(config(uri=server.url), "r", {"seed": 1})
    assert server.statuses == ["FAILED"]


def test_mlflow_prints_nothing(server: MlflowServer, capsys: pytest.CaptureFixture[str]) -> None:
    start("r", uri=server.url.replace("://", "://me:s3cret@")).end("FINISHED")
    assert server.statuses == ["FINISHED"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, "log in first"),
        (401, {"detail": "Unauthorized"}),
        (403, "no"),
        (403, {"error_code": "PERMISSION_DENIED", "message": "no"}),
    ],
)
def test_a_server_that_wants_credentials_is_told_with_their_variables(
    server: MlflowServer, status: int, body: object
) -> None:
    server.errors = {"experiments/get-by-name": (status, body)}
    with pytest.raises(TrackingError, match=r"MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.*_TOKEN"):
        start("r", uri=server.url)


def test_a_deleted_experiment_is_named_with_the_way_back(folder: Path) -> None:
    tracker = start("r", experiment="gone")
    client().delete_experiment(tracker.experiment_id)
    with pytest.raises(TrackingError, match=rf"'gone' was deleted.* restore --experiment-id {tracker.experiment_id}"):
        start("again", experiment="gone")


def test_an_experiment_that_another_run_makes_meanwhile_is_shared(server: MlflowServer) -> None:
    taken = 400, {"error_code": "RESOURCE_ALREADY_EXISTS", "message": "it exists"}
    server.errors = {"experiments/create": taken}
    server.once = {"experiments/get-by-name": (404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no"})}
    assert start("r", uri=server.url).experiment_id == "1"


@pytest.mark.parametrize("name", ["a/b", "x" * 300, 'it\'s "both"', "…/☃"])
def test_any_name_of_a_run_is_taken(folder: Path, name: str) -> None:
    assert client().get_run(start(name).run_id).info.run_name == name[:250]


def test_an_older_server_that_knows_no_traces_is_said_in_a_line(
    server: MlflowServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.errors = {"mlflow/traces": (404, "no such page")}
    start("r", uri=server.url).log_traces(kept_traces(report(), 10))
    [line] = [record.getMessage() for record in caplog.records if record.name.startswith("evals")]
    assert line.startswith("MLflow has 0 of 3 traces of the queries (")
    assert line.endswith("; an older server knows no traces: MLflow has all else")
