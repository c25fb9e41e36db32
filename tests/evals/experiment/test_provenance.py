import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evals.cases.reading import load_golden
from evals.config.experiment import ExperimentConfig
from evals.config.judge import JudgeConfig
from evals.experiment import facts
from evals.experiment.bench import index_if_stale
from evals.judge.chat import Chat, make_chat
from evals.metrics.collaborators import Collaborators
from evals.report.model import JudgeFacts
from retrievers import QdrantRetriever
from tests.support.experiment import Experiment, make_experiment, settings, silent
from tests.support.writable import writable


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("facts"))


@pytest.fixture(scope="module")
def config(made: Experiment) -> ExperimentConfig:
    config = settings(made)
    index_if_stale(config, {}, silent)
    return config


@pytest.fixture
def retriever(config: ExperimentConfig) -> Iterator[QdrantRetriever]:
    with QdrantRetriever.open(config.retriever, env={}) as opened:
        yield opened


def bench_of(retriever: QdrantRetriever, chat: Chat | None = None) -> Collaborators:
    judge = SimpleNamespace(tiers=[SimpleNamespace(chat=chat)]) if chat else None
    return Collaborators(retrievers=[retriever], progress=silent, judge=cast(Any, judge))


def test_the_facts_of_a_run(config: ExperimentConfig, retriever: QdrantRetriever) -> None:
    golden = load_golden(config.dataset)
    known = facts.gather(config, golden, bench_of(retriever))
    assert (known.cases, known.in_scope, known.out_of_scope) == (6, 4, 2)
    assert known.dataset_fingerprint == golden.fingerprint
    assert known.embedding == "wordllama:l2_supercat_256"
    assert known.collection is not None
    assert (known.collection.name, known.collection.points) == ("robots", 5)
    assert (known.collection.content["dimension"], known.collection.content["distance"]) == (256, "cosine")
    assert known.versions["ragas"] == version("ragas")
    assert known.started_at.endswith("+00:00")


def test_a_judge_is_known_by_all_that_its_verdicts_depend_on(
    config: ExperimentConfig, retriever: QdrantRetriever
) -> None:
    golden = load_golden(config.dataset)
    assert facts.gather(config, golden, bench_of(retriever)).judge is None

    def judge(**changes: Any) -> JudgeFacts:
        named = {"model": "openai:local", "base_url": "http://localhost:1/v1", **changes}
        chat = make_chat(JudgeConfig.model_validate(named), {"OPENAI_API_KEY": "sk-SECRET"})
        known = facts.gather(config, golden, bench_of(retriever, chat)).judge
        assert known is not None
        return known

    found = judge()
    assert (found.provider, found.model) == ("openai", "local")
    assert (found.parameters["temperature"], found.parameters["base_url"]) == (0.0, "http://localhost:1/v1")
    assert judge() == found and judge(max_concurrency=2, timeout_s=9) == found
    others = [
        judge(temperature=0.5),
        judge(model="openai:other"),
        judge(max_output_tokens=100),
        judge(base_url="http://localhost:2/v1"),
    ]
    assert len({one.fingerprint for one in (found, *others)}) == 5
    assert "SECRET" not in str(found)


def test_the_collections_fingerprint_changes_with_a_payload_and_comes_back_with_it(
    config: ExperimentConfig,
) -> None:
    def fingerprint() -> str:
        # Its texts are no longer those that were embedded.
        trusted = config.retriever.model_copy(update={"trust_embedding": True})
        with QdrantRetriever.open(trusted, env={}) as opened:
            known = facts.collection_facts(opened)
        assert known is not None
        return str(known.fingerprint)

    def set_text(text: str) -> str:
        client = writable(config.retriever.store)
        try:
            record = client.scroll("robots", limit=1)[0][0]
            client.overwrite_payload("robots", {**(record.payload or {}), "page_content": text}, points=[record.id])
            return str((record.payload or {})["page_content"])
        finally:
            client.close()

    before = fingerprint()
    text = set_text("something else")
    changed = fingerprint()
    set_text(text)
    assert changed != before
    assert fingerprint() == before


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
