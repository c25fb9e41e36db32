import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from evals.run import main
from retrievers import QdrantRetriever
from tests.evals.run.conftest import Run
from tests.support.command import call
from tests.support.experiment import CASES, Experiment, load_report
from tests.support.loopback import free_port
from tests.support.mlflow_server import mlflow_server


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


# What a run prints, writes and returns


def test_a_run_prints_its_table_and_writes_nothing_that_was_not_asked_for(run: Run, folder: Path) -> None:
    done = run()
    assert (done.code, done.err) == (0, "")
    assert "ranking/hit_rate_at_3" in done.out
    assert "No criteria to meet." in done.out
    screen = done.out.partition("\nDetails\n")[0].splitlines()
    assert len(screen) <= 18
    assert next(one for one in screen if one.startswith("Next: ")).endswith(" --sweep.threshold 0:0.6:0.05")
    assert everything(folder) == set()


def test_the_next_command_takes_the_flags_that_name_data_and_settings(run: Run) -> None:
    done = run("--retriever.top-k", "1", "--ids", "forward,inverse", "--metrics", "ranking/*", "--no-gate")
    [line] = [line for line in done.out.splitlines() if line.startswith("Next: ")]
    assert " --retriever.top-k 1 " in line and " --dataset.ids forward,inverse" in line
    assert "--metrics" not in line and "--no-gate" not in line


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--criteria", "{ranking/hit_rate_at_5: '>= 0.75'}"], 0),
        (["--criteria", "{ranking/hit_rate_at_5: '> 0.75'}"], 1),
        (["--criteria", "{ranking/hit_rate_at_5: '> 0.75'}", "--no-gate"], 0),
        (["--criteria", "{ranking/expected_top3_in_5: '>= 0'}"], 1),
        (["--criteria", "{queries/pass_rate: '>= 0.8'}"], 0),
    ],
)
def test_the_exit_code_says_whether_the_criteria_are_met(run: Run, arguments: list[str], code: int) -> None:
    assert run(*arguments).code == code


def test_junit_holds_the_criteria_and_the_queries(run: Run, folder: Path) -> None:
    done = run("--junit", "deep/junit.xml", "--criteria", "{ranking/hit_rate_at_5: '> 0.75'}")
    assert done.code == 1
    criteria, queries = ElementTree.parse(folder / "deep" / "junit.xml").getroot()
    assert [case.get("name") for case in criteria.iter("testcase")] == ["ranking/hit_rate_at_5 > 0.75", "complete"]
    assert [case.get("name") for case in queries.iter("testcase")] == [case["id"] for case in CASES]
    assert (criteria.get("failures"), queries.get("failures"), queries.get("skipped")) == ("1", "0", "1")
    assert everything(folder / "deep") == {folder / "deep" / "junit.xml"}


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["--limit", "2"], ["forward", "inverse"]),
        (["--ids", "soup,forward"], ["forward", "soup"]),
        (["--ids", "[soup]"], ["soup"]),
        (["--dataset.ids", "soup"], ["soup"]),
    ],
)
def test_fewer_queries(run: Run, folder: Path, arguments: list[str], ids: list[str]) -> None:
    assert run(*arguments, "--output", "r.json").code == 0
    assert [query["id"] for query in load_report(folder / "r.json")["queries"]] == ids


def test_the_exported_settings_give_an_application_the_same_results(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, indexed: Experiment
) -> None:
    relative = os.path.relpath(indexed.store)
    done = run("--retriever.store.path", relative, "--output", "r.json", "--export", "app/retriever.yaml")
    assert done.code == 0
    monkeypatch.chdir("/")
    with QdrantRetriever.from_config(folder / "app" / "retriever.yaml") as retriever:
        for query in load_report(folder / "r.json")["queries"]:
            session = retriever.search(query["query"])
            expected = [(hit["chunk_id"], hit["score"]) for hit in query["retrieved"]]
            assert [(found.chunk.chunk_id, found.score) for found in session.chunks] == expected


def test_a_run_of_any_name_is_kept(run: Run, folder: Path, mlflow_database: Path) -> None:
    name = "ö" * 300
    (folder / "mlruns").mkdir()
    shutil.copy(mlflow_database, folder / "mlruns")
    done = run("--tracking.enabled", "true", "--tracking.run-name", name, "--quiet")
    assert (done.code, done.err) == (0, "")
    [file] = (folder / "mlruns" / "reports").iterdir()
    assert (file.name, load_report(file)["name"]) == ("ö" * 60 + ".json", "small")
    [(kept, status)] = runs(folder)
    assert (kept, status) == (name[:250], "FINISHED")


def runs(folder: Path) -> list[tuple[str, str]]:
    """Name and status of each run in the local MLflow."""
    with closing(sqlite3.connect(folder / "mlruns" / "mlflow.db")) as database:
        return database.execute("SELECT name, status FROM runs").fetchall()


# MLflow out of reach


def test_where_mlflow_cannot_be_reached_the_report_is_there_all_the_same(run: Run, folder: Path) -> None:
    uri = f"http://me:s3cret@127.0.0.1:{free_port()}"
    done = run("--tracking.enabled", "true", "--tracking.uri", uri, "--quiet", "--log-file", "log.jsonl")
    assert done.code == 3
    [file] = (folder / "mlruns" / "reports").iterdir()
    assert done.err.startswith(f"incomplete: MLflow at {uri.replace('me:s3cret', '***')} failed: ")
    place = file.relative_to(folder)
    shown = uri.replace("me:s3cret", "***")
    late = f"python -m evals.tracking {place} --tracking.uri '{shown}'"
    assert done.err.endswith(f"(the report is at {place}; {late} writes it)\n")
    assert load_report(file)["config"]["tracking"]["uri"] == uri.replace("me:s3cret", "***")
    assert "MLflow failed" in (folder / "log.jsonl").read_text()
    kept = "".join(path.read_text() for path in everything(folder) if path.is_file())
    assert "s3cret" not in kept + done.err + done.out


REPORTS = ("--output", "r.json", "--junit", "j.xml", "--html", "r.html")


def test_a_server_that_refuses_at_the_end_leaves_the_report_and_a_failed_run(run: Run, folder: Path) -> None:
    with mlflow_server() as server:
        server.refuse = ("runs/log-batch",)
        done = run("--tracking.enabled", "true", "--tracking.uri", server.url, *REPORTS)
    assert (done.code, server.statuses) == (3, ["FAILED"])
    assert (folder / "r.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert ElementTree.parse(folder / "j.xml").getroot().tag == "testsuites"
    assert "ranking/hit_rate_at_3" in done.out
    assert len(load_report(folder / "r.json")["queries"]) == len(CASES)


# Faults of the user


def row(**values: Any) -> str:
    return json.dumps({**CASES[0], **values})


NOWHERE = [{"source_url": "/docs/arms/kinematics", "quote": "nothing on this page says anything of the kind"}]
GOLDEN = ["--dataset.path", "bad.jsonl"]
EVERY = ("4 faults in the golden data:", "bad.jsonl:1: querry: unknown field; did you mean 'query'",
         "bad.jsonl:2: an out-of-scope case must not have evidence", "bad.jsonl:3: not valid JSON",
         "bad.jsonl:5: id 'forward' is used already at")  # fmt: skip
OTHER_MODEL = ["--retriever.embedding.provider", "python",
               "--retriever.embedding.model", "tests.support.embeddings:Counting"]  # fmt: skip
TRACKED = ["--tracking.enabled", "true"]
# Files in the working directory (None: a pipe), arguments, and what is said.
FAULTS: dict[str, tuple[dict[str, str | None], list[str], tuple[str, ...]]] = {
    "every fault of a golden file": (
        {"bad.jsonl": "\n".join([row(querry="x"), row(in_scope=False), "{", row(), row()])}, GOLDEN, EVERY,
    ),
    "evidence that resolves to nothing": (
        {"bad.jsonl": "\n".join([row(), row(id="b", evidence=NOWHERE)])}, GOLDEN,
        ("bad.jsonl:2: evidence.0: no chunk of '/docs/arms/kinematics' holds the quote 'nothing on this page",),
    ),
    "no golden file": ({}, ["--dataset.path", "gone.jsonl"], ("gone.jsonl: cannot be read: No such file",)),
    "a criterion of an unknown metric": (
        {}, ["--criteria", "{ranking/recal_at_5: '>= 0.5'}"],
        ("no metric 'ranking/recal_at_5'; did you mean 'ranking/recall_at_5'",),
    ),
    "an unknown id": ({}, ["--ids", "forwards"], ("no case with id 'forwards'; did you mean 'forward'?",)),
    "no golden data": ({"bad.yaml": "{}"}, ["--config", "bad.yaml"], ("no golden data: set dataset.path",)),
    "a packaged experiment with a slip": (
        {}, ["--config", "defalt"],
        ("--config defalt: expected a YAML file, or one of cohere, default, spec, found neither; did you mean",),
    ),
    "a missing collection": (
        {}, ["--retriever.collection", "robot"], ("no collection 'robot'", "did you mean 'robots'?"),
    ),
    "no embedded store": (
        {}, ["--retriever.store.path", "gone", "--retriever.collection", "mine"],
        ("no embedded store at", "python -m retrievers index DIR", "--retriever.store.path or --retriever.store.url"),
    ),
    "another model": (
        {}, OTHER_MODEL, ("was embedded by wordllama:l2_supercat_256, but the query would be embedded by python:",),
    ),
    "a folder in place of the report": ({}, ["--output", "."], ("expected a file to write, found a folder",)),
    "a report below a file": ({"file": ""}, ["--output", "file/r.json"], ("file/r.json: cannot be written",)),
    "a report with too long a name": ({}, ["--output", "r" * 300], ("argument --output: ", "(File name too long)")),
    "one file for two outputs": ({}, ["--output", "r", "--html", "r"], ("two outputs would be one file",)),
    "a pipe in place of the log": ({"p": None}, ["--log-file", "p"], ("--log-file p: expected a file to append",)),
    "a database of MLflow that is damaged": (
        {"mlflow.db": "garbage" * 100}, [*TRACKED, "--tracking.uri", "sqlite:///mlflow.db"],
        ("mlflow.db: the database of MLflow is damaged (file is not a database)", "move it away"),
    ),
    "a file in place of mlruns": (
        {"mlruns": ""}, TRACKED, ("mlruns: cannot be written (Not a directory)", "--tracking.enabled false"),
    ),
    "a key in place of its variable": (
        {}, ["--judge.api-key-env", "sk-s3cret"],
        ("judge.api_key_env: expected the name of an environment variable", "and not the key itself"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_user_is_named_and_nothing_written(run: Run, folder: Path, name: str) -> None:
    files, arguments, said = FAULTS[name]
    for file, text in files.items():
        os.mkfifo(folder / file) if text is None else (folder / file).write_text(text)
    before = everything(folder)
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    for piece in said:
        assert piece in done.err
    assert "Traceback" not in done.err
    assert "s3cret" not in done.err
    assert everything(folder) == before


# Settings


def test_the_printed_configuration_loaded_again_is_the_same(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = ["--retriever.top-k", "7", "--retriever.store.path", "here", "--criteria", "{scope/abstention: '> 0.1'}"]
    printed = run("--print-config", *changes)
    assert (printed.code, printed.err) == (0, "")
    settings = yaml.safe_load(printed.out)
    assert settings["retriever"]["top_k"] == 7
    assert settings["retriever"]["store"]["path"] == str(folder / "here")
    elsewhere = folder.parent / "elsewhere" / "again.yaml"
    elsewhere.parent.mkdir()
    elsewhere.write_text(printed.out)
    monkeypatch.chdir(elsewhere.parent)
    again = call(main, ["--config", elsewhere, "--print-config"], capsys)
    assert again.out == printed.out
    assert everything(folder) == set()
