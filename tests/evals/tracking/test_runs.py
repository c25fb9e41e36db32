"""A report as a run in MLflow: written by the real client into SQLite, and read back."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run, Span
from mlflow.store.tracking.dbmodels.models import SqlTraceInfo
from mlflow.tracing.client import TracingClient
from syrupy.assertion import SnapshotAssertion

from evals.collect.observations import Summary
from evals.compare import main as compare
from evals.errors import TrackingError
from evals.judge.verdicts import Claim
from evals.report.model import JudgeFacts, Report
from evals.tracking.__main__ import main
from evals.tracking.values import MOST_METRICS, cell_runs, metric_values
from tests.support.command import Done
from tests.support.results import report
from tests.support.stored_reports import stored
from tests.support.tracking import artifact, cells_of, client, run_of, text_of, traces_of, written

Command = Callable[..., Done]
IN_TESTS = ("--tracking.experiment", "tests")
OWN_KEYS: dict[str, Any] = {
    "abbreviations": {"R&D": "research"}, "keyword": {"synonyms": {"C++": ["cpp"]}, "language": "german"},
    "filters": {"any": [{"a(b)": 1}]}, "candidates": 7,
}  # fmt: skip
"""Settings with keys of a user's own, which MLflow would refuse as names of parameters."""


def named(name: str) -> Report:
    """Return the judged run under a name of its own: with a reference answer, claims, stages, and long texts."""
    made, claim = stored("judged"), Claim(statement="It turns.", attributed=1, reason="It says so.")
    first, *others = made.queries
    stages = {"embed": 0.25, "search": 1.5, "rerank": 2.0, "total": 4.0}
    about = {"reference_answer": "It turns.", "claims": [claim], "stages_ms": stages}
    judge = JudgeFacts(provider="cohere", model="command", parameters={"seed": 0}, fingerprint="cafe")
    changes = {
        "run": name,
        "queries": [first.model_copy(update=about), *others],
        "chunks": {name: one.model_copy(update={"text": "The whole text. " * 20}) for name, one in made.chunks.items()},
        "facts": made.facts.model_copy(update={"judge": judge}),
        "config": made.config
        | {"retriever": made.config["retriever"] | OWN_KEYS, "tracking": {"uri": "http://***@host"}},
    }
    return Report.model_validate(dict(made) | changes)


@pytest.fixture(scope="module")
def swept() -> Report:
    return stored("grid").model_copy(update={"run": "a grid"})


@pytest.fixture(scope="module")
def grid(folder: Path, swept: Report) -> Run:
    return run_of(written(swept))


def runs_of(made: Report) -> list[Run]:
    experiment = client().get_experiment_by_name("tests")
    digest = hashlib.sha256(text_of(made).encode()).hexdigest()
    return list(client().search_runs([experiment.experiment_id], f"tags.`report.sha256` = '{digest}'"))


def saved(made: Report, folder: Path) -> Path:
    file = folder / "report.json"
    file.write_text(text_of(made), encoding="utf-8")
    return file


def rows_of(run: Run, name: str) -> list[dict[str, Any]]:
    table = json.loads(artifact(run, f"tables/{name}.json").read_text())
    return [dict(zip(table["columns"], values, strict=True)) for values in table["data"]]


def everything(run: Run) -> dict[str, Any]:
    return {
        "info": (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time),
        "values": (run.data.metrics, run.data.params, run.data.tags),
        "cells": [(cell.info.run_name, cell.data.metrics, cell.data.params) for cell in cells_of(run)],
        "files": {file.name: file.read_bytes() for file in artifact(run, "").rglob("*") if file.is_file()},
        "traces": [
            {
                "query": (trace.info.client_request_id, trace.info.request_preview, trace.info.state.value),
                "tags": {name: trace.info.tags[name] for name in ("query_id", "mlflow.eval.requestId")},
                "spans": [_span(span) for span in trace.data.spans],
                "assessments": {
                    one.name: (one.value, one.rationale, one.source.source_type, one.source.source_id, _failure(one))
                    for one in trace.info.assessments
                },
                "is of this run": {one.run_id for one in trace.info.assessments} == {run.info.run_id},
            }
            for trace in traces_of(run)
        ],
    }


def _span(span: Span) -> tuple[Any, ...]:
    stages = {name: value for name, value in span.attributes.items() if name.endswith("_ms")}
    took = (span.end_time_ns or 0) - span.start_time_ns
    return span.name, span.span_type, span.parent_id is None, took, stages, span.inputs, span.outputs


def _failure(one: Any) -> tuple[str, str] | None:
    return (one.error.error_code, one.error.error_message) if getattr(one, "error", None) else None


def test_of_a_way_whose_cells_all_miss_the_criteria_the_best_is_logged(swept: Report) -> None:
    assert swept.grid is not None
    ways = swept.grid.cells.configuration
    met = [place for place in swept.grid.ranking.order if ways[place] == ways[swept.grid.ranking.order[0]]]
    ranking = swept.grid.ranking.model_copy(update={"order": met})
    logged = cell_runs(swept.model_copy(update={"grid": swept.grid.model_copy(update={"ranking": ranking})}))
    assert {cell.name for cell in cell_runs(swept)} == {cell.name for cell in logged} and len({*ways}) > 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["by hand", "unlisted", "grid"])
def test_what_mlflow_has_of_a_report(name: str, snapshot: SnapshotAssertion) -> None:
    made = named(name) if name == "by hand" else stored(name)
    run = run_of(written(made))
    known = everything(run)
    metrics, parameters, tags = known["values"]
    own = {name: value for name, value in tags.items() if not name.startswith(("mlflow.user", "mlflow.source"))}
    tables = {name: rows_of(run, name)[:2] for name in ("metrics", "queries", *(["grid"] if made.grid else []))}
    first = {"cells": known["cells"][:2], "tables": tables, "traces": known["traces"][:3]}
    first["names of cells"] = [name for name, *_ in known["cells"]]
    curves = [name for name in metrics if name.startswith("curve_by_")]
    histories = {name: client().get_metric_history(run.info.run_id, name) for name in curves}
    first["curves"] = {name: {point.step: point.value for point in points} for name, points in histories.items()}
    assert {**known, **first, "values": (metrics, parameters, own), "files": sorted(known["files"])} == snapshot
    assert own["report.sha256"] == hashlib.sha256(known["files"]["report.json"]).hexdigest()
    for cell in cells_of(run):
        assert cell.info.status == "FINISHED" and cell.info.start_time < run.info.start_time
        assert client().list_artifacts(cell.info.run_id) == [] and traces_of(cell) == []
    listed = [item.path for item in client().list_artifacts(run.info.run_id)]
    assert listed[0] == "report.html" and made.verdict in unescape(known["files"]["report.html"].decode())


def test_metrics_are_values_alone_those_that_say_most_first() -> None:
    metrics: dict[str, float | None] = {f"candidates/recall_at_{n}": n / 7 for n in range(1, 60)}
    metrics |= {"ranking/ndcg_at_5": 0.123456789, "ranking/hit_rate_at_5": 1.0, "a": None}
    entries = {name: Summary(metric=name, value=value) for name, value in metrics.items()}
    found = metric_values(report().model_copy(update={"metrics": entries, "criteria": []}))
    first = ["ranking/hit_rate_at_5", "ranking/ndcg_at_5", "candidates/recall_at_1"]
    assert len(found) == MOST_METRICS and list(found)[:3] == first
    assert found.items() <= metrics.items()


@pytest.mark.usefixtures("folder")
def test_of_more_queries_than_wanted_the_first_are_taken_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.tracking.runs.BATCH", 7)
    monkeypatch.setattr("evals.tracking.traces.MOST", 50)
    made = named("many")
    long = {"query": "Why so? " * 200, "retrieved": made.queries[0].retrieved * 100}
    rows = [made.queries[n % 3].model_copy(update={"id": f"{n}-{'x' * 99}", **long}) for n in range(60)]
    found = traces_of(run_of(written(made.model_copy(update={"queries": rows}))))
    assert sorted(trace.info.tags["query_id"] for trace in found) == sorted(row.id for row in rows[:50])
    for name in ("client_request_id", "request_preview", "response_preview"):
        most = SqlTraceInfo.__table__.columns[name].type.length  # which Postgres holds, and SQLite does not
        assert {len(getattr(trace.info, name)) for trace in found} == {most}
    assert {len(trace.data.spans) for trace in found} == {2} and all(trace.info.assessments for trace in found)


@pytest.mark.usefixtures("folder")
def test_a_comparison_is_written_to_the_other_run_by_the_keys_of_mlflow(tmp_path: Path, command: Command) -> None:
    """Those of `compare_evaluations`, from MLflow 3.18 on; queries are paired by its tag of a trace."""
    first, second = (written(named(name)).run_id for name in ("compared", "with it"))
    done = command(compare, first, "with it", *IN_TESTS, "--track")
    assert done.code == 0 and f"MLflow run {second}" in done.out
    run, key = client().get_run(second), f"compare/{first[:8]}"
    figures = {name.rpartition("/")[2]: value for name, value in run.data.metrics.items() if "pass_rate/" in name}
    assert figures == {"diff": 0, "ci_low": pytest.approx(-0.56, abs=0.01), "ci_high": pytest.approx(0.56, abs=0.01),
                       "p_value": 1, "n_paired": 3}  # fmt: skip
    assert all(name.startswith(f"{key}/") for name in run.data.metrics.keys() - metric_values(named("")).keys())
    assert json.loads(artifact(run, f"{key}.json").read_text()) == {"baseline_run_id": first}
    assert {trace.info.tags["mlflow.eval.requestId"] for trace in traces_of(run)} == {"right", "wrong", "empty"}
    file = command(compare, first, saved(named("a file"), tmp_path), *IN_TESTS, "--track")
    assert file.code == 2 and "--track: expected runs in MLflow, by id or name" in file.err


@pytest.mark.parametrize("kind", ["run", "grid"])
def test_a_report_is_written_late_as_live_and_once(kind: str, swept: Report, tmp_path: Path, command: Command) -> None:
    made = swept.model_copy(update={"run": "one grid"}) if kind == "grid" else named("one run")
    live, file = written(made), saved(made, tmp_path)
    again, done = (command(main, file, "--tracking.experiment", experiment) for experiment in ("tests", "late"))
    assert f"run {live.run_id} is there already; nothing was written (python -m evals ui)" in again.out
    assert again.code == done.code == 0
    late = client().get_run(done.out.split()[2])
    assert everything(late) == everything(run_of(live)) and late.info.run_id != live.run_id


@pytest.mark.parametrize(
    ("of", "name", "turn"),
    [
        (MlflowClient, "create_run", 2),  # the first cell's
        (MlflowClient, "log_batch", 3),
        (MlflowClient, "log_text", 2),
        (TracingClient, "start_trace", 1),
        (TracingClient, "log_spans", 1),
        (MlflowClient, "set_terminated", -1),  # the last one, as finished
    ],
)
def test_what_was_left_unfinished_is_deleted_and_written_again(
    grid: Run, swept: Report, of: Any, name: str, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, last = swept.model_copy(update={"run": f"stopped at {name}"}), turn if turn > 0 else len(cells_of(grid)) + 2
    works, calls = getattr(of, name), list[Any]()

    def stopped(self: Any, *given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) == last:
            raise KeyboardInterrupt
        return works(self, *given, **named)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(of, name, stopped)
        written(made)
    [left] = runs_of(made)
    assert left.info.status == "FAILED" and not [run for run in cells_of(left) if run.info.status == "RUNNING"]
    done = written(made)
    [run] = runs_of(made)
    assert (run.info.run_id, run.info.status, done.is_new) == (done.run_id, "FINISHED", True)
    assert not cells_of(left) and not traces_of(left)
    assert everything(run)["traces"] and len(cells_of(run)) >= 3
    assert not written(made).is_new


@pytest.mark.usefixtures("folder")
def test_two_at_once_write_it_once(tmp_path: Path) -> None:
    made = named("at once")
    arguments = [str(saved(made, tmp_path)), *IN_TESTS, "--quiet"]
    with ThreadPoolExecutor(2) as pool:
        codes = [*pool.map(main, [arguments] * 2)]
    assert codes == [0, 0] and len(runs_of(made)) == 1


@pytest.mark.parametrize("table", ["runs", "metrics", "spans"])
def test_a_full_database_costs_a_line(folder: Path, tmp_path: Path, table: str, command: Command) -> None:
    file = Path(shutil.copy(folder / "mlruns" / "mlflow.db", tmp_path))
    with closing(sqlite3.connect(file)) as database:
        stop = "BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
        database.execute(f"CREATE TRIGGER full BEFORE INSERT ON {table} {stop}")
    uri = f"sqlite:///{file}"
    done = command(main, saved(named(table), tmp_path), *IN_TESTS, "--tracking.uri", uri)
    assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
    assert done.err.startswith(f"incomplete: MLflow at {uri} failed: ")
    assert "RUNNING" not in [run.info.status for run in client(uri).search_runs(["0", "1"])]


@pytest.mark.usefixtures("folder")
def test_a_deleted_experiment_is_named() -> None:
    run = run_of(written(named("r"), experiment="gone"))
    client().delete_experiment(run.info.experiment_id)
    with pytest.raises(TrackingError, match="'gone' was deleted; name another"):
        written(named("again"), experiment="gone")


@pytest.mark.usefixtures("folder")
def test_an_experiment_that_another_run_makes_at_the_same_moment_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    makes = MlflowClient.create_experiment

    def after_another(self: MlflowClient, *given: Any, **named: Any) -> Any:
        makes(self, *given, **named)
        return makes(self, *given, **named)

    monkeypatch.setattr(MlflowClient, "create_experiment", after_another)
    run = run_of(written(named("second"), experiment="made twice"))
    assert run.info.status == "FINISHED"
    assert client().get_experiment(run.info.experiment_id).name == "made twice"
