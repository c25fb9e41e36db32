"""References to runs: files, and ids, names and tags in MLflow."""

import re
from pathlib import Path

import pytest

from evals.comparison.records import Run, Tracked
from evals.errors import TrackingError
from evals.tracking.find import open_run
from tests.support.loopback import free_port
from tests.support.results import report
from tests.support.tracking import client, written

NAMES = ("first", "twice", "twice", 'it\'s "odd"', "unreported")


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[str]:
    """Ids of five runs, in the order of NAMES; the report of each holds its place as its name, the last has none."""
    ids = [log(place, name) for place, name in enumerate(NAMES[:-1])]
    killed = str(client().create_run("1", run_name=NAMES[-1], start_time=1767323046000).info.run_id)
    client().set_terminated(killed, "KILLED")
    return [*ids, killed]


def log(place: int, name: str) -> str:
    facts = report().facts.model_copy(update={"started_at": f"2026-01-02T03:04:0{place}+00:00"})
    return written(report().model_copy(update={"run": name, "name": f"place {place}", "facts": facts})).run_id


def read(reference: str, uri: str | None = None, experiment: str = "tests") -> Run:
    return open_run(reference, uri, experiment)


def refused(reference: str, uri: str | None = None, experiment: str = "tests") -> str:
    with pytest.raises(TrackingError) as caught:
        read(reference, uri, experiment)
    return str(caught.value)


def test_by_id_in_whatever_experiment_and_by_name(runs: list[str]) -> None:
    found = read(runs[2], experiment="another that there is not")
    assert found.tracked == Tracked("http://127.0.0.1:5000", "1", runs[2])
    assert (found.name, found.report.name, found.origin) == ("twice", "place 2", f"MLflow run {runs[2]}")
    by_name = read(NAMES[3]).tracked
    assert by_name is not None and by_name.run_id == runs[3]


def test_a_name_of_several_runs_lists_them_with_their_times(runs: list[str]) -> None:
    first, *listed = refused("twice").splitlines()
    assert first == "2 runs are called 'twice'; give an id:"
    assert [line.split()[0] for line in listed] == [runs[2], runs[1]]
    assert all("UTC  FINISHED" in line for line in listed)


def test_what_is_not_there_names_the_nearest(runs: list[str]) -> None:
    said = refused("frist")
    assert "no run has the id or name 'frist' in experiment 'tests'" in said
    assert said.endswith("and no file is called so; did you mean 'first'?")
    said = refused("first", experiment="test")
    assert said.endswith("mlflow.db has no experiment 'test'; did you mean 'tests'?")


def test_a_run_without_a_report_says_how_it_ended(runs: list[str]) -> None:
    assert refused("unreported") == (
        f"run {runs[4]} (unreported) has no artifact report.json, so no scores: its status is KILLED"
    )
    client().set_tag(runs[4], "mlflow.parentRunId", "abc")
    assert refused("unreported").endswith("no scores: it is a part of run abc, and has values only")


@pytest.mark.parametrize("uri", [None, "sqlite:///elsewhere.db"])
def test_no_database_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    said = r"'first': no such file, and no MLflow runs either: .*\.db does not exist.*--tracking\.uri"
    assert re.match(said, refused("first", uri)) and list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer() -> None:
    said = refused("first", f"http://me:s3cret@127.0.0.1:{free_port()}")
    assert re.match(r"MLflow at http://\*\*\*@127.0.0.1:\d+ failed: MlflowException", said) and "s3cret" not in said
