"""Runs in MLflow below the working directory."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from evals import tracking
from evals.config.experiment import TrackingConfig
from evals.report.traces import QueryTrace
from evals.tracking.client import current
from evals.tracking.finding import TrackedRun, read_run


def config(**settings: Any) -> TrackingConfig:
    """Return the settings of tracking, in the experiment `tests`."""
    return TrackingConfig.model_validate({"experiment": "tests", **settings})


def start(name: str, **settings: Any) -> tracking.Tracker:
    """Begin a run that has no parameters."""
    return tracking.start(config(**settings), name, {})


def client() -> MlflowClient:
    """Return a client of the local database."""
    return MlflowClient(tracking_uri=tracking.local_uri(tracking.FOLDER))


def artifact(run: Run, name: str) -> Path:
    """Return the path of an artifact of a local run."""
    return Path(run.info.artifact_uri.removeprefix("file://")) / name


def found_run(reference: str, uri: str) -> TrackedRun:
    """Return the run that a reference names, as the commands find it, in the experiment `tests`."""
    return read_run(reference, uri, "tests")


def at(uri: str) -> AbstractContextManager[None]:
    """Make an address MLflow's own current one within the block."""
    return current(uri)


def traced(query_id: str, query: str, documents: Sequence[Mapping[str, Any]]) -> QueryTrace:
    """Return a query that found these documents, as a run logs it."""
    return QueryTrace(
        query_id=query_id,
        query=query,
        answer="all",
        documents=tuple(documents),
        stages={"total": 1.0},
        timing="the batch",
        expected={},
        feedback=(),
    )


def log_traces_in_batches(patch: pytest.MonkeyPatch, size: int) -> None:
    """Let a run log so many traces at once."""
    patch.setattr("evals.tracking.traces.BATCH", size)
