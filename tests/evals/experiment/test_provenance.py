"""What a run can be compared by: golden data, judge, versions, commit, and the collection, before and after it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from evals.config.judge import JudgeConfig
from evals.experiment import facts
from evals.judge.chat import make_chat
from evals.report.model import JudgeFacts
from evals.run import main
from retrievers.config import RetrieverConfig
from retrievers.retriever.opened import adopt_given
from tests.support import distances
from tests.support.collections import index_pages, settings, write_pages
from tests.support.experiment import Experiment, make_experiment
from tests.support.loopback import Reply, Request
from tests.support.qdrant_server import KEY, QdrantServer, Rules


class Changing(QdrantServer):
    """Does something when it has answered the n-th query or batch of them."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = self.at = 0
        self.change: Callable[[], object] = dict

    def answer(self, request: Request) -> Reply:
        reply = super().answer(request)
        if "/points/query" in request.path:
            self.queries += 1
            if self.queries == self.at:
                self.change()
        return reply

    def when(self, query: int, change: Callable[[], object]) -> None:
        self.queries, self.at, self.change = 0, query, change

    def ids(self) -> list[Any]:
        return [point.id for point in self.client.scroll("robots", limit=1000)[0]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("changing"))


@pytest.fixture
def server(made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Changing]:
    monkeypatch.chdir(tmp_path)
    with Changing() as server:
        index_pages(settings(store={"url": server.url}, collection="robots"), made.docs)
        yield server


def run(made: Experiment, server: QdrantServer, *arguments: str) -> tuple[int, dict[str, Any]]:
    config = yaml.safe_load(made.config.read_text())
    config["retriever"]["store"] = {"url": server.url}
    config["criteria"] = {"ranking/hit_rate_at_3": ">= 0.5"}
    file = made.folder / "on_a_server.yaml"
    file.write_text(yaml.safe_dump(config))
    code = main(["--config", str(file), "--output", "report.json", "--junit", "junit.xml", *arguments])
    return code, json.loads(Path("report.json").read_text())


def test_the_facts_of_a_run_are_the_same_as_long_as_its_collection_is(made: Experiment, server: Changing) -> None:
    code, report = run(made, server)
    known = report["facts"]
    assert (code, known["in_scope"], known["out_of_scope"], known["collection_changed"]) == (0, 4, 2, None)
    assert (known["embedding"], known["started_at"][-6:]) == ("wordllama:l2_supercat_256", "+00:00")
    collection = known["collection"]
    assert (collection["name"], collection["points"]) == ("robots", 5)
    assert (collection["content"]["dimension"], collection["content"]["distance"]) == (256, "cosine")
    assert known["versions"]["ragas"] == version("ragas")
    again = run(made, server)[1]["facts"]
    assert again["collection"] == collection and again["dataset_fingerprint"] == known["dataset_fingerprint"]


def deletes(server: Changing) -> None:
    server.client.delete("robots", server.ids()[:2])


def rewrites(server: Changing) -> None:
    server.client.set_payload("robots", {"page_content": "x"}, server.ids()[:1])


def becomes_another(server: Changing) -> None:
    """The alias comes to stand for another collection."""
    server.aliases.update(live="other")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (deletes, "points 5 → 3, content of 5 sampled points"),
        (rewrites, "content of 5 sampled points"),
        (becomes_another, "points 5 → 1, content of 5 sampled points"),
    ],
)
def test_a_change_in_mid_run_leaves_every_criterion_undecided(
    made: Experiment, server: Changing, capsys: pytest.CaptureFixture[str], change: Callable[[Any], object], said: str
) -> None:
    other = write_pages(made.docs.parent / "other", {"a.md": "# Other\n\nAnother page.\n"})
    index_pages(settings(store={"url": server.url}, collection="other"), other)
    server.aliases["live"] = "robots"
    server.when(2, lambda: change(server))
    code, report = run(made, server, "--retriever.collection", "live")
    assert (code, report["facts"]["collection_changed"]) == (3, said)
    assert report["facts"]["collection"]["name"] == "live"
    assert not report["passed"] and report["criteria"]
    assert all("the collection changed between" in criterion["reason"] for criterion in report["criteria"])
    assert f"incomplete: the collection changed during the run: {said}" in capsys.readouterr().err
    assert 'type="undecided"' in Path("junit.xml").read_text()


def test_a_collection_that_is_gone_does_not_lose_the_run(made: Experiment, server: Changing) -> None:
    run(made, server)
    baseline = Path("report.json").rename("baseline.json")
    server.when(server.queries, lambda: setattr(server, "rules", Rules(api_key=KEY)))
    code, report = run(made, server, "--baseline", str(baseline))
    assert code == 3 and "cannot be read any more (" in report["facts"]["collection_changed"]
    compared = [one for one in report["criteria"] if one["condition"] == "no worse"]
    assert len(compared) > 5 and all(one["undecided"] and not one["passed"] for one in compared)


def test_a_collection_made_elsewhere_is_known_by_texts_and_vectors_from_all_over_it(server: Changing) -> None:
    vectors = np.random.default_rng(0).normal(size=(600, 5))

    def write(numbers: range, sign: float) -> None:
        texts = [{"page_content": f"{number}"} for number in numbers]
        points = models.Batch(ids=[*numbers], vectors=(sign * vectors[numbers]).tolist(), payloads=texts)
        server.client.upsert("big", points)

    server.client.create_collection("big", models.VectorParams(size=5, distance=models.Distance.COSINE))
    write(range(600), 1)
    client = QdrantClient(server.url, check_compatibility=False)
    store = QdrantVectorStore(client, "big", distances.EMBEDDINGS, validate_collection_config=False)
    retriever, _ = adopt_given(store, RetrieverConfig(trust_embedding=True), None, {})
    first = facts.collection_facts(retriever)
    assert facts.collection_facts(retriever) == first
    write(range(300, 600), -1)
    changed = facts.collection_facts(retriever)
    assert first and changed and facts.differences(first, changed) == "content of 256 sampled points"


def test_a_judge_is_known_by_all_that_its_verdicts_depend_on() -> None:
    def judge(**changes: Any) -> JudgeFacts:
        named = {"model": "openai:local", "base_url": "http://localhost:1/v1", **changes}
        return facts.judge_facts(make_chat(JudgeConfig.model_validate(named), {"OPENAI_API_KEY": "sk-SECRET"}))

    found = judge()
    assert (found.provider, found.model) == ("openai", "local")
    assert (found.parameters["temperature"], found.parameters["base_url"]) == (0.0, "http://localhost:1/v1")
    assert judge() == found and judge(max_concurrency=2, timeout_s=9) == found
    changes = ("temperature", 0.5), ("model", "openai:other"), ("max_output_tokens", 100), ("base_url", "http://h:2/v1")
    assert len({found.fingerprint, *(judge(**{name: value}).fingerprint for name, value in changes)}) == 5
    assert "SECRET" not in str(found)


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert facts.code_commit() == "unknown"
    git("init", "-q")
    assert facts.code_commit() == "unknown"
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    assert facts.code_commit() == commit
    (tmp_path / "file").write_text("two")
    assert facts.code_commit() == f"{commit}-dirty"
