import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tracking import MlflowServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("tracking")
    (made / "mlruns").mkdir()
    shutil.copy(mlflow_database, made / "mlruns")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        yield made


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    with MlflowServer() as running:
        yield running
