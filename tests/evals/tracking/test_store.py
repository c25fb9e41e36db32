"""The store of runs: whether it can be written to, and what a reference to a run in it leads to."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from evals.collect.saved import read
from evals.compare import main as compare
from evals.errors import TrackingError
from evals.run import main as evaluate
from evals.tracking.__main__ import main, show
from evals.tracking.store import PATIENCE, mlflow_at, open_run, sqlite_uri
from tests.support.command import Done, environment, refusal
from tests.support.experiment import make_experiment
from tests.support.loopback import free_port
from tests.support.results import report
from tests.support.tracking import MlflowServer, client, run_of, text_of, written

Command = Callable[..., Done]
NAMES = ("first", "twice", "twice", 'it\'s "odd"', "unreported")


@pytest.fixture
def database(folder: Path, here: Path) -> Path:
    (here / "mlruns").mkdir()
    return Path(shutil.copy(folder / "mlruns" / "mlflow.db", here / "mlruns" / "mlflow.db"))


def test_a_database_whose_making_was_interrupted_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow makes it table by table, and fails for good where it finds some of them."""
    database = tmp_path / "a%20b?c" / "mlflow.db"
    with monkeypatch.context() as patch:
        patch.setattr("alembic.command.upgrade", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt), mlflow_at(sqlite_uri(database), writing=True) as opened:
            opened.search_experiments()
    assert [file.name for file in database.parent.iterdir()] == [".mlflow.db.lock"]
    database.with_name(".mlflow.db.new.1").touch()  # of a run that was killed
    with mlflow_at(sqlite_uri(database), writing=True) as opened:
        assert [each.name for each in opened.search_experiments()] == ["Default"]
    assert {file.name for file in database.parent.iterdir()} == {".mlflow.db.lock", "mlflow.db"}
    assert PATIENCE.keys().isdisjoint(os.environ), "the user's own calls of MLflow wait as long as ever"


def everything(folder: Path) -> tuple[list[Path], list[bytes]]:
    return sorted(folder.rglob("*")), [file.read_bytes() for file in sorted(folder.rglob("mlflow.db"))]


def test_a_checkout_that_was_copied_says_so_before_it_writes(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """MLflow has the folder of the artifacts in its database: a copy would write them into the first checkout."""
    first = tmp_path / "first's checkout"
    first.mkdir()
    made = make_experiment(tmp_path / "made")
    monkeypatch.chdir(first)
    shutil.move(database.parent, first)
    tracked = ["--tracking.enabled", "true", "--tracking.experiment", "tests"]
    flags = ["--config", made.config, "--quiet", "--no-gate", *tracked]
    run_id = written(report()).run_id
    (first / "late.json").write_text(text_of(report().model_copy(update={"run": "late"})), encoding="utf-8")
    other = shutil.copytree(first, tmp_path / "other")
    monkeypatch.chdir(other)
    before, tests = everything(tmp_path), ["--tracking.experiment", "tests"]
    compared = [run_id, run_id, "--track", *tests]
    for begun, given in ((evaluate, flags), (main, ["late.json", *tests]), (compare, compared)):
        done = command(begun, *given)
        assert done.code == 2 and done.err.count("\n") == 1
        assert f"keeps the artifacts of experiment 'tests' in {first}/mlruns/artifacts" in done.err
        assert f"expected {other}/mlruns/artifacts; move mlruns away" in done.err
    assert before == everything(tmp_path)


@pytest.mark.usefixtures("database")
def test_artifacts_lie_beside_their_database_and_those_that_were_put_elsewhere_stay_there(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/other.db"
    run = run_of(written(report(), uri=uri), uri)
    assert (tmp_path / "artifacts" / run.info.run_id / "artifacts" / "report.json").is_file()
    client().create_experiment("elsewhere", artifact_location=(tmp_path / "big disk").as_uri())
    run = run_of(written(report(), experiment="elsewhere"))
    assert (tmp_path / "big disk" / run.info.run_id / "artifacts" / "report.json").is_file()


# References to runs: files, and ids and names in MLflow


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[str]:
    """Ids of five runs, in the order of NAMES; the report of each holds its place as its name, the last has none."""
    ids = []
    for place, name in enumerate(NAMES[:-1]):
        facts = report().facts.model_copy(update={"started_at": f"2026-01-02T03:04:0{place}+00:00"})
        ids.append(written(report().model_copy(update={"run": name, "name": f"place {place}", "facts": facts})).run_id)
    killed = str(client().create_run("1", run_name=NAMES[-1], tags={"role": "run"}).info.run_id)
    client().set_terminated(killed, "KILLED")
    return [*ids, killed]


def refused(reference: str, uri: str | None = None, experiment: str = "tests") -> str:
    return refusal(TrackingError, open_run, reference, uri, experiment)


def test_by_id_in_whatever_experiment_and_by_name(runs: list[str], tmp_path: Path) -> None:
    found = open_run(runs[2], None, "another that there is not")
    assert (found.name, found.report.name, found.origin) == ("twice", "place 2", f"MLflow run {runs[2]}")
    assert open_run(NAMES[3], None, "tests").report.name == "place 3"
    file = tmp_path / "report"  # a file comes first, whatever its name
    file.write_text(report().model_dump_json(), encoding="utf-8")
    assert open_run(str(file), None, "tests").origin == str(file)


def test_a_reference_to_several_runs_or_none_is_refused_with_what_to_write(runs: list[str]) -> None:
    first, *listed = refused("twice").splitlines()
    assert first == "2 runs are called 'twice'; give an id:"
    assert [line.split()[0] for line in listed] == [runs[2], runs[1]]
    assert all("UTC  FINISHED" in line for line in listed)
    said = refused("frist")
    assert "no run has the id or name 'frist' in experiment 'tests'" in said
    assert said.endswith("and no file is called so; did you mean 'first'?")
    assert refused("first", experiment="test").endswith("mlflow.db has no experiment 'test'; did you mean 'tests'?")
    said = f"run unreported has no report in {client().get_run(runs[4]).info.artifact_uri}: its status is KILLED"
    assert refused("unreported") == refused(runs[4]) == said
    client().set_tag(runs[4], "mlflow.parentRunId", "abc")
    assert refused("unreported").endswith(": it is a part of run abc, and has values only")


def test_no_database_is_made_and_a_server_that_does_not_answer_is_told(here: Path) -> None:
    for uri in (None, "sqlite:///elsewhere.db"):
        said = r"'first': no such file, and no MLflow runs either: .*\.db does not exist.*--tracking\.uri"
        assert re.match(said, refused("first", uri)) and list(here.iterdir()) == []
    said = refused("first", f"http://me:s3cret@127.0.0.1:{free_port()}")
    assert re.match(r"MLflow at http://\*\*\*@127.0.0.1:\d+ failed: MlflowException", said) and "s3cret" not in said


# A report of somebody else: written where the user says, and nothing in it acts

TOKEN = "token-of-the-user-0123456789"


@pytest.fixture
def evil(folder: Path, tmp_path: Path, server: MlflowServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a report that names a module, and the address of a server that is not the user's."""
    (tmp_path / "evilmod.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\ndef make(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", TOKEN)
    embedding = {"model": "python:evilmod:make"}
    settings = {
        **report().config,
        "retriever": {**report().config["retriever"], "python": "evilmod:make", "embedding": embedding},
        "dataset": {"hub": "somebody/else"},
        "tracking": {"uri": server.url, "experiment": "theirs", "register_as": "robots"},
    }
    file = tmp_path / "last.json"
    file.write_text(json.dumps(report().model_copy(update={"config": settings, "run": tmp_path.name}).plain()))
    yield file
    assert not (tmp_path / "imported").exists() and "evilmod" not in sys.modules
    assert server.requests == []
    shutil.rmtree(tmp_path)


def test_it_imports_and_sends_nothing_and_is_kept_in_its_experiment(
    evil: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    done = command(main, evil)
    run = client().get_run(done.out.split()[2])
    assert done.code == 0 and client().get_experiment(run.info.experiment_id).name == "theirs"
    assert run.info.status == "FINISHED" and run.data.params["retriever.embedding.model"] == "python:evilmod:make"
    assert TOKEN.encode() not in (folder / "mlruns" / "mlflow.db").read_bytes()


def test_compared_and_as_a_baseline_it_is_data_and_retrievals_hold_no_pickle(evil: Path, command: Command) -> None:
    made, mine, saved = make_experiment(evil.parent / "made"), evil.with_name("mine.json"), evil.with_name("retrieval")
    flags = ["--config", made.config, "--quiet"]
    command(evaluate, *flags, "--output", mine, "--save-retrieval", saved)
    for done in (command(compare, evil, mine), command(evaluate, *flags, "--baseline", evil)):
        assert (done.code, "golden" in done.err) == (2, True)  # of other golden data
    other = evil.with_name("other.json")
    theirs = json.loads(mine.read_text()) | {"config": json.loads(evil.read_text())["config"], "run": "other"}
    other.write_text(json.dumps(theirs))
    assert command(compare, other, mine).code == 0
    classes: list[object] = []
    reading = True
    sys.addaudithook(lambda event, found: classes.append(found) if reading and event == "pickle.find_class" else None)
    assert read(saved).variants
    reading = False
    assert classes == []


# The user interface, from its command to its end


def test_without_runs_nothing_is_shown_and_of_a_server_its_page_is_told(here: Path, command: Command) -> None:
    said = f"no runs to show: {here}/mlruns/mlflow.db does not exist; go where evals.run was started"
    for flags in ([], ["--tracking.uri", f"sqlite:///{here}/mlruns/mlflow.db"]):
        done = command(show, *flags)
        assert done.code == 2 and said in done.err
    told = "Runs: https://***@mlflow.example/#/experiments\n"
    assert command(show, "--tracking.uri", "https://me:s3cret@mlflow.example/") == Done(0, told, "")
    assert list(here.iterdir()) == []


@pytest.mark.slow
def test_the_server_answers_where_it_is_told(folder: Path) -> None:
    written(report())
    port = free_port()
    command = [sys.executable, "-m", "evals", "ui", "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, env=environment({}), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert process.stdout.readline().startswith(f"Runs: http://127.0.0.1:{port}/#/experiments ")
        assert answer_of(f"http://127.0.0.1:{port}/health") == b"OK"
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout and process.stdout.close()


@pytest.mark.slow
def test_a_server_that_cannot_start_is_an_error(command: Command) -> None:
    written(report())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command(show, "--port", str(taken.getsockname()[1]))
    assert done.code == 2 and "is taken, name another one with --port" in done.err


def answer_of(address: str) -> bytes:
    for _ in range(120):
        with suppress(OSError), urllib.request.urlopen(address, timeout=10) as answer:
            return bytes(answer.read())
        time.sleep(0.5)
    raise AssertionError(address)
