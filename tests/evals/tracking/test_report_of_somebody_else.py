"""A report of somebody else: written where the user says, and nothing in it acts."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.collect.saved import read
from evals.compare import main as compare
from evals.run import main as evaluate
from evals.tracking.__main__ import main
from tests.support.command import call
from tests.support.experiment import make_experiment
from tests.support.loopback import free_port
from tests.support.results import report
from tests.support.tracking import MlflowServer, client

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


def test_it_imports_nothing_sends_nothing_and_is_kept_where_runs_are_in_the_experiment_that_it_names(
    evil: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    done = call(main, [evil], capsys)
    run = client().get_run(done.out.split()[2])
    assert done.code == 0 and client().get_experiment(run.info.experiment_id).name == "theirs"
    assert run.info.status == "FINISHED" and run.data.params["retriever.embedding.model"] == "python:evilmod:make"
    assert TOKEN.encode() not in (folder / "mlruns" / "mlflow.db").read_bytes()


def test_compared_and_as_a_baseline_it_is_data_and_a_saved_retrieval_is_read_without_a_pickle(
    evil: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, mine, saved = make_experiment(evil.parent / "made"), evil.with_name("mine.json"), evil.with_name("retrieval")
    flags = ["--config", made.config, "--quiet"]
    call(evaluate, [*flags, "--output", mine, "--save-retrieval", saved], capsys)
    for done in (call(compare, [evil, mine], capsys), call(evaluate, [*flags, "--baseline", evil], capsys)):
        assert (done.code, "golden" in done.err) == (2, True)  # of other golden data
    other = evil.with_name("other.json")
    theirs = json.loads(mine.read_text()) | {"config": json.loads(evil.read_text())["config"], "run": "other"}
    other.write_text(json.dumps(theirs))
    assert call(compare, [other, mine], capsys).code == 0
    classes: list[object] = []
    reading = True
    sys.addaudithook(lambda event, found: classes.append(found) if reading and event == "pickle.find_class" else None)
    assert read(saved).lists
    reading = False
    assert classes == []
