"""Runs on MLflow's own server: written, and read by name and tag."""

from collections.abc import Iterator

import pytest
from mlflow import MlflowClient

from tests.support.mlflow_process import MlflowProcess, mlflow_process
from tests.support.results import golden, report
from tests.support.tracking import found_run, start

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowProcess]:
    with mlflow_process(tmp_path_factory.mktemp("server")) as running:
        yield running


def test_a_run_on_a_server(server: MlflowProcess) -> None:
    tracker = start("it's a run", uri=server.url)
    tracker.log(report(), golden(), "ab")
    tracker.log_files({"report.json": '{"a": 1}'})
    tracker.end("FINISHED")
    MlflowClient(tracking_uri=server.url).set_tag(tracker.run_id, "prod", "")
    for reference in ("it's a run", tracker.run_id, "tag:prod"):
        found = found_run(reference, server.url)
        assert (found.run_id, found.report) == (tracker.run_id, '{"a": 1}')
