import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from evals import tracking
from evals.errors import TrackingError
from evals.report.comparison.records import Tracked
from evals.tracking.finding import TrackedRun, read_run
from tests.support.loopback import free_port
from tests.support.shared import shared_folder
from tests.support.tracking import start

NAMES = ("first", "twice", "twice", 'it\'s "odd"', "unreported")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, worker_id: str, mlflow_database: Path) -> Iterator[list[str]]:
    """Ids of five runs, in the order of NAMES; the report of each holds its place, the last has none."""
    with pytest.MonkeyPatch.context() as patch:
        with shared_folder(tmp_path_factory, worker_id, "tracked_runs") as folder:
            patch.chdir(folder)
            known = folder / "ids"
            if not known.exists():
                (folder / "mlruns").mkdir()
                shutil.copy(mlflow_database, folder / "mlruns")
                known.write_text("\n".join(log(place, name) for place, name in enumerate(NAMES)))
        yield known.read_text().splitlines()


def log(place: int, name: str) -> str:
    tracker = start(name)
    if name == "unreported":
        tracker.end("KILLED")
    else:
        tracker.log_files({"report.json": f'{{"place": {place}}}'})
        tracker.end("FINISHED")
    return tracker.run_id


@pytest.fixture
def client(runs: list[str]) -> MlflowClient:
    return MlflowClient(tracking_uri=tracking.local_uri(tracking.FOLDER))


def read(reference: str, uri: str | None = None, experiment: str = "tests") -> TrackedRun:
    return read_run(reference, uri, experiment)


def refused(reference: str, experiment: str = "tests") -> str:
    with pytest.raises(TrackingError) as caught:
        read(reference, experiment=experiment)
    return str(caught.value)


def test_by_name(runs: list[str]) -> None:
    place = Tracked("http://127.0.0.1:5000", "1", runs[0])
    assert read("first") == TrackedRun(place=place, name="first", report='{"place": 0}')


def test_by_a_name_with_both_kinds_of_quotes(runs: list[str]) -> None:
    assert read(NAMES[3]).run_id == runs[3]


def test_by_id_in_whatever_experiment(runs: list[str]) -> None:
    assert read(runs[2]).report == '{"place": 2}'
    assert read(runs[2], experiment="another that there is not").run_id == runs[2]


def test_by_the_address_of_the_store(runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = tracking.local_uri(tracking.FOLDER)
    monkeypatch.chdir(tmp_path)
    assert read("first", uri).run_id == runs[0]


def test_by_tag_the_newest(runs: list[str], client: MlflowClient) -> None:
    for place, value in ((0, "true"), (1, "no")):
        client.set_tag(runs[place], "prod", value)
    assert read("tag:prod").run_id == runs[1]
    assert read("tag:prod=true").run_id == runs[0]
    assert refused("tag:prod=yes").startswith("no run in experiment 'tests' at sqlite:///")
    assert "is tagged 'prod=yes'; set it on a run's page" in refused("tag:prod=yes")


def test_by_an_empty_tag_and_by_an_odd_key(runs: list[str], client: MlflowClient) -> None:
    client.set_tag(runs[0], "release/1.0 candidate", "")
    assert read("tag:release/1.0 candidate").run_id == runs[0]


def test_what_was_a_tag_and_is_an_artifact_now_finds_runs_as_before(runs: list[str], client: MlflowClient) -> None:
    facts = {"dataset_fingerprint": "beef", "collection": {"points": 7}, "judge": None, "versions": {"ragas": "0.4.3"}}
    client.log_dict(runs[1], facts, "facts.json")
    client.set_tag(runs[0], "version.ragas", "0.4.3")
    client.set_tag(runs[0], "dataset.fingerprint", "old")
    assert read("tag:version.ragas").run_id == read("tag:version.ragas=0.4.3").run_id == runs[1]
    assert read("tag:dataset.fingerprint=beef").run_id == read("tag:collection.points=7").run_id == runs[1]
    assert read("tag:dataset.fingerprint=old").run_id == runs[0]
    for missing in ("judge.fingerprint", "version.numpy", "version.ragas=0.5", "relevance"):
        assert f"is tagged '{missing}'" in refused(f"tag:{missing}")


def test_a_tag_that_no_run_has_names_the_nearest(runs: list[str], client: MlflowClient) -> None:
    client.set_tag(runs[0], "staging", "true")
    assert "is tagged 'stagin'; did you mean 'staging'?; set it" in refused("tag:stagin")


def test_a_name_of_several_runs_lists_them_with_their_times(runs: list[str]) -> None:
    first, *listed = refused("twice").splitlines()
    assert first == "2 runs are called 'twice'; give an id:"
    assert [line.split()[0] for line in listed] == [runs[2], runs[1]]
    assert all("UTC  FINISHED" in line for line in listed)


def test_a_name_that_does_not_exist_names_the_nearest(runs: list[str]) -> None:
    assert "no run with the id or name 'frist' in experiment 'tests'" in refused("frist")
    assert refused("frist").endswith("and no file of that name; did you mean 'first'?")


def test_an_id_that_does_not_exist_names_the_nearest_or_the_newest(runs: list[str]) -> None:
    mistyped = ("0" if runs[0][0] != "0" else "1") + runs[0][1:]
    assert f"'{runs[0]}'" in refused(mistyped).partition("did you mean")[2]
    assert refused("z" * 32).endswith("; the newest are 'unreported', 'it\\'s \"odd\"', 'twice'")


def test_a_run_without_a_report_says_how_it_ended(runs: list[str], client: MlflowClient) -> None:
    assert refused("unreported") == (
        f"run {runs[4]} (unreported) has no artifact report.json, so no scores: its status is KILLED"
    )
    client.set_tag(runs[4], "mlflow.parentRunId", "abc")
    assert refused("unreported").endswith("no scores: it is a part of run abc, and has values only")
    assert refused("z" * 32).endswith("; the newest are 'it\\'s \"odd\"', 'twice', 'first'")
    client.delete_tag(runs[4], "mlflow.parentRunId")


def test_a_deleted_run_is_not_found(runs: list[str], client: MlflowClient) -> None:
    tracker = start("to be deleted")
    client.delete_run(tracker.run_id)
    assert "no run with the id or name" in refused("to be deleted")
    assert "no run with the id or name" in refused(tracker.run_id)


def test_an_experiment_that_does_not_exist_names_the_nearest(runs: list[str]) -> None:
    assert refused("first", "test").endswith("mlflow.db has no experiment 'test'; did you mean 'tests'?")


def test_an_experiment_without_runs(runs: list[str], client: MlflowClient) -> None:
    if client.get_experiment_by_name("empty") is None:
        client.create_experiment("empty")
    assert refused("first", "empty").endswith("and no file of that name; it has no runs")


@pytest.mark.parametrize("uri", [None, "sqlite:///elsewhere.db"])
def test_no_database_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        TrackingError, match=r"'first': no such file, and no MLflow runs either \(.*\.db does not exist"
    ):
        read("first", uri)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer() -> None:
    port = free_port()
    with pytest.raises(TrackingError, match=r"MLflow at http://\*\*\*@127.0.0.1:\d+ failed: MlflowException") as caught:
        read("first", f"http://me:s3cret@127.0.0.1:{port}")
    assert "s3cret" not in str(caught.value)
