"""The start of a run in MLflow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evals.config.experiment import TrackingConfig
from evals.errors import TrackingError
from evals.tracking.client import mlflow_at
from evals.tracking.store import FOLDER, creation_lock, local_uri
from evals.tracking.tracker import NO_REPORT, REPORT_TAG, Tracker
from evals.tracking.values import parameters
from retrievers.text.quoting import quoted

if TYPE_CHECKING:
    from mlflow import MlflowClient

MAX_PARAMETER = 6_000
# Characters of a run's name that MLflow's databases hold.
MAX_NAME = 250


def start(
    config: TrackingConfig,
    name: str,
    settings: Mapping[str, Any],
    retriever: str = "",
    started_ms: int | None = None,
    digest: str = NO_REPORT,
) -> Tracker:
    """Begin a run with its parameters; the local database is made first where there is none.

    Args:
        config: Settings of tracking.
        name: Name of the run.
        settings: The resolved configuration, logged as flat parameters.
        retriever: Class of the retriever, logged as `retriever.class`.
        started_ms: Start of the work in milliseconds since 1970; now when left out.
        digest: SHA-256 of its report's text, by which the run is found again at any end of this process.

    Raises:
        ConfigError: The local folder cannot be written.
        TrackingError: The tracking server cannot be reached.
    """
    uri = config.uri or local_uri(FOLDER)
    with mlflow_at(uri):
        from mlflow.entities import Param

        client, experiment_id = _experiment(config, uri)
        known_by = {"mlflow.source.name": "evals.run", REPORT_TAG: digest}
        run = client.create_run(experiment_id, start_time=started_ms, run_name=name[:MAX_NAME], tags=known_by)
        run_id = run.info.run_id
        tracker = Tracker(client, run_id, experiment_id, uri)
        try:
            values = (parameters(settings) | ({"retriever.class": retriever} if retriever else {})).items()
            client.log_batch(run_id, params=[Param(key, str(value)[:MAX_PARAMETER]) for key, value in values])
        except BaseException as error:
            tracker.end("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
            raise
        return tracker


def _experiment(config: TrackingConfig, uri: str) -> tuple["MlflowClient", str]:
    """Return a client, and the id of the experiment, which is made where there is none."""
    from mlflow import MlflowClient

    with creation_lock(config):
        client = MlflowClient(tracking_uri=uri)
        location = None if config.uri else (FOLDER / "artifacts").resolve().as_uri()
        return client, _existing(client, config.experiment) or _created(client, config.experiment, location)


def _existing(client: "MlflowClient", name: str) -> str:
    """Return the id of an experiment; empty where there is none.

    Raises:
        TrackingError: It was deleted; its name stays taken.
    """
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return ""
    number = str(experiment.experiment_id)
    if experiment.lifecycle_stage == "deleted":
        raise TrackingError(
            f"the MLflow experiment {quoted(name)} was deleted, and MLflow keeps its name; restore it "
            f"(mlflow experiments restore --experiment-id {number}), or name another with --tracking.experiment"
        )
    return number


def _created(client: "MlflowClient", name: str, location: str | None) -> str:
    from mlflow.exceptions import MlflowException

    try:
        return str(client.create_experiment(name, artifact_location=location))
    except MlflowException as error:
        # Another run has made it on the server just now.
        if error.error_code == "RESOURCE_ALREADY_EXISTS" and (number := _existing(client, name)):
            return number
        raise
