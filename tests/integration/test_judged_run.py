"""The experiment for real Cohere, as it is, against a server on the loopback that embeds, reranks and judges."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from evals.config.files import PRESETS
from evals.run import load_config, main, parser
from tests.support.chat_requests import ChatRequest
from tests.support.chat_server import MODEL, CohereChatServer
from tests.support.child import python
from tests.support.command import call
from tests.support.experiment import index, load_report
from tests.support.judged_experiment import calls_of, known_of, labelled_precision, labelled_recall
from tests.support.judging import Oracle, average_precision
from tests.support.openai_server import OpenAIChatServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]
FILE = PRESETS / "cohere.yaml"
QUICK = (
    "--ids",
    "m0-003,m2-010,m2-019,m3-004,m3-007,o-001",
    "--latency.repeats",
    "1",
    "--latency.concurrency",
    "1",
)
PRECISION, RECALL = "ragas/llm_context_precision", "ragas/llm_context_recall"


class World:
    """One server for everything, an indexed handbook, and who knows its golden labels."""

    def __init__(self, server: CohereChatServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.env = {"COHERE_API_KEY": server.key}
        config = load_config(parser().parse_args(self.flags()), self.env)
        index(config, self.env)
        _, chunks, self.oracle = known_of(config, self.env)
        self.texts = {chunk.chunk_id: chunk.text for chunk in chunks}
        server.oracle = self.oracle

    def flags(self) -> list[str]:
        """The experiment, with the addresses of the server and folders of its own."""
        url = self.server.url
        addresses = [f"--{name}.base-url={url}" for name in ("retriever.embedding", "retriever.cross-encoder", "judge")]
        store = ["--retriever.store.path", self.folder / "store", "--judge.cache-path", self.folder / "verdicts.sqlite"]
        files = ["--config", FILE, "--output", self.folder / "report.json"]
        return [*map(str, [*files, *store]), *addresses, *QUICK, "--no-gate"]

    def report(self) -> dict[str, Any]:
        return load_report(self.folder / "report.json")

    def expected(self, row: Mapping[str, Any]) -> tuple[float, float]:
        """Precision and recall of a row, from what the oracle says of its chunks."""
        verdicts = [self.oracle.verdict(row["query"], self.texts[hit["chunk_id"]]) for hit in row["retrieved"]]
        return average_precision(verdicts), labelled_recall(row, self.oracle, self.texts) if verdicts else 0.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with CohereChatServer(Oracle({})) as server:
        yield World(server, tmp_path_factory.mktemp("cohere"))


@dataclass(frozen=True)
class Told:
    """Return the output of the first run, and its requests to the server."""

    printed: str
    report: Mapping[str, Any]
    paths: frozenset[str]
    chats: Sequence[ChatRequest]


@pytest.fixture(scope="module")
def first(world: World) -> Told:
    """The experiment run once, as a user runs it."""
    world.server.requests.clear()
    done = python(["-m", "evals.run", *world.flags()], world.folder, world.env)
    assert (done.returncode, done.stderr) == (0, "")
    check(world)
    paths = frozenset(request.path for request in world.server.requests)
    return Told(printed=done.stdout, report=world.report(), paths=paths, chats=world.server.chats)


def check(world: World) -> None:
    """The report holds what the oracle says, exactly."""
    report = world.report()
    inside = [row for row in report["queries"] if row["in_scope"]]
    expected = [world.expected(row) for row in inside]
    for place, metric in enumerate((PRECISION, RECALL)):
        values = [one[place] for one in expected]
        assert [row["scores"][metric] for row in inside] == pytest.approx(values, abs=1e-9)
        summary = report["metrics"][metric]
        assert (summary["n"], summary["n_failed"], summary["n_unscored"]) == (len(inside), 0, 0)
        assert summary["value"] == pytest.approx(fmean(values), abs=1e-9)
        assert len(set(values)) > 1
    assert [labelled_precision(row) for row in inside] == pytest.approx([one[0] for one in expected], abs=1e-9)
    assert report["metrics"]["judge/agreement"]["value"] == 1.0
    assert len(inside) == 5


def test_the_experiment_for_cohere_is_worth_what_its_labels_say(world: World, first: Told) -> None:
    report, usage = first.report, first.report["judge"]["usage"]
    assert first.paths == {"/v1/embed", "/v2/rerank", "/v2/chat"}
    assert len(first.chats) == usage["calls"] == calls_of(report["queries"])
    assert {(chat.model, chat.temperature, chat.seed) for chat in first.chats} == {(MODEL, 0, 0)}
    assert all(chat.response_format for chat in first.chats)
    assert usage["usd"] == pytest.approx((usage["tokens_in"] * 2.5 + usage["tokens_out"] * 10) / 1e6)
    assert report["facts"]["judge"]["model"] == MODEL
    assert world.server.key not in json.dumps(report) + first.printed


@pytest.mark.usefixtures("first")
def test_run_again_it_asks_the_judge_nothing(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("COHERE_API_KEY", world.server.key)
    world.server.requests.clear()
    done = call(main, [*world.flags(), "--tracking.enabled", "false"], capsys)
    assert (done.code, done.err) == (0, "")
    check(world)
    assert world.server.chats == []
    assert world.report()["judge"]["usage"] | {"hits": 0} == {
        "calls": 0, "hits": 0, "failed": 0, "unanswered": 0, "tokens_in": 0, "tokens_out": 0, "usd": 0.0, "stopped": "",
    }  # fmt: skip


def test_a_judge_behind_openais_protocol_says_the_same(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("COHERE_API_KEY", world.server.key)
    with OpenAIChatServer(world.oracle, models=("local",)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", server.key)
        named = ["--judge.model", "openai:local", "--judge.base-url", server.base_url, "--tracking.enabled", "false"]
        world.server.requests.clear()
        done = call(main, [*world.flags(), *named], capsys)
        assert (done.code, done.err) == (0, "")
        check(world)
        assert world.server.chats == []
        assert len(server.chats) == calls_of(world.report()["queries"])  # no verdict of the other judge is taken
