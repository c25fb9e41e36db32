"""MLflow's current address, within a block and after it."""

import os
from pathlib import Path

import mlflow
import pytest

from evals.tracking.client import current

VARIABLE = "MLFLOW_TRACKING_URI"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody has named an address: MLflow's is in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


def test_a_default_follows_the_working_directory_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with current("sqlite:///a.db"):
        assert mlflow.get_tracking_uri() == os.environ[VARIABLE] == "sqlite:///a.db"
    assert VARIABLE not in os.environ and not mlflow.is_tracking_uri_set()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert mlflow.get_tracking_uri() == f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}"


def test_an_address_of_the_environment_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sqlite:///b.db")
    with current("sqlite:///a.db"):
        pass
    assert mlflow.get_tracking_uri() == os.environ[VARIABLE] == "sqlite:///b.db"


def test_an_address_that_the_program_set_holds_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow.set_tracking_uri("sqlite:///c.db")
    monkeypatch.setenv(VARIABLE, "sqlite:///b.db")
    with pytest.raises(ValueError, match="within"), current("sqlite:///a.db"):
        raise ValueError("within")
    assert mlflow.get_tracking_uri() == "sqlite:///c.db"
