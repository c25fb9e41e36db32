import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mlflow_server import MlflowServer, mlflow_server
from tests.support.shared import shared_folder
from tests.support.tracking import start


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str, mlflow_database: Path) -> Iterator[Path]:
    """A working directory whose database the tests of runs and of grids share."""
    with pytest.MonkeyPatch.context() as patch:
        with shared_folder(tmp_path_factory, worker_id, "tracking") as made:
            patch.chdir(made)
            if not (made / "mlruns").exists():
                (made / "mlruns").mkdir()
                shutil.copy(mlflow_database, made / "mlruns")
            start("zeroth").end("FINISHED")
        yield made


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    with mlflow_server() as running:
        yield running
