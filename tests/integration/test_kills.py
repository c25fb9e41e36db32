"""A process that is killed, doubled, or out of disk loses nothing that it has paid for, and buys nothing twice."""

import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.request import urlopen

import pytest
from ragas.metrics.collections.context_entity_recall.util import EntitiesList
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput
from ragas.metrics.collections.context_recall.util import ContextRecallOutput
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput

from evals.golden.command import main as golden
from evals.judge.chat import make_chat
from evals.run import load_config, main, parser
from tests.support.chat_requests import ChatRequest
from tests.support.chat_server import MODEL, CohereChatServer
from tests.support.child import environment
from tests.support.command import call
from tests.support.experiment import Experiment, load_report, settings
from tests.support.golden_labels import judging_order, load
from tests.support.judged_experiment import (
    calls_of,
    judge_flags,
    known_of,
    labelled_precision,
    make_judged,
    questions_of,
)
from tests.support.judged_grid import PRECISION, SWEEP, Commands, make_judged_world, oracle_of, planned_calls
from tests.support.judging import Flaws
from tests.support.killable import killed
from tests.support.openai_server import OpenAIChatServer
from tests.support.ragas_prompts import Metric
from tests.support.writing_model import WritingModel

pytestmark = [pytest.mark.slow, pytest.mark.integration]
KILLS, AT_ONCE = 50, 4
SCHEMAS = {
    Metric.PRECISION: ContextPrecisionOutput,
    Metric.RECALL: ContextRecallOutput,
    Metric.RELEVANCE: ContextRelevanceOutput,
    Metric.ENTITIES: EntitiesList,
}
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def tmp_path(on_disk: Path) -> Path:
    return on_disk


def committed(file: Path) -> set[bytes]:
    """The keys of the verdicts that a store holds."""
    if not file.exists():
        return set()
    with sqlite3.connect(file) as database:
        keys = {key for (key,) in database.execute("SELECT key FROM verdicts")}
    database.close()
    return keys


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
def server(made: Experiment, monkeypatch: pytest.MonkeyPatch) -> Iterator[CohereChatServer]:
    with CohereChatServer(known_of(settings(made))[2], latency=0.02) as running:
        monkeypatch.setenv("COHERE_API_KEY", running.key)
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
        wanted, late_s = first + draw.randint(1, 9), draw.random() * 0.03
        died = killed(lap.flags, tmp_path, env, lambda wanted=wanted: len(server.chats) >= wanted, late_s=late_s)  # type: ignore[misc]
        settle(server)
        new, after = keys(server.chats[first:]), committed(lap.store)
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


@pytest.mark.parametrize("kill_after", [3, 25])
def test_a_killed_cascade_of_judges_repeats_at_most_the_requests_in_flight(
    tmp_path: Path, kill_after: int, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    world = make_judged_world(tmp_path)
    with (
        CohereChatServer(oracle_of(world, Flaws(false_useful=0.2)), latency=0.02) as small,
        OpenAIChatServer(oracle_of(world), latency=0.02) as large,
    ):
        flags = ["--config", str(world.config), *judge_flags(small, tmp_path), "--judge.max-concurrency", "2"]
        flags += ["--judge.second.model", f"openai:{MODEL}", "--judge.second.sample", "4"]
        flags += ["--output", str(tmp_path / "report.json")]
        env = {"COHERE_API_KEY": small.key, "OPENAI_API_KEY": large.key, "OPENAI_BASE_URL": large.base_url}
        assert killed(flags, tmp_path, env, lambda: len(small.chats) + len(large.chats) >= kill_after)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        done = call(main, flags, capsys)
        assert (done.code, done.err) == (0, "")
        for server in (small, large):
            prompts = Counter(chat.prompt for chat in server.chats)
            assert sum(prompts.values()) - len(prompts) <= 2
        judge = load_report(tmp_path / "report.json")["judge"]
        assert "4 of 8 in-scope queries" in " ".join(judge["lines"])
        assert judge["usage"]["failed"] == 0


def figures(report: dict[str, Any]) -> Any:
    """Return what a report says of the judged metric, and of the cells."""
    rows = [(row["id"], row["scores"].get(PRECISION), row["proxies"]) for row in report["queries"]]
    grid = report.get("grid")
    return report["metrics"][PRECISION], rows, report["judge"]["drawn"], grid and (grid["cells"], grid["choice"])


@pytest.mark.parametrize("sweep", [(), SWEEP], ids=["run", "grid"])
def test_after_a_kill_the_same_sample_goes_on(
    tmp_path: Path, sweep: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    world = make_judged_world(tmp_path)
    flags = ["--metrics", f"{PRECISION},ranking/hit_rate_at_5", "--judge.sample", "4", *sweep]
    with CohereChatServer(oracle_of(world, Flaws(false_useful=0.1, false_useless=0.1)), latency=0.1) as server:
        monkeypatch.setenv("COHERE_API_KEY", server.key)
        commands = Commands(world, server, tmp_path, capsys)
        planned = planned_calls(commands.plan(*flags))
        first = [*commands.flags(), *flags, "--judge.max-concurrency", str(AT_ONCE)]
        assert killed(first, tmp_path, {}, lambda: len(server.chats) >= planned // 2)
        server.latency = 0.0
        before, kept = len(server.chats), len(committed(tmp_path / "verdicts.sqlite"))
        assert commands.run(*flags).code == 0
        assert len(server.chats) - before == planned - kept and kept >= before - 2 * AT_ONCE
        cases = load(world.golden).cases
        drawn = set(judging_order(cases, settings(world).seed)[:4])
        assert {chat.question.query for chat in server.chats if chat.question} == {
            case.query for case in cases if case.id in drawn
        }
        fresh = ("--judge.cache-path", str(tmp_path / "fresh.sqlite"))
        assert commands.run(*flags, *fresh, name="unbroken").code == 0
        assert figures(commands.report()) == figures(commands.report("unbroken"))


def test_a_synthesis_killed_three_times_ends_as_if_it_had_never_been(
    handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    def flags(model: WritingModel, name: str) -> list[str]:
        return [
            "synthesize", *model.flags, "--docs", str(handbook / "docs"),
            "--per-type", "factual=12,comparison=4,near_domain=4", "--judge.max-concurrency", "2",
            "--judge.cache-path", str(tmp_path / f"{name}.sqlite"), "--out", str(tmp_path / f"{name}.jsonl"),
        ]  # fmt: skip

    with WritingModel() as model:
        monkeypatch.setenv("OPENAI_API_KEY", model.key)
        assert call(golden, flags(model, "undisturbed"), capsys).code == 0
        calls = len(model.chats)
    with WritingModel(latency=0.02) as model:
        again, env = flags(model, "killed"), {"OPENAI_API_KEY": model.key}
        for wanted in (6, 15, 30):
            when = lambda wanted=wanted: len(model.chats) >= wanted  # noqa: E731
            assert killed(again, tmp_path, env, when, command="evals.golden.command")
            assert not (tmp_path / "killed.jsonl").exists()
        done = call(golden, again, capsys)
        assert (done.code, done.err) == (0, ""), done.out
        assert calls <= len(model.chats) <= calls + 3 * 2
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "undisturbed.jsonl").read_bytes()


def test_two_processes_on_one_store_both_end_well(made: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evals.run", "--config", made.config, *judge_flags(server, tmp_path)]
    both = [
        subprocess.Popen(
            [*map(str, command), "--judge.max-concurrency", "2", "--output", f"{number}.json"],
            cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    ended = [child.communicate(timeout=200) for child in both]
    assert [(child.returncode, err) for child, (_, err) in zip(both, ended, strict=True)] == [(0, "")] * 2
    reports = [load_report(tmp_path / f"{number}.json") for number in range(2)]
    assert [row["scores"] for row in reports[0]["queries"]] == [row["scores"] for row in reports[1]["queries"]]
    questions = calls_of(reports[0]["queries"])
    usages = [report["judge"]["usage"] for report in reports]
    assert len(committed(tmp_path / "verdicts.sqlite")) == questions
    assert sum(usage["calls"] for usage in usages) == len(server.chats) == questions, "nothing is bought twice"
    for report, usage in zip(reports, usages, strict=True):
        assert usage["hits"] + usage["calls"] == questions_of(report["queries"])
        expected = fmean(labelled_precision(row) for row in report["queries"] if row["in_scope"])
        assert report["metrics"][PRECISION]["value"] == pytest.approx(expected, abs=1e-9)


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from evals.run import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_ends_the_run_with_a_report_of_what_there_is(
    made: Experiment, server: CohereChatServer, tmp_path: Path, capsys: Capsys
) -> None:
    flags = ["--config", str(made.config), *judge_flags(server, tmp_path), "--judge.max-concurrency", "2"]
    flags += ["--metrics", PRECISION, "--output", str(tmp_path / "report.json")]
    command = [sys.executable, "-c", FULL, *flags]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 3, done.stderr
    assert "incomplete: the verdict store" in done.stderr and "make room" in done.stderr
    assert "Traceback" not in done.stderr
    report = load_report(tmp_path / "report.json")
    assert "make room" in report["judge"]["incomplete"]
    precision = report["metrics"][PRECISION]
    assert precision["n"] > 0 and precision["n_unscored"] > 0
    bought, kept = len(server.chats), len(committed(tmp_path / "verdicts.sqlite"))
    assert 0 < kept <= bought <= kept + 2 * 2
    assert call(main, flags, capsys).code == 0, "there is room again"
    inside = [row for row in load_report(tmp_path / "report.json")["queries"] if row["in_scope"]]
    assert len(server.chats) - bought == sum(len(row["retrieved"]) for row in inside) - kept
