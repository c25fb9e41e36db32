"""A process that is killed, interrupted, or doubled loses nothing that it has paid for."""

import importlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.request import urlopen

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.tracing.client import TracingClient
from pydantic import BaseModel
from ragas.metrics.collections.context_entity_recall.util import EntitiesList
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput
from ragas.metrics.collections.context_recall.util import ContextRecallOutput
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput

from evals.judge.chat import make_chat
from evals.run import load_config, main, parser
from evals.tracking.__main__ import main as complete
from tests.support.chat_server import ChatRequest, CohereChatServer
from tests.support.command import ROOT, call, environment
from tests.support.experiment import CASES, Experiment, load_report, make_experiment, settings
from tests.support.judged_experiment import PRECISION, calls_of, judge_flags, known_of, make_judged, precision_of
from tests.support.loopback import free_port
from tests.support.tracking import traces_of

pytestmark = [pytest.mark.slow, pytest.mark.integration]
KILLS, AT_ONCE = 50, 4
ANSWERS = (ContextPrecisionOutput, ContextRecallOutput, ContextRelevanceOutput, EntitiesList)
SCHEMAS: dict[str, type[BaseModel]] = {schema.__name__: schema for schema in ANSWERS}
LIBRARIES = (
    "cohere.client", "evals.collect.passes", "evals.grid.measure", "evals.report.build", "evals.report.terminal",
    "evals.experiment.flow", "httpcore", "langchain.chat_models", "langchain_cohere", "ragas.metrics.collections",
    "retrievers.store.embedded", "scipy.stats",
)  # fmt: skip
"""Imported once for all processes that are killed, so that each begins at once."""
Capsys = pytest.CaptureFixture[str]
Process = subprocess.Popen[str]


@pytest.fixture
def tmp_path(on_disk: Path) -> Path:
    return on_disk


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    embedding = {"model": "python:tests.support.embeddings:Counting"}
    return make_judged(tmp_path_factory.mktemp("judged"), embedding=embedding, top_k=5, threshold=0.0)


@pytest.fixture
def server(made: Experiment, monkeypatch: pytest.MonkeyPatch) -> Iterator[CohereChatServer]:
    with CohereChatServer(known_of(settings(made))[2], latency=0.02) as running:
        monkeypatch.setenv("COHERE_API_KEY", running.key)
        yield running


def flags_of(made: Experiment, server: CohereChatServer, folder: Path, at_once: int = AT_ONCE) -> list[str]:
    flags = ["--config", str(made.config), *judge_flags(server, folder), "--judge.max-concurrency", str(at_once)]
    return [*flags, "--output", str(folder / "report.json")]


def committed(folder: Path, store: str = "verdicts.sqlite") -> set[bytes]:
    if not (folder / store).exists():
        return set()
    with closing(sqlite3.connect(folder / store)) as database:
        return {key for (key,) in database.execute("SELECT key FROM verdicts")}


# Killed


def killed(
    arguments: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    when: Callable[[], bool],
    *,
    command: str = "evals.run",
    late_s: float = 0.0,
) -> bool:
    """Run a command in a process, and kill it some seconds after `when`; return False where it ended well before."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    child = context.Process(target=_run, args=(command, arguments, folder, dict(env)))
    child.start()
    while not when() and child.is_alive():
        time.sleep(0.002)
    time.sleep(late_s)
    child.kill()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), (folder / "said.log").read_text()
    return child.exitcode != 0


def _run(command: str, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    with (folder / "said.log").open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.update(env)
    os.chdir(folder)
    os._exit(importlib.import_module(command).main(arguments))


def settle(server: CohereChatServer) -> None:
    with urlopen(f"{server.url}/v1/models") as answer:
        answer.read()
    while any("process_request_thread" in thread.name for thread in threading.enumerate()):
        time.sleep(0.002)


@dataclass
class Lap:
    made: Experiment
    server: CohereChatServer
    folder: Path
    wasted: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.server.requests.clear()

    @property
    def flags(self) -> list[str]:
        flags = flags_of(self.made, self.server, self.folder)
        return [*flags, "--quiet", "--metrics", "ragas/llm_context_*", "--index.collection", "built already"]

    def check_end(self) -> None:
        """The run that ended says what the labels say, and nothing was paid for twice but what was in flight."""
        report = load_report(self.folder / "report.json")
        inside = [row for row in report["queries"] if row["in_scope"]]
        expected = [precision_of(row) for row in inside]
        assert [row["scores"][PRECISION] for row in inside] == pytest.approx(expected, abs=1e-9)
        calls, usage = calls_of(report["queries"]), report["judge"]["usage"]
        assert usage["hits"] + usage["calls"] == calls
        assert len(committed(self.folder)) == calls > 30
        assert len(self.server.chats) == calls + self.wasted


def test_fifty_kills_lose_and_rebuy_no_verdict(made: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    draw, kills, laps = random.Random(0), 0, [Lap(made, server, tmp_path / "0")]
    env = {"COHERE_API_KEY": server.key}
    chat = make_chat(load_config(parser().parse_args(laps[0].flags), {}).judge, env)

    def keys(chats: list[ChatRequest]) -> list[bytes]:
        return [chat.key(one.prompt, SCHEMAS[one.question.schema]) for one in chats if one.question]

    while kills < KILLS:
        lap = laps[-1]
        before, first = committed(lap.folder), len(server.chats)
        wanted, late_s = first + draw.randint(1, 9), draw.random() * 0.03
        died = killed(lap.flags, tmp_path, env, lambda wanted=wanted: len(server.chats) >= wanted, late_s=late_s)  # type: ignore[misc]
        settle(server)
        new, after = keys(server.chats[first:]), committed(lap.folder)
        assert not before & set(new), "nothing that was committed is bought again"
        assert before <= after, "and nothing of it is lost"
        assert len(new) == len(set(new))
        if not died:
            lap.check_end()
            laps.append(Lap(made, server, tmp_path / str(len(laps))))
            continue
        kills += 1
        wasted = len(set(new) - after)
        assert wasted <= AT_ONCE, "what was in flight is asked again"
        lap.wasted += wasted
    assert len(laps) > 2


def test_two_processes_on_one_store_both_end_well(made: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    command = ["-m", "evals.run", *flags_of(made, server, tmp_path, at_once=2)]
    with (
        started([*command, "--output", "0.json"], tmp_path) as first,
        started([*command, "--output", "1.json"], tmp_path) as second,
    ):
        for child in (first, second):
            error = child.communicate(timeout=200)[1]  # on a busy machine the second one says that it waits
            assert child.returncode == 0 and all("waiting for another run" in line for line in error.splitlines())
    reports = [load_report(tmp_path / f"{number}.json") for number in range(2)]
    assert [row["scores"] for row in reports[0]["queries"]] == [row["scores"] for row in reports[1]["queries"]]
    questions = calls_of(reports[0]["queries"])
    usages = [report["judge"]["usage"] for report in reports]
    assert len(committed(tmp_path)) == questions
    assert sum(usage["calls"] for usage in usages) == len(server.chats) == questions, "nothing is bought twice"
    for report, usage in zip(reports, usages, strict=True):
        assert usage["hits"] + usage["calls"] == questions
        expected = fmean(precision_of(row) for row in report["queries"] if row["in_scope"])
        assert report["metrics"][PRECISION]["value"] == pytest.approx(expected, abs=1e-9)


# Ctrl-C and SIGTERM


@contextmanager
def started(arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Process]:
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment(env), stdout=pipe, stderr=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


BOTH = pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))
SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
SLOW = """
import pathlib, threading, time
from langchain_core.retrievers import BaseRetriever
class Slow(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        if (threading.current_thread() is threading.main_thread()) != {threads}:
            pathlib.Path("asked").touch()
            time.sleep(20)
        return []
def make():
    return Slow()
"""
IMPORTED = "import pathlib, time\npathlib.Path('asked').touch()\ntime.sleep(20)\n"
COMMANDS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "one search": ("slow.py", SLOW.format(threads=False), ["evals.run", "--retriever.python", "slow:make"]),
    "searches at once": ("slow.py", SLOW.format(threads=True), ["evals.run", "--retriever.python", "slow:make"]),
    "while it is imported": ("pydantic.py", IMPORTED, ["evals.compare", "a", "b"]),
}
"""A module that keeps a command waiting, and the command."""


@BOTH
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_waits_ends_at_once_with_a_line(tmp_path: Path, what: signal.Signals, name: str) -> None:
    module, source, command = COMMANDS[name]
    (tmp_path / module).write_text(source)
    (tmp_path / "golden.jsonl").write_text('{"id": "a", "query": "soup", "in_scope": false}\n')
    # Nobody waits for MLflow, to mark a run as killed that nobody had begun.
    flags = ["--dataset.path", "golden.jsonl", "--tracking.enabled", "true"] if module == "slow.py" else []
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    with started(["-m", *command, *flags], tmp_path, path) as child:
        ends = time.monotonic() + 60
        while not (tmp_path / "asked").exists() and time.monotonic() < ends:
            time.sleep(0.05)
        child.send_signal(what)
        began = time.monotonic()
        _, said = child.communicate(timeout=30)
        assert (child.returncode, said) == (128 + what, f"{SAID[what]}\n")
        assert time.monotonic() - began < 3
    assert not (tmp_path / "mlruns").exists() and not list(tmp_path.rglob("*.part"))


@BOTH
def test_what_was_paid_for_is_kept_and_nothing_more_is_asked(
    made: Experiment, server: CohereChatServer, tmp_path: Path, what: signal.Signals, capsys: Capsys
) -> None:
    server.latency = 0.3
    flags = flags_of(made, server, tmp_path)
    with started(["-m", "evals.run", *flags, "--tracking.enabled", "true"], tmp_path) as child:
        while len(server.chats) < 7 and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(what)
        _, said = child.communicate(timeout=100)
    first, last = said.strip().split("\n")
    assert first.endswith("calls in flight, whose verdicts are kept; again to end at once")
    assert (child.returncode, last) == (128 + what, SAID[what])
    bought = len(server.chats)
    assert 7 <= bought <= 7 + AT_ONCE
    assert len(committed(tmp_path)) == bought, "those in flight as well"
    assert not (tmp_path / "mlruns" / "mlflow.db").exists() and not (tmp_path / "report.json").exists()
    server.latency = 0.0
    assert call(main, flags, capsys).code == 0
    assert len(server.chats) == calls_of(load_report(tmp_path / "report.json")["queries"]) > bought


def test_interrupted_again_it_ends_at_once(made: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    tracked = ["--tracking.enabled", "true"]
    with started(["-m", "evals.run", *flags_of(made, server, tmp_path), *tracked], tmp_path) as child:
        assert child.stderr
        while len(server.chats) < 3 and child.poll() is None:
            time.sleep(0.01)
        server.latency = 40.0
        while child.poll() is None and len(server.chats) - len(committed(tmp_path)) < AT_ONCE:
            time.sleep(0.01)
        before = committed(tmp_path)
        child.send_signal(signal.SIGINT)
        assert "; again to end at once" in child.stderr.readline()
        asked, said = time.monotonic(), None
        while said is None:
            assert time.monotonic() - asked < 20
            child.send_signal(signal.SIGINT)
            # Python loses an interrupt that comes while an object is destroyed; whoever waits presses again.
            with suppress(subprocess.TimeoutExpired):
                said = child.communicate(timeout=5)[1]
        assert child.returncode == 130 and said.endswith("interrupted\n")
        assert committed(tmp_path) >= before, "calls of before may have been answered meanwhile"
        assert not (tmp_path / "mlruns" / "mlflow.db").exists()


# MLflow's own server that dies in mid-run


@contextmanager
def mlflow_server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the server in a process group of its own, so that its worker is killed with it."""
    command = [
        sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port),
        "--backend-store-uri", f"sqlite:///{folder}/server.db", "--artifacts-destination", str(folder / "kept"),
    ]  # fmt: skip
    env = environment({"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    process, answers = subprocess.Popen(command, cwd=folder, env=env, **options), False
    try:
        while process.poll() is None and not answers:
            with suppress(OSError):
                urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                answers = True
            time.sleep(0.25)
        yield process
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def test_a_server_that_dies_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    monkeypatch.chdir(tmp_path)
    port, logs, calls = free_port(), TracingClient.log_spans, list[object]()
    url = f"http://127.0.0.1:{port}"
    tracked = ["--tracking.uri", url, "--tracking.experiment", "new one"]
    flags = ["--config", make_experiment(tmp_path).config, "--no-gate", "--output", "r.json", *tracked]

    def runs() -> list[Run]:
        experiment = MlflowClient(url).get_experiment_by_name("new one")
        return list(MlflowClient(url).search_runs([experiment.experiment_id]))

    with mlflow_server(tmp_path, port) as server, monkeypatch.context() as patch:

        def killed_at_the_second(*arguments: Any, **named: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 2:
                os.killpg(server.pid, signal.SIGKILL)
            return logs(*arguments, **named)

        patch.setattr("evals.tracking.runs.BATCH", 2)
        patch.setattr(TracingClient, "log_spans", killed_at_the_second)
        done = call(main, [*flags, "--tracking.enabled", "true"], capsys)
    assert done.code == 3 and "Traceback" not in done.err
    assert "incomplete: MLflow" in done.err and "python -m evals.tracking r.json --tracking.uri http://" in done.err
    with mlflow_server(tmp_path, port):
        assert [run.info.status for run in runs()] == ["FAILED"]
        done = call(complete, ["r.json", *tracked], capsys)
        assert (done.code, done.err) == (0, "") and "was written" in done.out
        [run] = runs()
        assert run.info.status == "FINISHED" and len(run.data.metrics) >= 10
        traces = traces_of(run, url)
        assert {str(trace.info.client_request_id) for trace in traces} == {str(case["id"]) for case in CASES}
        assert all(trace.data.spans and trace.info.assessments for trace in traces)
        assert "report.json" in {file.path for file in MlflowClient(url).list_artifacts(run.info.run_id)}
        assert "is there already" in call(complete, ["r.json", *tracked], capsys).out
