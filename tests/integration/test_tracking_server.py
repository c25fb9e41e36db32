"""Runs on MLflow's own server: written, and read by name and id."""

from collections.abc import Iterator

import pytest

from evals.tracking.find import open_run
from tests.support.mlflow_process import MlflowProcess, mlflow_process
from tests.support.results import report
from tests.support.tracking import run_of, traces_of, written

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowProcess]:
    with mlflow_process(tmp_path_factory.mktemp("server")) as running:
        yield running


def test_a_run_on_a_server(server: MlflowProcess) -> None:
    made = report().model_copy(update={"run": "it's a run"})
    done = written(made, uri=server.url)
    assert not written(made, uri=server.url).is_new
    assert len(traces_of(run_of(done, server.url), server.url)) == 3
    for reference in ("it's a run", done.run_id):
        found = open_run(reference, server.url, "tests")
        assert found.tracked and (found.tracked.run_id, found.report.run) == (done.run_id, "it's a run")
