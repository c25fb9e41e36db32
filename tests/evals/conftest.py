import warnings
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.judged_rounds import JudgedRounds
from tests.support.shared import shared_folder


@pytest.fixture(scope="session")
def mlflow_database(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A database of MLflow without runs, to be copied: to make one takes seconds."""
    with shared_folder(tmp_path_factory, worker_id, "mlflow") as folder:
        file = folder / "mlflow.db"
        if not file.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SQLAlchemy's of what MLflow does
                MlflowClient(tracking_uri=f"sqlite:///{file}").search_experiments()
        return file


@pytest.fixture(scope="session")
def judged_world(tmp_path_factory: pytest.TempPathFactory) -> JudgedRounds:
    """Sixty queries and thirty cells, indexed once."""
    return JudgedRounds(tmp_path_factory.mktemp("judged_world"))
