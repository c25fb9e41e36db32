"""Beginning a run in MLflow, before the work, so that a killed one shows as killed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evals.config.experiment import TrackingConfig
from evals.tracking.client import mlflow_at
from evals.tracking.store import FOLDER, creation_lock, local_uri
from evals.tracking.tracker import Tracker
from evals.tracking.values import parameters

if TYPE_CHECKING:
    from mlflow import MlflowClient

MAX_PARAMETER = 6_000
MAX_NAME = 250
"""Characters of a run's name that MLflow's databases hold."""


def start(config: TrackingConfig, name: str, settings: Mapping[str, Any]) -> Tracker:
    """Begin a run with its parameters; the local database is made first where there is none.

    Args:
        config: Where to.
        name: Name of the run.
        settings: The resolved configuration, logged as flat parameters.

    Raises:
        ConfigError: The local folder cannot be written.
        TrackingError: The tracking server cannot be reached.
    """
    uri = config.uri or local_uri(FOLDER)
    with mlflow_at(uri):
        from mlflow.entities import Param

        client, experiment_id = _experiment(config, uri)
        source = {"mlflow.source.name": "evals.run"}
        run_id = client.create_run(experiment_id, run_name=name[:MAX_NAME], tags=source).info.run_id
        tracker = Tracker(client, run_id, experiment_id, uri)
        try:
            values = parameters(settings).items()
            client.log_batch(run_id, params=[Param(key, str(value)[:MAX_PARAMETER]) for key, value in values])
        except BaseException as error:
            tracker.end("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
            raise
        return tracker


def _experiment(config: TrackingConfig, uri: str) -> tuple["MlflowClient", str]:
    """A client, and the id of the experiment, which is made where there is none."""
    from mlflow import MlflowClient

    with creation_lock(config):
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(config.experiment)
        if found:
            return client, str(found.experiment_id)
        location = None if config.uri else (FOLDER / "artifacts").resolve().as_uri()
        return client, str(client.create_experiment(config.experiment, artifact_location=location))
