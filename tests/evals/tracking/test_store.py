import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evals.run import main as evaluate
from evals.tracking.__main__ import main
from evals.tracking.store import check_database
from retrievers.errors import ConfigError
from tests.support.command import call
from tests.support.experiment import make_experiment
from tests.support.results import report
from tests.support.tracking import artifact, client, run_of, text_of, written


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
    assert database.stat().st_mtime_ns == before and not (tmp_path / "gone.db").exists()
    with closing(sqlite3.connect(database)) as other:
        other.execute("BEGIN IMMEDIATE")  # somebody writes to it
        check_database(None)


def damaged(database: Path, seed: int) -> bytes:
    """Return a database in which eight kilobytes are garbage."""
    rng, content = random.Random(seed), database.read_bytes()
    place = rng.randrange(4096, len(content) - 8192)
    return content[:place] + rng.randbytes(8192) + content[place + 8192 :]


@pytest.mark.parametrize("content", [*range(5), b"garbage" * 1_000, b"SQLite format 3\0" + b"\0" * 5_000])
def test_a_damaged_database_is_noticed(database: Path, content: int | bytes) -> None:
    database.write_bytes(damaged(database, content) if isinstance(content, int) else content)
    for uri in (None, f"sqlite:///{database}"):
        said = r"mlflow\.db: the database of MLflow is damaged \(.*\.recover .* move it"
        with pytest.raises(ConfigError, match=said):
            check_database(uri)


def everything(folder: Path) -> tuple[list[Path], list[bytes]]:
    return sorted(folder.rglob("*")), [file.read_bytes() for file in sorted(folder.rglob("mlflow.db"))]


@pytest.mark.parametrize("how", ["copied", "moved"])
def test_a_checkout_that_was_copied_or_moved_says_so_before_it_writes_and_how_to_go_on(
    how: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow has the folder of the artifacts in its database: a copy would write them into the first checkout."""
    first = tmp_path / "first's checkout"
    first.mkdir()
    made = make_experiment(tmp_path / "made")
    monkeypatch.chdir(first)
    shutil.move(database.parent, first)
    tracked = ["--tracking.enabled", "true", "--tracking.experiment", "tests"]
    flags = ["--config", made.config, "--quiet", "--no-gate", *tracked]
    run = run_of(written(report()))
    (first / "late.json").write_text(text_of(report().model_copy(update={"run": "late"})), encoding="utf-8")
    other = tmp_path / "other"
    (shutil.copytree if how == "copied" else shutil.move)(first, other)
    monkeypatch.chdir(other)
    before, late = everything(tmp_path), ["late.json", "--tracking.experiment", "tests"]
    for command, given in ((evaluate, flags), (main, late)):
        done = call(command, given, capsys)
        assert done.code == 2 and done.err.count("\n") == 1
        assert f"keeps the artifacts of experiment 'tests' in {first}/mlruns/artifacts" in done.err
        assert f"expected {other}/mlruns/artifacts; move mlruns away" in done.err
    assert before == everything(tmp_path)
    _, statements, _ = done.err.split('"')
    with closing(sqlite3.connect("mlruns/mlflow.db")) as edited:
        edited.executescript(statements)
    assert call(main, late, capsys).code == 0
    assert artifact(client().get_run(run.info.run_id), "report.json").is_relative_to(other)


def test_artifacts_that_were_put_elsewhere_stay_there(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client().create_experiment("elsewhere", artifact_location=(tmp_path / "big disk").as_uri())
    run = run_of(written(report(), experiment="elsewhere"))
    assert (tmp_path / "big disk" / run.info.run_id / "artifacts" / "report.json").is_file()
