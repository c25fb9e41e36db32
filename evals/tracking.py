"""Runs to MLflow, which only this file and `tracked_{cells,runs,traces}` know.

A run is begun before the work, so that a killed one shows as killed.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from evals.candidates import Progress
from evals.config import ExperimentConfig, TrackingConfig
from evals.dataset.load import GoldenSet
from evals.errors import TrackingError
from evals.files import probe
from evals.grid.children import Child
from evals.records import RunResult, Summary
from evals.report.document import rows
from evals.report.judging import claim_lines, verdict_lines
from evals.report.terminal import description
from evals.report.traces import QueryTrace
from evals.tracked_cells import log_cells
from evals.tracked_traces import write_traces
from retrievers.errors import ConfigError, RetrievalError, redacted
from retrievers.present import score_text
from retrievers.settings import flatten, tables

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)
FOLDER = Path("mlruns")
MAX_PARAMETER = 6_000
BATCH = 1_000
"""Most metrics of one request."""
SECONDS_FOR_SERVER = "10"


class Tracker:
    """One MLflow run, from its beginning to its end."""

    def __init__(self, client: "MlflowClient", run_id: str, experiment_id: str, uri: str) -> None:
        self.client = client
        self.run_id = run_id
        self.experiment_id = experiment_id
        self.uri = uri

    def log(self, result: RunResult, golden: GoldenSet, files: Mapping[str, str], figures: Mapping[str, Any]) -> None:
        """Write everything the run came to: metrics, tags, golden data, tables, files, figures.

        Args:
            result: The run.
            golden: Its golden queries, logged as the run's input.
            files: Artifact name to text.
            figures: Artifact name to matplotlib figure.

        Raises:
            TrackingError: MLflow failed; what was written so far stays.
        """
        with _mlflow_errors(self.uri), _quiet():
            from mlflow.entities import Metric

            now = _milliseconds()
            metrics = [Metric(key, value, now, 0) for key, value in metric_values(result.summaries).items()]
            self.client.log_batch(self.run_id, metrics=metrics)
            for name, value in _tags(result).items():
                self.client.set_tag(self.run_id, name, value)
            self._log_input(golden)
            with TemporaryDirectory() as folder:
                _write_files(Path(folder), files, figures)
                self.client.log_artifacts(self.run_id, folder)
            self.client.log_table(self.run_id, _table(result), "queries.json")

    def log_grid(
        self,
        children: Sequence[Child],
        table: Mapping[str, Sequence[Any]],
        along: Mapping[str, Sequence[tuple[int, float]]],
        progress: Progress,
    ) -> None:
        """Write a grid: its table, its metrics along top_k as steps, and runs below this one for some of its cells.

        Args:
            children: The cells that get a run of their own, with values only.
            table: The whole grid by columns.
            along: Metric to (top_k, mean); logged as `by_top_k/METRIC` with `step` = top_k.
            progress: Told how many of the cells are written.

        Raises:
            TrackingError: MLflow failed; what was written so far stays.
        """
        with _mlflow_errors(self.uri), _quiet():
            from mlflow.entities import Metric

            self.client.log_table(self.run_id, {name: list(values) for name, values in table.items()}, "grid.json")
            now = _milliseconds()
            steps = [
                Metric(f"by_top_k/{name}", value, now, top_k)
                for name, values in along.items()
                for top_k, value in values
            ]
            for start in range(0, len(steps), BATCH):
                self.client.log_batch(self.run_id, metrics=steps[start : start + BATCH])
            log_cells(self.client, self.experiment_id, self.run_id, children, progress)

    def log_traces(self, traces: Sequence[QueryTrace]) -> None:
        """Write queries as traces of this run, with their scores as assessments, and read them back.

        Raises:
            TrackingError: MLflow failed, or does not give back what was written.
        """
        with _mlflow_errors(self.uri), _quiet():
            write_traces(self.client, self.experiment_id, self.run_id, traces)

    def end(self, status: str) -> None:
        """End the run as FINISHED, FAILED or KILLED; a tracker that cannot be reached is only logged."""
        try:
            with _quiet():
                self.client.set_terminated(self.run_id, status=status)
        except Exception as error:  # the run is over; there is nothing left to save
            log.error("MLflow run %s could not be ended as %s: %s", self.run_id, status, redacted(str(error)))

    def _log_input(self, golden: GoldenSet) -> None:
        from mlflow.data.huggingface_dataset import from_huggingface
        from mlflow.entities import DatasetInput, InputTag

        # without a source MLflow describes the process instead, with MLFLOW_TRACKING_USERNAME and three calls of git
        source = {"source" if Path(golden.name).exists() else "path": golden.name}
        data = from_huggingface(
            golden.to_huggingface(), name=Path(golden.name).stem, digest=golden.fingerprint[:36], **source
        )
        entry = DatasetInput(data._to_mlflow_entity(), [InputTag("mlflow.data.context", "evaluation")])
        self.client.log_inputs(self.run_id, [entry])


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
    _set_environment()
    with _mlflow_errors(uri), _quiet():
        from mlflow import MlflowClient
        from mlflow.entities import Param

        with _creation_lock(config):
            client = MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(config.experiment)
            experiment_id = experiment.experiment_id if experiment else _create(client, config)
        parameters = [Param(key, str(value)[:MAX_PARAMETER]) for key, value in _parameters(settings).items()]
        run = client.create_run(experiment_id, run_name=name, tags={"mlflow.source.name": "evals.run"})
        tracker = Tracker(client, run.info.run_id, experiment_id, uri)
        try:
            client.log_batch(run.info.run_id, params=parameters)
        except BaseException as error:
            tracker.end("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
            raise
        return tracker


@contextlib.contextmanager
def connection(uri: str) -> Iterator["MlflowClient"]:
    """A client of MLflow that prints nothing and whose errors are ours.

    Raises:
        TrackingError: MLflow failed within the block.
    """
    _set_environment()
    with _mlflow_errors(uri), _quiet():
        from mlflow import MlflowClient

        yield MlflowClient(tracking_uri=uri)


def local_uri(folder: Path) -> str:
    """The database below a folder, which is made where there is none.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}"


def check_folder(folder: Path) -> None:
    """Make sure that runs can be kept in a folder; leaves nothing behind.

    Raises:
        ConfigError: It cannot be made or written to.
    """
    try:
        probe(folder)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be written ({error.strerror}); runs are logged there: free it, name another store with "
            "--tracking.uri, or switch it off with --tracking.enabled false"
        ) from error


def metric_values(summaries: Sequence[Summary]) -> dict[str, float]:
    """Every metric that has a value, with `.ci_low`, `.ci_high`, `.n` beside it, and `.n_failed` where any failed."""
    values: dict[str, float] = {}
    for summary in summaries:
        if summary.value is None:
            continue
        values[summary.metric] = summary.value
        values[f"{summary.metric}.n"] = float(summary.n)
        if summary.ci_low is not None and summary.ci_high is not None:
            values[f"{summary.metric}.ci_low"] = summary.ci_low
            values[f"{summary.metric}.ci_high"] = summary.ci_high
        if summary.n_failed:
            values[f"{summary.metric}.n_failed"] = float(summary.n_failed)
    return values


def _create(client: "MlflowClient", config: TrackingConfig) -> str:
    location = None if config.uri else (FOLDER / "artifacts").resolve().as_uri()
    return str(client.create_experiment(config.experiment, artifact_location=location))


@contextlib.contextmanager
def _creation_lock(config: TrackingConfig) -> Iterator[None]:
    """Two processes that create the database at once can break it for good; a server does its own locking."""
    if config.uri and not config.uri.startswith("sqlite:"):
        yield
        return
    from filelock import FileLock

    place = Path(config.uri.removeprefix("sqlite:///") + ".lock") if config.uri else FOLDER / ".mlflow.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place):
        yield


def _parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    flat = flatten(settings, unopened=tables(ExperimentConfig))  # a user's own keys may not be names of parameters
    hidden = {"tracking.uri"}  # where runs are kept is no parameter of them, and may carry credentials
    return {key: value for key, value in flat if key not in hidden and value is not None}


def _tags(result: RunResult) -> dict[str, str]:
    facts, collection = result.facts, result.facts["collection"] or {}
    tags = {
        "dataset.fingerprint": facts["dataset_fingerprint"],
        "collection.fingerprint": collection.get("fingerprint"),
        "collection.points": collection.get("points"),
        "code.commit": facts["commit"],
        "passed": all(gate.passed for gate in result.gates),
        "criteria.failed": ", ".join(gate.metric for gate in result.gates if not gate.passed) or "none",
    }
    tags["mlflow.note.content"] = description(result)
    tags |= {"retriever": facts["retriever"], "relevance": facts["relevance"]}
    judge = facts.get("judge") or {}
    tags |= {f"judge.{name}": judge.get(name) for name in ("provider", "model", "fingerprint")}
    tags |= {f"version.{name}": value for name, value in facts["versions"].items()}
    return {key: str(value) for key, value in tags.items() if value is not None}


def _table(result: RunResult) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    names = list(result.scores)
    for row in rows(result):
        flat = {
            "id": row["id"],
            "query": row["query"],
            "in_scope": row["in_scope"],
            "query_type": row["query_type"] or "",
            "outcome": row["outcome"],
            "reasons": "; ".join(row["reasons"]),
            "top_score": row["top_score"],
            "retrieved": "\n".join(f"{h['rank']}. {score_text(h['score'])} {h['source']}" for h in row["retrieved"]),
            "time_ms": row["time_ms"],
        }
        if result.judging:
            flat |= {"judge": "\n".join(verdict_lines(row)), "claims": "\n".join(claim_lines(row))}
        flat |= {name: _cell(row["scores"].get(name)) for name in names}
        for key, value in flat.items():
            columns.setdefault(key, []).append(value)
    return columns


def _cell(score: Any) -> float | None:
    return score if isinstance(score, float | int) else None


def _write_files(folder: Path, files: Mapping[str, str], figures: Mapping[str, Any]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "figures").mkdir()
    for name, figure in figures.items():
        figure.savefig(folder / "figures" / f"{name}.png")


def _milliseconds() -> int:
    import time

    return int(time.time() * 1000)


def _set_environment() -> None:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # with credentials, and even when quiet
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", SECONDS_FOR_SERVER)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@contextlib.contextmanager
def _mlflow_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except RetrievalError:
        raise
    except Exception as error:  # MLflow raises its own, SQLAlchemy's and requests' errors
        cause = redacted(next(iter(str(error).strip().splitlines()), ""))[:300]
        raise TrackingError(f"MLflow at {redacted(uri)} failed: {type(error).__name__}: {cause}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep MLflow's and alembic's loggers and warnings off the terminal."""
    import warnings

    import mlflow  # its import sets the levels that are changed here  # noqa: F401

    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
