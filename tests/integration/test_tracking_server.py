"""A run read from MLflow's own server: by name and tag, its report over HTTP."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from evals import tracking
from evals.config.experiment import TrackingConfig
from evals.tracking.finding import read_run
from tests.support.child import environment
from tests.support.results import golden, report

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port),
        "--backend-store-uri", f"sqlite:///{tmp_path}/server.db", "--artifacts-destination", str(tmp_path / "kept"),
    ]  # fmt: skip
    extra = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(extra), stdout=quiet, stderr=quiet)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str) -> None:
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.25)
    raise AssertionError("the server did not start")


def test_a_run_on_a_server(server: str) -> None:
    config = TrackingConfig.model_validate({"experiment": "tests", "uri": server})
    tracker = tracking.start(config, "it's a run", {})
    tracker.log(report(), golden(), "ab")
    tracker.log_files({"report.json": '{"a": 1}'})
    tracker.end("FINISHED")
    MlflowClient(tracking_uri=server).set_tag(tracker.run_id, "prod", "")
    for reference in ("it's a run", tracker.run_id, "tag:prod"):
        found = read_run(reference, server, "tests")
        assert (found.run_id, found.report) == (tracker.run_id, '{"a": 1}')
