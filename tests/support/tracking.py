"""Runs in MLflow below the working directory, and a server of MLflow's that refuses on demand."""

from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run, Trace

from evals.config.experiment import TrackingConfig
from evals.report.model import Report
from evals.tracking.runs import Written, write_run
from evals.tracking.store import tracking_uri
from retrievers.text.shown import json_text
from tests.support.experiment import silent
from tests.support.loopback import LoopbackServer, Reply, Request


def text_of(report: Report) -> str:
    return json_text(report.plain(), indent=None)


def written(report: Report, **settings: Any) -> Written:
    tracking = TrackingConfig.model_validate({"experiment": "tests", **settings})
    return write_run(report, text_of(report), tracking, silent)


def client(uri: str | None = None) -> MlflowClient:
    return MlflowClient(tracking_uri=tracking_uri(uri))


def run_of(done: Written, uri: str | None = None) -> Run:
    return client(uri).get_run(done.run_id)


def cells_of(run: Run, uri: str | None = None) -> list[Run]:
    below = f"tags.`mlflow.parentRunId` = '{run.info.run_id}'"
    return list(client(uri).search_runs([run.info.experiment_id], below, order_by=["attributes.start_time DESC"]))


def traces_of(run: Run, uri: str | None = None) -> list[Trace]:
    asked: dict[str, Any] = {"locations": [run.info.experiment_id], "order_by": ["timestamp_ms DESC"]}
    return list(client(uri).search_traces(run_id=run.info.run_id, max_results=100, **asked))


def artifact(run: Run, name: str) -> Path:
    return Path(run.info.artifact_uri.removeprefix("file://")) / name


class MlflowServer(LoopbackServer):
    @property
    def statuses(self) -> list[str]:
        updates = [request.body for request in self.requests if request.path.endswith("runs/update")]
        return [body["status"] for body in updates if "status" in body]

    def answer(self, request: Request) -> Reply:
        experiment = {"experiment_id": "1", "name": "x", "artifact_location": "mlflow-artifacts:/1"}
        info = {"run_id": "r1", "run_uuid": "r1", "experiment_id": "1", "status": "RUNNING", "start_time": 1}
        if request.path.endswith("runs/update"):
            return Reply.json({"run_info": info})
        return Reply.json({"experiment": experiment, "run": {"info": info, "data": {}}})
