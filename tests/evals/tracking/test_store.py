import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evals.tracking.store import check_database, check_folder, local_uri
from retrievers.errors import ConfigError


@pytest.mark.parametrize("name", ["mlruns", "mlruns/deeper"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "mlruns").touch()
    for check in (check_folder, local_uri):
        with pytest.raises(ConfigError, match=r"cannot be written \(Not a directory\).*--tracking\.enabled false"):
            check(tmp_path / name)


@pytest.fixture
def database(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a database that MLflow has made, in its place."""
    (tmp_path / "mlruns").mkdir()
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(folder / "mlruns" / "mlflow.db", tmp_path / "mlruns" / "mlflow.db"))


def test_a_database_that_is_whole_or_not_there_is_accepted(database: Path, tmp_path: Path) -> None:
    before = database.stat().st_mtime_ns
    for uri in (None, f"sqlite:///{database}", f"sqlite:///{tmp_path}/gone.db", "http://127.0.0.1:9", "file:///x"):
        check_database(uri)
    assert database.stat().st_mtime_ns == before
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize("seed", range(5))
def test_eight_kilobytes_of_garbage_are_noticed(database: Path, seed: int) -> None:
    rng = random.Random(seed)
    with database.open("r+b") as file:
        file.seek(rng.randrange(4096, database.stat().st_size - 8192))
        file.write(rng.randbytes(8192))
    for uri in (None, f"sqlite:///{database}"):
        with pytest.raises(
            ConfigError, match=r"mlflow\.db: the database of MLflow is damaged \(.*\.recover .* move it"
        ):
            check_database(uri)


@pytest.mark.parametrize("content", [b"garbage" * 1_000, b"SQLite format 3\0" + b"\0" * 5_000])
def test_a_file_that_is_no_database(database: Path, content: bytes) -> None:
    database.write_bytes(content)
    with pytest.raises(ConfigError, match="is damaged"):
        check_database(None)


def test_a_database_that_somebody_writes_to_is_accepted(database: Path) -> None:
    with closing(sqlite3.connect(database)) as other:
        other.execute("BEGIN IMMEDIATE")
        check_database(None)
