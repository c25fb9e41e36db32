"""Runs in MLflow below the working directory."""

from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from evals import tracking
from evals.config.experiment import TrackingConfig


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
