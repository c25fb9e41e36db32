"""Access to MLflow: nothing of it reaches the terminal, and its errors are ours."""

import contextlib
import logging
import os
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evals.errors import TrackingError
from retrievers.errors import RetrievalError
from retrievers.text.secrets import redacted, remember_password

if TYPE_CHECKING:
    from mlflow import MlflowClient

SECONDS_FOR_SERVER = "10"
# MLflow's names for the statuses 401 and 403, and how it writes them where the answer is not its own.
REFUSALS = ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED")
REFUSED = re.compile(r"error code 40[13]\b|\b40[13] Client Error|unauthori[sz]ed|unauthenticated|forbidden", re.I)
CREDENTIALS = (
    "; credentials are taken from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or from MLFLOW_TRACKING_TOKEN"
)


@contextlib.contextmanager
def connection(uri: str) -> Iterator["MlflowClient"]:
    """Yield a client of MLflow that prints nothing and whose errors are ours.

    Raises:
        TrackingError: MLflow failed within the block.
    """
    with mlflow_at(uri):
        from mlflow import MlflowClient

        yield MlflowClient(tracking_uri=uri)


@contextlib.contextmanager
def mlflow_at(uri: str) -> Iterator[None]:
    """Let MLflow work in silence, and name the address when it fails.

    Raises:
        TrackingError: MLflow failed within the block.
    """
    _set_environment()
    remember_password(uri)
    with _our_errors(uri), quiet():
        yield


@contextlib.contextmanager
def current(uri: str) -> Iterator[None]:
    """Make an address MLflow's current one within the block, for what takes no client."""
    import mlflow
    from mlflow.environment_variables import MLFLOW_TRACKING_URI

    before, inherited = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None, MLFLOW_TRACKING_URI.get()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        # MLflow's default depends on the working directory: set, it would hold for good, in the environment too.
        mlflow.set_tracking_uri(None)
        if inherited is not None:
            MLFLOW_TRACKING_URI.set(inherited)
        if before not in (None, inherited):
            mlflow.set_tracking_uri(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep MLflow's and alembic's loggers and warnings off the terminal."""
    # The import of MLflow sets the levels that are changed here.
    import mlflow  # noqa: F401

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


def _set_environment() -> None:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    # MLflow would print the run's address, with any credentials, even when quiet.
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", SECONDS_FOR_SERVER)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@contextlib.contextmanager
def _our_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except RetrievalError:
        raise
    except Exception as error:  # MLflow raises its own, SQLAlchemy's and requests' errors
        cause = redacted(next(iter(str(error).strip().splitlines()), ""))[:300]
        remedy = CREDENTIALS if REFUSED.search(cause) or getattr(error, "error_code", "") in REFUSALS else ""
        raise TrackingError(f"MLflow at {redacted(uri)} failed: {type(error).__name__}: {cause}{remedy}") from error
