import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from evals.metrics import METRICS
from evals.run import main
from retrievers import QdrantRetriever
from tests.support.command import Done, call
from tests.support.experiment import CASES, Experiment, index_once, load_report, make_experiment
from tests.support.loopback import free_port
from tests.support.mlflow_server import mlflow_server

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """An experiment whose collection is there already; tests leave it as it is."""
    made = make_experiment(tmp_path_factory.mktemp("indexed"))
    index_once(made)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def run(indexed: Experiment, folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the small experiment with further arguments."""
    return lambda *arguments: call(main, ["--config", indexed.config, *arguments], capsys)


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


def test_quiet_prints_nothing(run: Run) -> None:
    assert run("--quiet") == Done(0, "", "")


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


def test_output_is_the_whole_report(run: Run, folder: Path) -> None:
    done = run("--output", "deep/report.json", "--criteria", "{ranking/hit_rate_at_5: '>= 0.75'}")
    assert done.out.rstrip().endswith("Report: deep/report.json")
    made = load_report(folder / "deep" / "report.json")
    assert [query["id"] for query in made["queries"]] == [case["id"] for case in CASES]
    assert made["criteria"][0]["passed"] is made["passed"] is True
    assert everything(folder / "deep") == {folder / "deep" / "report.json"}


def test_html_is_one_page_with_every_query(run: Run, folder: Path) -> None:
    done = run("--html", "deep/report.html", "--output", "r.json")
    assert done.out.rstrip().endswith("Page: deep/report.html")
    page = (folder / "deep" / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.count("<figure") == 2
    assert all(f'<td class="nowrap">{case["id"]}<td' in page for case in CASES)
    assert everything(folder / "deep") == {folder / "deep" / "report.html"}


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


def test_traces_that_fail_are_a_failure_of_mlflow_and_the_report_writes_them(
    run: Run, folder: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracing.client import TracingClient

    from evals.tracking.__main__ import main as write_late

    def refused(client: TracingClient, info: object) -> None:
        raise ValueError("not now")

    (folder / "mlruns").mkdir()
    shutil.copy(mlflow_database, folder / "mlruns")
    with monkeypatch.context() as patch:
        patch.setattr(TracingClient, "start_trace", refused)
        first = run("--tracking.enabled", "true", "--tracking.run-name", "a")
    assert first.code == 3 and first.err.count("\n") == 1
    assert (
        "failed: MlflowException: not now (the report is at mlruns/reports/a.json; python -m evals.tracking"
        in first.err
    )
    assert runs(folder) == [("a", "FAILED")]
    assert write_late(["mlruns/reports/a.json", "--quiet"]) == 0
    assert ("a", "FINISHED") in runs(folder)
    with closing(sqlite3.connect(folder / "mlruns" / "mlflow.db")) as database:
        assert database.execute("SELECT count(*) FROM trace_info").fetchall() == [(len(CASES),)]


def test_scores_that_failed_make_a_run_incomplete(run: Run, folder: Path) -> None:
    arguments = {
        "--retriever.store.path": "store",
        "--retriever.embedding.provider": "python",
        "--retriever.embedding.model": "tests.support.embeddings:Drifting",
        "--retriever.trust-embedding": "true",
        "--metrics": "latency/total_p50_ms_c2",
        "--latency.concurrency": "1,2",
        "--output": "r.json",
        "--junit": "j.xml",
    }
    done = run(*(text for pair in arguments.items() for text in pair))
    assert done.code == 3
    assert "incomplete: latency/total_p50_ms_c2:" in done.err
    assert (folder / "r.json").exists()
    [failure] = ElementTree.parse(folder / "j.xml").getroot().iter("failure")
    assert str(failure.get("message")).startswith("latency/total_p50_ms_c2:")


# Faults of the user


def golden_with(*rows: str) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        (folder.parent / "bad.jsonl").write_text("\n".join(rows))
        return ["--dataset.path", str(folder.parent / "bad.jsonl")]

    return write


def file_with(text: str) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        (folder.parent / "bad.yaml").write_text(text)
        return ["--config", str(folder.parent / "bad.yaml")]

    return write


def in_place_of(name: str, *arguments: str) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        (folder / name).write_text("garbage" * 100)
        return list(arguments)

    return write


def pipe(name: str, *arguments: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        os.mkfifo(folder / name)
        return list(arguments)

    return make


def row(**values: Any) -> str:
    return json.dumps({**CASES[0], **values})


NOWHERE = [{"source_url": "/docs/arms/kinematics", "quote": "nothing on this page says anything of the kind"}]
FAULTS: dict[str, tuple[Sequence[str] | Callable[[Path], list[str]], list[str]]] = {
    "every fault of a golden file": (
        golden_with(row(querry="x"), row(in_scope=False), "{", row(), row()),
        [
            "4 faults in the golden data:",
            "bad.jsonl:1: querry: unknown field; did you mean 'query'",
            "bad.jsonl:2: an out-of-scope case must not have evidence",
            "bad.jsonl:3: not valid JSON",
            "bad.jsonl:5: id 'forward' is used already at",
        ],
    ),
    "no golden file": (["--dataset.path", "gone.jsonl"], ["gone.jsonl: cannot be read: No such file"]),
    "evidence that resolves to nothing": (
        golden_with(row(), row(id="b", evidence=NOWHERE)),
        ["bad.jsonl:2: evidence.0: no chunk of '/docs/arms/kinematics' holds the quote 'nothing on this page"],
    ),
    "an unknown metric": (
        ["--metrics", "ranking/*,ragas/id_context_recal"],
        ["no metric 'ragas/id_context_recal'; did you mean 'ragas/id_context_recall'"],
    ),
    "a criterion of an unknown metric": (
        ["--criteria", "{ranking/recal_at_5: '>= 0.5'}"],
        ["criteria: this run has no metric 'ranking/recal_at_5'; did you mean 'ranking/recall_at_5'"],
    ),
    "top_k 0": (["--retriever.top-k", "0"], ["retriever.top_k: Input should be greater than or equal to 1, got '0'"]),
    "top_k over the candidates": (["--retriever.top-k", "11"], ["top_k is 11 and exceeds the candidate depth 10"]),
    "an unknown flag": (["--retriever.topk", "3"], ["unrecognized arguments", "did you mean '--retriever.top-k'"]),
    "an unknown id": (["--ids", "forwards"], ["no case with id 'forwards'; did you mean 'forward'?"]),
    "an unknown split": (["--dataset.split", "test"], ["no split 'test'; it has none"]),
    "an experiment that says nothing": (file_with("{}"), ["bad.yaml: names no golden data: set dataset.path"]),
    "a packaged experiment with a slip": (
        ["--config", "defalt"],
        [
            "--config defalt: expected a YAML file, or one of cohere, default, spec, found neither; did you mean",
            "'default'",
        ],
    ),
    "no experiment file": (["--config", "gone.yaml"], ["gone.yaml: cannot be read: No such file"]),
    "a missing collection": (
        ["--retriever.collection", "robot"],
        ["no collection 'robot'", "did you mean 'robots'?"],
    ),
    "no embedded store": (
        ["--retriever.store.path", "gone", "--retriever.collection", "mine"],
        ["no embedded store at", "python -m retrievers index DIR", "--retriever.store.path or --retriever.store.url"],
    ),
    "another model": (
        [
            "--retriever.embedding.provider",
            "python",
            "--retriever.embedding.model",
            "tests.support.embeddings:Counting",
        ],
        ["was embedded by wordllama:l2_supercat_256, but the query would be embedded by python:"],
    ),
    "no Cohere key": (
        ["--retriever.embedding.provider", "cohere", "--retriever.store.path", "store"],
        ["Cohere needs an API key: expected it in COHERE_API_KEY"],
    ),
    "a model that cannot be loaded": (
        ["--retriever.embedding.provider", "python", "--retriever.embedding.model", "no.module:x"],
        ["embedding.model 'no.module:x' cannot be loaded: ModuleNotFoundError"],
    ),
    "a folder in place of the report": (["--output", "."], ["expected a file to write, found a folder"]),
    "a report below a file": (in_place_of("file", "--output", "file/r.json"), ["file/r.json: cannot be written"]),
    "a report with too long a name": (["--output", "r" * 300], ["argument --output: ", "(File name too long)"]),
    "one file for two outputs": (["--output", "r", "--html", "r"], ["--output and --html would be one file"]),
    "a report 2,000 folders deep": (
        ["--output", "d/" * 2000 + "r.json"],
        ["argument --output: expected a path of at most 200 folders, got one of 2,000"],
    ),
    "a pipe in place of the log": (pipe("pipe", "--log-file", "pipe"), ["--log-file pipe: expected a file to append"]),
    "a database of MLflow that is damaged": (
        in_place_of("mlflow.db", "--tracking.enabled", "true", "--tracking.uri", "sqlite:///mlflow.db"),
        ["mlflow.db: the database of MLflow is damaged (file is not a database)", "move it away"],
    ),
    "a file in place of mlruns": (
        in_place_of("mlruns", "--tracking.enabled", "true"),
        ["mlruns: cannot be written (Not a directory)", "--tracking.uri", "--tracking.enabled false"],
    ),
    "a store address with credentials": (
        ["--retriever.store.url", "http://me:s3cret@127.0.0.1:6333"],
        ["retriever.store.url: must not carry credentials", "QDRANT_API_KEY"],
    ),
    "a key in place of its variable": (
        ["--judge.api-key-env", "sk-s3cret"],
        ["judge.api_key_env: expected the name of an environment variable", "and not the key itself"],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_user_is_named_and_nothing_written(run: Run, folder: Path, name: str) -> None:
    wrong, said = FAULTS[name]
    arguments = wrong(folder) if callable(wrong) else wrong
    before = everything(folder)
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    for piece in said:
        assert piece in done.err
    assert "Traceback" not in done.err
    assert "s3cret" not in done.err
    assert everything(folder) == before


def test_a_qdrant_that_is_not_there(run: Run, folder: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = run("--retriever.store.url", url, "--retriever.store.wait-s", "1", "--tracking.enabled", "true")
    assert (done.code, done.out) == (2, "")
    assert "cannot be reached" in done.err
    assert everything(folder) == set()


@contextmanager
def refusing_server(status: int) -> Iterator[str]:
    """A server that answers every request with one status."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            data = b'{"message": "refused"}'
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_cohere_key_that_is_refused_is_not_told(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "s3cret-cohere-key")
    with refusing_server(401) as url:
        done = run("--retriever.embedding.provider", "cohere", "--retriever.embedding.base-url", url,
                   "--retriever.store.path", "store", "--log-file", "log.jsonl", "--verbose")  # fmt: skip
    assert (done.code, done.out) == (2, "")
    assert "cohere:embed-english-v3.0 failed to embed: " in done.err
    assert "the API key was refused" in done.err
    assert "Traceback" not in done.err
    assert "s3cret" not in done.err + (folder / "log.jsonl").read_text()


# Settings


def test_all_metrics_are_listed_with_what_they_mean(run: Run) -> None:
    done = run("--list-metrics")
    listed = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert (done.code, done.err) == (0, "")
    assert set(listed) == {*METRICS, "queries/pass_rate"}
    assert all(listed.values())


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
