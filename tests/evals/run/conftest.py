"""The small experiment as a command, its collection indexed, in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evals.run import main
from tests.support.command import Done, call
from tests.support.experiment import Experiment, index_once, make_experiment

Run = Callable[..., Done]


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """An experiment whose collection is there already; tests leave it as it is."""
    made = make_experiment(tmp_path_factory.mktemp("indexed"))
    index_once(made)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def run(indexed: Experiment, folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the small experiment with further arguments."""
    return lambda *arguments: call(main, ["--config", indexed.config, *arguments], capsys)
