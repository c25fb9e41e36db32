"""A judging process that is killed, doubled, or out of disk loses nothing that it has paid for."""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from urllib.request import urlopen

import pytest
from ragas.metrics.collections.context_entity_recall.util import EntitiesList
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput
from ragas.metrics.collections.context_recall.util import ContextRecallOutput
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput

from evals.judge.chat import make_chat
from evals.run import load_config, main, parser
from tests.support.chat_requests import ChatRequest
from tests.support.chat_server import CohereChatServer
from tests.support.child import environment
from tests.support.command import call
from tests.support.experiment import Experiment, load_report, settings
from tests.support.judged_experiment import (
    calls_of,
    judge_flags,
    known_of,
    labelled_precision,
    make_judged,
    questions_of,
)
from tests.support.killable import LOG, start_run
from tests.support.ragas_prompts import Metric

pytestmark = [pytest.mark.slow, pytest.mark.integration]
KILLS, AT_ONCE = 50, 4
PRECISION = "ragas/llm_context_precision"
SCHEMAS = {
    Metric.PRECISION: ContextPrecisionOutput,
    Metric.RECALL: ContextRecallOutput,
    Metric.RELEVANCE: ContextRelevanceOutput,
    Metric.ENTITIES: EntitiesList,
}


def committed(file: Path) -> set[bytes]:
    """The keys of the verdicts that a store holds."""
    if not file.exists():
        return set()
    with sqlite3.connect(file) as database:
        found = {key for (key,) in database.execute("SELECT key FROM verdicts")}
    database.close()
    return found


def settle(server: CohereChatServer) -> None:
    """Wait until all that a dead client has sent is read: connections are accepted in their order."""
    with urlopen(f"{server.url}/v1/models") as answer:
        answer.read()
    while any("process_request_thread" in thread.name for thread in threading.enumerate()):
        time.sleep(0.002)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """With a model that is there at once, and five chunks for every query."""
    embedding = {"provider": "python", "model": "tests.support.embeddings:Counting"}
    return make_judged(tmp_path_factory.mktemp("judged"), embedding=embedding, top_k=5, threshold=0.0)


@pytest.fixture
def server(made: Experiment) -> Iterator[CohereChatServer]:
    with CohereChatServer(known_of(settings(made))[2], latency=0.02) as running:
        yield running


@dataclass
class Lap:
    """From an empty verdict store to a run that ends."""

    made: Experiment
    server: CohereChatServer
    folder: Path
    wasted: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.server.requests.clear()

    @property
    def flags(self) -> list[str]:
        return [
            "--config", str(self.made.config), *judge_flags(self.server, self.folder), "--quiet",
            "--judge.max-concurrency", str(AT_ONCE), "--metrics", "ragas/llm_context_*",
            "--output", str(self.folder / "report.json"), "--index.collection", "built already",
        ]  # fmt: skip

    @property
    def store(self) -> Path:
        return self.folder / "verdicts.sqlite"

    def check_end(self) -> None:
        """The run that ended says what the labels say, and nothing was paid for twice but what was in flight."""
        report = load_report(self.folder / "report.json")
        inside = [row for row in report["queries"] if row["in_scope"]]
        expected = [labelled_precision(row) for row in inside]
        assert [row["scores"][PRECISION] for row in inside] == pytest.approx(expected, abs=1e-9)
        calls, usage = calls_of(report["queries"]), report["judge"]["usage"]
        assert usage["hits"] + usage["calls"] == questions_of(report["queries"])
        assert len(committed(self.store)) == calls > 30
        assert len(self.server.chats) == calls + self.wasted


def test_of_fifty_kills_none_loses_a_verdict_or_buys_one_again(
    made: Experiment, server: CohereChatServer, tmp_path: Path
) -> None:
    draw, kills, laps = random.Random(0), 0, [Lap(made, server, tmp_path / "0")]
    env = {"COHERE_API_KEY": server.key}
    chat = make_chat(load_config(parser().parse_args(laps[0].flags), {}).judge, env)

    def keys(chats: list[ChatRequest]) -> list[bytes]:
        return [chat.key(one.prompt, SCHEMAS[one.question.metric]) for one in chats if one.question]

    while kills < KILLS:
        lap = laps[-1]
        before, first = committed(lap.store), len(server.chats)
        child = start_run(lap.flags, tmp_path, env)
        wanted = first + draw.randint(1, 9)
        while len(server.chats) < wanted and child.is_alive():
            time.sleep(0.002)
        time.sleep(draw.random() * 0.03)
        child.kill()
        child.join()
        settle(server)
        new, after = keys(server.chats[first:]), committed(lap.store)
        assert not before & set(new)  # nothing that was committed is bought again
        assert before <= after  # and nothing of it is lost
        assert len(new) == len(set(new))
        if child.exitcode == 0:
            lap.check_end()
            laps.append(Lap(made, server, tmp_path / str(len(laps))))
            continue
        assert child.exitcode == -signal.SIGKILL, (tmp_path / LOG).read_text()
        kills += 1
        wasted = len(set(new) - after)
        assert wasted <= AT_ONCE  # what was in flight is asked again
        lap.wasted += wasted
    assert len(laps) > 2


def test_two_processes_on_one_store_both_end_well(made: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    flags = ["--config", str(made.config), *judge_flags(server, tmp_path), "--judge.max-concurrency", "2"]
    reports = [tmp_path / f"{number}.json" for number in range(2)]
    env = environment({"COHERE_API_KEY": server.key})
    pipe = subprocess.PIPE
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "evals.run", *flags, "--output", str(report)],
            cwd=tmp_path, env=env, stdout=pipe, stderr=pipe, text=True,
        )
        for report in reports
    ]  # fmt: skip
    ended = [child.communicate(timeout=200) for child in both]
    assert [(child.returncode, err) for child, (_, err) in zip(both, ended, strict=True)] == [(0, "")] * 2
    first, second = (load_report(report) for report in reports)
    assert [row["scores"] for row in first["queries"]] == [row["scores"] for row in second["queries"]]
    questions = calls_of(first["queries"])
    calls = [one["judge"]["usage"]["calls"] for one in (first, second)]
    assert len(committed(tmp_path / "verdicts.sqlite")) == questions
    assert sum(calls) == len(server.chats) == questions  # nothing is bought twice
    for one in (first, second):
        assert one["judge"]["usage"]["hits"] + one["judge"]["usage"]["calls"] == questions_of(one["queries"])
        inside = [row for row in one["queries"] if row["in_scope"]]
        expected = [labelled_precision(row) for row in inside]
        assert one["metrics"][PRECISION]["value"] == pytest.approx(fmean(expected), abs=1e-9)


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from evals.run import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_ends_the_run_with_a_report_of_what_there_is(
    made: Experiment, server: CohereChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    flags = ["--config", str(made.config), *judge_flags(server, tmp_path), "--judge.max-concurrency", "2"]
    flags += ["--metrics", PRECISION, "--output", str(tmp_path / "report.json")]
    command = [sys.executable, "-c", FULL.format(limit=50_000), *flags]
    env = environment({"COHERE_API_KEY": server.key})
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 3, done.stderr
    assert "incomplete: the verdict store" in done.stderr and "make room" in done.stderr
    assert "Traceback" not in done.stderr
    report = load_report(tmp_path / "report.json")
    assert "make room" in report["judge"]["incomplete"]
    precision = report["metrics"][PRECISION]
    assert precision["n"] > 0 and precision["n_unscored"] > 0
    bought, kept = len(server.chats), len(committed(tmp_path / "verdicts.sqlite"))
    assert 0 < kept <= bought <= kept + 2 * 2
    monkeypatch.setenv("COHERE_API_KEY", server.key)
    assert call(main, flags, capsys).code == 0  # there is room again
    inside = [row for row in load_report(tmp_path / "report.json")["queries"] if row["in_scope"]]
    assert len(server.chats) - bought == sum(len(row["retrieved"]) for row in inside) - kept
