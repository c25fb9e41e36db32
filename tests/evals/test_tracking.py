import json
import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from evals import tracking
from evals.config import TrackingConfig
from evals.errors import TrackingError
from evals.grid.children import Child
from evals.judge.records import ChunkVerdict, Claim
from evals.records import Summary
from retrievers.errors import ConfigError
from tests.support.experiment import silent
from tests.support.judged import judging
from tests.support.mlflow_server import MlflowServer, mlflow_server
from tests.support.results import golden, result, without_scores
from tests.support.shared import shared_folder

SETTINGS = {
    "seed": 0,
    "retriever": {"top_k": 3, "store": {"url": None}},
    "criteria": {"ranking/mrr_at_10": ">= 0.1"},
    "tracking": {"uri": "http://***@host", "experiment": "tests"},
    "text": "x" * 10_000,
}


def config(**settings: Any) -> TrackingConfig:
    return TrackingConfig.model_validate({"experiment": "tests", **settings})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """A working directory whose database all tests of this file share."""
    with pytest.MonkeyPatch.context() as patch:
        with shared_folder(tmp_path_factory, worker_id, "tracking") as made:
            patch.chdir(made)
            tracking.start(config(), "zeroth", {}).end("FINISHED")
        yield made


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """A run that was logged whole, as MLflow gives it back."""
    from matplotlib.figure import Figure

    figure = Figure()
    figure.add_subplot().plot([0, 1])
    tracker = tracking.start(config(), "first", SETTINGS)
    tracker.log(result(), golden(), {"report.json": '{"a": 1}', "experiment.yaml": "a: 1"}, {"one": figure})
    tracker.end("FINISHED")
    return client().get_run(tracker.run_id)


def client() -> MlflowClient:
    return MlflowClient(tracking_uri=tracking.local_uri(tracking.FOLDER))


def artifact(run: Run, name: str) -> Path:
    return Path(run.info.artifact_uri.removeprefix("file://")) / name


def test_the_run_has_its_name_its_experiment_and_ends(run: Run) -> None:
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert client().get_experiment(run.info.experiment_id).name == "tests"


def test_the_database_and_the_artifacts_are_under_mlruns(run: Run, folder: Path) -> None:
    assert (folder / "mlruns" / "mlflow.db").stat().st_size > 0
    assert artifact(run, "").is_relative_to(folder / "mlruns" / "artifacts")


def test_parameters_are_the_flat_settings_that_are_set_but_not_where_runs_are_kept(run: Run) -> None:
    assert run.data.params == {
        "seed": "0",
        "retriever.top_k": "3",
        "criteria.ranking/mrr_at_10": ">= 0.1",
        "tracking.experiment": "tests",
        "text": "x" * 6_000,
    }


def test_a_users_own_keys_are_no_names_of_parameters() -> None:
    """MLflow would refuse `retriever.abbreviations.R&D`."""
    tables = {"abbreviations": {"R&D": "research"}, "keyword": {"synonyms": {"C++": ["cpp"]}, "language": "english"}}
    found = tracking._parameters({"retriever": {**tables, "filters": {"any": [{"a(b)": 1}]}, "top_k": 3}})
    assert found == {
        "retriever.abbreviations": {"R&D": "research"},
        "retriever.keyword.synonyms": {"C++": ["cpp"]},
        "retriever.keyword.language": "english",
        "retriever.filters": {"any": [{"a(b)": 1}]},
        "retriever.top_k": 3,
    }


def test_metrics_are_those_that_have_a_value(run: Run) -> None:
    assert run.data.metrics == tracking.metric_values(result().summaries)


def test_a_metric_has_its_interval_and_counts_beside_it() -> None:
    summaries = [
        Summary(metric="a", value=0.5, ci_low=0.4, ci_high=0.6, n=9),
        Summary(metric="b", value=1.0, n=3, n_failed=2, n_unscored=4, bound_low=0.6, bound_high=1.0),
        Summary(metric="c", value=None, n_unscored=3, note="why"),
        Summary(metric="d", value=0.0, ci_low=0.0, ci_high=0.0, n=1),
    ]
    assert tracking.metric_values(summaries) == {
        "a": 0.5, "a.n": 9.0, "a.ci_low": 0.4, "a.ci_high": 0.6,
        "b": 1.0, "b.n": 3.0, "b.n_failed": 2.0,
        "d": 0.0, "d.n": 1.0, "d.ci_low": 0.0, "d.ci_high": 0.0,
    }  # fmt: skip


def test_tags_are_what_makes_runs_comparable(run: Run) -> None:
    expected = {
        "dataset.fingerprint": "beef",
        "collection.fingerprint": "c0ffee",
        "collection.points": "1234",
        "code.commit": "abc-dirty",
        "passed": "False",
        "criteria.failed": "content/topic_match",
        "version.python": "3.11",
        "version.ragas": "0.4.3",
    }
    assert {name: run.data.tags.get(name) for name in expected} == expected


def test_the_runs_page_says_what_it_came_to(run: Run) -> None:
    shown = run.data.tags["mlflow.note.content"]
    assert "queries answered as they should be" in shown
    assert "| content/topic_match" in shown
    assert "**FAIL**" in shown


def test_the_golden_data_is_the_runs_input(run: Run) -> None:
    [found] = run.inputs.dataset_inputs
    assert (found.dataset.name, found.dataset.digest) == ("golden", golden().fingerprint[:36])
    assert {tag.key: tag.value for tag in found.tags} == {"mlflow.data.context": "evaluation"}


def test_a_hub_data_set_is_named_as_the_source(run: Run) -> None:
    tracker = tracking.start(config(), "hub", {})
    tracker.log(result(), replace(golden(), name="someone/queries"), {}, {})
    [found] = client().get_run(tracker.run_id).inputs.dataset_inputs
    assert (found.dataset.name, json.loads(found.dataset.source)["path"]) == ("queries", "someone/queries")


def test_the_table_has_a_row_a_query_and_a_column_a_metric(run: Run) -> None:
    table = json.loads(artifact(run, "queries.json").read_text())
    rows = [dict(zip(table["columns"], values, strict=True)) for values in table["data"]]
    assert [(row["id"], row["outcome"]) for row in rows] == [
        ("right", "SUCCESS"),
        ("wrong", "FAILURE"),
        ("empty", "FAILURE"),
    ]
    assert rows[0]["retrieved"] == "1. 0.900 a.md:1-2\n2. 0.500 b.md:2-3"
    assert [row["ranking/hit_rate_at_5"] for row in rows] == [1.0, None, 0.0]
    assert [row["ragas/id_context_recall"] for row in rows] == [0.5, None, None]
    assert rows[2]["reasons"].startswith("returned 0 chunks, expected at least 1; and more")


def test_what_the_judge_said_is_in_the_table_and_who_it_was_in_the_tags() -> None:
    said = judging(
        verdicts={
            ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
            ("right", "b"): ChunkVerdict(verdict=0, reason="It does not."),
        },
        claims={("right", ("a", "b")): (Claim(statement="It turns.", attributed=1, reason="It says so."),)},
    )
    judge = {"provider": "cohere", "model": "command", "parameters": {"seed": 0}, "fingerprint": "cafe"}
    made = result(judging=said, facts={**result().facts, "judge": judge})
    table = tracking._table(made)
    assert table["judge"] == ["1. useful: It helps.\n2. useless: It does not.", "", ""]
    assert table["claims"] == ["supported: It turns. (It says so.)", "", ""]
    tags = tracking._tags(made)
    assert (tags["judge.provider"], tags["judge.model"], tags["judge.fingerprint"]) == ("cohere", "command", "cafe")
    assert "judge" not in tracking._table(result()) and "judge.model" not in tracking._tags(result())


def test_files_and_figures_are_artifacts(run: Run) -> None:
    assert artifact(run, "report.json").read_text() == '{"a": 1}'
    assert artifact(run, "experiment.yaml").read_text() == "a: 1"
    assert artifact(run, "figures/one.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_joins_the_first(run: Run) -> None:
    tracker = tracking.start(config(), "second", {"seed": 1})
    tracker.end("KILLED")
    again = client().get_run(tracker.run_id)
    assert (again.info.experiment_id, again.info.status) == (run.info.experiment_id, "KILLED")


def test_the_environment_does_not_redirect_a_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "another")
    monkeypatch.setenv("MLFLOW_RUN_ID", "deadbeef")
    tracker = tracking.start(config(), "third", {"seed": 1})
    tracker.log(result(), golden(), {}, {})
    tracker.end("FINISHED")
    assert client().get_run(tracker.run_id).info.experiment_id == run.info.experiment_id


@pytest.mark.slow
def test_runs_that_begin_at_once_share_a_database_that_none_of_them_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    monkeypatch.chdir(tmp_path)
    trackers: list[tracking.Tracker] = []
    threads = [
        threading.Thread(target=lambda: trackers.append(tracking.start(config(uri=uri), "r", {}))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tracker.run_id for tracker in trackers}) == 3
    assert len({tracker.experiment_id for tracker in trackers}) == 1


@pytest.mark.parametrize("name", ["mlruns", "mlruns/deeper"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "mlruns").touch()
    for check in (tracking.check_folder, tracking.local_uri):
        with pytest.raises(ConfigError, match=r"cannot be written \(Not a directory\).*--tracking\.enabled false"):
            check(tmp_path / name)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_server_that_does_not_answer() -> None:
    uri = f"http://me:s3cret@127.0.0.1:{closed_port()}"
    with pytest.raises(TrackingError) as caught:
        tracking.start(config(uri=uri), "r", {})
    assert f"MLflow at {uri.replace('me:s3cret', '***')} failed: MlflowException" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    with mlflow_server() as running:
        yield running


def test_a_run_whose_parameters_are_refused_ends_as_failed(server: MlflowServer) -> None:
    server.refuse = ("runs/log-batch",)
    with pytest.raises(TrackingError, match="refused as the test wants it"):
        tracking.start(config(uri=server.url), "r", SETTINGS)
    assert server.statuses == ["FAILED"]


def test_what_the_server_refuses_later_is_said_and_the_run_still_ended(server: MlflowServer) -> None:
    tracker = tracking.start(config(uri=server.url), "r", SETTINGS)
    server.refuse = ("runs/log-batch",)
    with pytest.raises(TrackingError, match="refused as the test wants it"):
        tracker.log(result(), golden(), {}, {})
    tracker.end("FAILED")
    assert server.statuses == ["FAILED"]


def test_mlflow_prints_nothing(server: MlflowServer, capsys: pytest.CaptureFixture[str]) -> None:
    tracking.start(config(uri=server.url.replace("://", "://me:s3cret@")), "r", SETTINGS).end("FINISHED")
    assert server.statuses == ["FINISHED"]
    assert capsys.readouterr() == ("", "")


def test_loggers_are_as_loud_after_as_before(run: Run) -> None:
    logger = logging.getLogger("mlflow")
    before = logger.level
    tracking.start(config(), "quiet", {}).end("FINISHED")
    assert logger.level == before


def test_a_server_that_goes_away_is_said_and_a_run_it_can_no_longer_end_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with mlflow_server() as server:
        tracker = tracking.start(config(uri=server.url.replace("://", "://me:s3cret@")), "r", SETTINGS)
    with pytest.raises(TrackingError, match="MLflow at http") as caught:
        tracker.log(result(), golden(), {}, {})
    with caplog.at_level(logging.ERROR, "evals.tracking"):
        tracker.end("FAILED")
    assert "MLflow run r1 could not be ended as FAILED" in caplog.text
    assert "s3cret" not in caplog.text + str(caught.value)


def test_a_run_of_a_retriever_without_scores_has_no_tag_of_what_is_not_known() -> None:
    tags = tracking._tags(without_scores())
    assert (tags["retriever"], tags["relevance"]) == ("Bm25", "returned")
    assert "collection.fingerprint" not in tags and "collection.points" not in tags
    assert "None" not in tags.values()
    table = tracking._table(without_scores())
    assert table["top_score"] == [None, None, None]
    assert table["retrieved"][1] == "1.   –   b.md:1-2"


# A grid

TABLE: dict[str, list[Any]] = {"top_k": [1, 2], "threshold": [0.0, None], "ranking/ndcg_at_10": [0.25, None]}
ALONG: dict[str, list[tuple[int, float]]] = {
    "ranking/ndcg_at_10": [(1, 0.25), (2, 0.5), (3, 0.5)],
    "scope/abstention": [(1, 1.0)],
}


def cells(count: int) -> list[Child]:
    return [
        Child(
            name=f"semantic, top_k {cell + 1}",
            cell=cell,
            parameters={"retriever.mode": "semantic", "retriever.top_k": cell + 1, "cell.threshold": 0.05 * cell},
            metrics={"ranking/ndcg_at_10": cell / 10, "cost/context_tokens": 100.0 + cell},
            roles=("recommended", "Pareto front") if cell == 1 else (),
        )
        for cell in range(count)
    ]


@pytest.fixture(scope="module")
def grid(folder: Path) -> Run:
    """A run of a grid with six cells below it, as MLflow gives it back."""
    tracker = tracking.start(config(), "a grid", {})
    tracker.log_grid(cells(6), TABLE, ALONG, silent)
    tracker.end("FINISHED")
    return client().get_run(tracker.run_id)


def children_of(parent: Run) -> list[Run]:
    wanted = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    return list(client().search_runs([parent.info.experiment_id], wanted, order_by=["attributes.start_time DESC"]))


def test_cells_are_finished_runs_below_that_of_the_grid_in_its_order(grid: Run) -> None:
    found = children_of(grid)
    assert [one.info.run_name for one in found] == [child.name for child in cells(6)]
    assert {one.info.status for one in found} == {"FINISHED"}
    assert [one.data.tags["cell"] for one in found] == ["0", "1", "2", "3", "4", "5"]
    assert [one.data.tags.get("role") for one in found] == [None, "recommended, Pareto front", None, None, None, None]


def test_a_cell_has_its_parameters_and_metrics_and_nothing_else(grid: Run) -> None:
    for one, child in zip(children_of(grid), cells(6), strict=True):
        assert one.data.metrics == child.metrics
        assert one.data.params == {name: str(value) for name, value in child.parameters.items()}
        assert client().list_artifacts(one.info.run_id) == []


def test_metrics_along_top_k_have_it_as_their_step(grid: Run) -> None:
    for name, values in ALONG.items():
        history = client().get_metric_history(grid.info.run_id, f"by_top_k/{name}")
        assert [(one.step, one.value) for one in sorted(history, key=lambda m: m.step)] == values


def test_the_grid_is_a_table_that_mlflow_loads(grid: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.local_uri(tracking.FOLDER))  # it asks no client where runs are
    loaded = client().load_table(grid.info.experiment_id, "grid.json", run_ids=[grid.info.run_id])
    assert list(loaded["top_k"]) == [1, 2]
    assert list(loaded["ranking/ndcg_at_10"].isna()) == [False, True]
    assert loaded["ranking/ndcg_at_10"][0] == 0.25


def test_more_steps_than_one_request_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "BATCH", 2)
    tracker = tracking.start(config(), "many steps", {})
    tracker.log_grid([], TABLE, {"a": [(k, k / 7) for k in range(1, 8)]}, silent)
    history = client().get_metric_history(tracker.run_id, "by_top_k/a")
    assert sorted((one.step, one.value) for one in history) == [(k, k / 7) for k in range(1, 8)]


def test_logging_cells_tells_how_many_are_written(folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    tracker = tracking.start(config(), "told", {})
    tracker.log_grid(cells(5), TABLE, {}, lambda *now: told.append(now))
    assert told == [("logging", done, 5) for done in range(1, 6)]
    assert len(children_of(client().get_run(tracker.run_id))) == 5


def test_a_cell_whose_values_are_refused_ends_as_failed_and_no_further_ones_are_begun(folder: Path) -> None:
    broken = [replace(child, metrics={"ndcg@10": 1.0}) for child in cells(40)]
    tracker = tracking.start(config(), "refused", {})
    with pytest.raises(TrackingError, match="ndcg@10"):
        tracker.log_grid(broken, TABLE, {}, silent)
    found = children_of(client().get_run(tracker.run_id))
    assert {one.info.status for one in found} == {"FAILED"}
    assert 0 < len(found) < 40
