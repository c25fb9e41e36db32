"""Runs in MLflow below the working directory."""

from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run, Trace

from evals.config.experiment import TrackingConfig
from evals.report.model import Report
from evals.tracking.runs import Written, write_run
from evals.tracking.store import local_uri
from retrievers.text.printable import json_text
from tests.support.experiment import silent


def config(**settings: Any) -> TrackingConfig:
    """Return the settings of tracking, in the experiment `tests`."""
    return TrackingConfig.model_validate({"experiment": "tests", **settings})


def text_of(report: Report) -> str:
    """Return the text of a report, as it is saved."""
    return json_text(report.plain(), indent=None)


def written(report: Report, **settings: Any) -> Written:
    """Write the run of a report."""
    return write_run(report, text_of(report), config(**settings), silent)


def client(uri: str | None = None) -> MlflowClient:
    """Return a client of an address, or of the local database."""
    return MlflowClient(tracking_uri=uri or local_uri())


def run_of(done: Written, uri: str | None = None) -> Run:
    """Return a run as MLflow gives it back."""
    return client(uri).get_run(done.run_id)


def cells_of(run: Run, uri: str | None = None) -> list[Run]:
    """Return the runs below one, the latest first."""
    below = f"tags.`mlflow.parentRunId` = '{run.info.run_id}'"
    return list(client(uri).search_runs([run.info.experiment_id], below, order_by=["attributes.start_time DESC"]))


def traces_of(run: Run, uri: str | None = None) -> list[Trace]:
    """Return the traces of a run, as its page shows them."""
    return list(
        client(uri).search_traces(
            locations=[run.info.experiment_id],
            run_id=run.info.run_id,
            max_results=100,
            order_by=["timestamp_ms DESC"],
        )
    )


def artifact(run: Run, name: str) -> Path:
    """Return the path of an artifact of a local run."""
    return Path(run.info.artifact_uri.removeprefix("file://")) / name
