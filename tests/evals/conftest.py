import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from evals.cases.pages import SourcePages
from evals.golden.command import main as golden_command
from retrievers.indexing.chunking import chunk_page
from retrievers.records import Chunk
from tests.support.command import Done, call, shared_folder
from tests.support.experiment import Experiment, index_once, make_experiment
from tests.support.grid_world import SIDE, make_grid, make_world
from tests.support.indexing import FILES, write_pages


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
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_experiment(tmp_path_factory.mktemp("small"))
    index_once(made)
    return made


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Any:
    constraints = {"scope/false_abstention": "<= 0.5"}
    return make_grid(tmp_path_factory.mktemp("grid"), objective={**SIDE, "constraints": constraints})


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return SourcePages.read(write_pages(tmp_path_factory.mktemp("docs"), FILES), "/docs")


@pytest.fixture(scope="session")
def chunk(sources: SourcePages) -> Chunk:
    """What indexing makes of `A publisher sends messages. …`, a chunk a block or so (words stand for tokens)."""
    page: Any = sources.pages["module-1/topics.md"]
    chunks = chunk_page(page.page, 8, lambda text: len(text.split()))
    return next(one for one in chunks if "publisher sends" in one.text)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    return lambda main, *arguments: call(main, arguments, capsys)


@pytest.fixture
def golden(command: Callable[..., Done]) -> Callable[..., Done]:
    return partial(command, golden_command)
