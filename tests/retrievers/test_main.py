"""`python -m retrievers search|inspect` in the test's own process: what is printed, and what bad input gets."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from qdrant_client import models

from retrievers.__main__ import main
from retrievers.config import RetrieverConfig, StoreConfig
from retrievers.embedding.models import make_embeddings
from retrievers.indexing.index import IndexOptions, index_corpus
from retrievers.indexing.pages import read_corpus
from retrievers.retriever.opened import search_settings
from retrievers.store import open_client
from retrievers.terminal.commands import default_collection
from tests.support.collections import indexed, write_pages
from tests.support.command import own_logging
from tests.support.qdrant_server import FAULTS, QdrantServer

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty working folder: no `.env` and no `.qdrant`."""
    monkeypatch.chdir(tmp_path)
    with own_logging():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    return indexed(tmp_path_factory.mktemp("main"))


@pytest.fixture(scope="module")
def store(folder: RetrieverConfig) -> list[str]:
    """The flags that name the collection of pages."""
    return ["--store.path", str(folder.store.path), "--collection", "pages"]


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


def refused(arguments: list[str], capsys: Captured) -> str:
    """Return the standard error of a command that ends with exit code 2 and prints nothing on standard output."""
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    return shown.err


def test_search_prints_ranked_results_and_a_summary(store: list[str], capsys: Captured) -> None:
    filters = 'module = ros2 and not (title = "See: also #1") and chunk_token_count >= 5'
    ways = ["--mode", "hybrid", "--filters", filters, "--rerank", "mmr", "--group-by", "source_url"]
    asked = ["search", "how do nodes stream messages", *store]
    assert main([*asked, *ways]) == 0
    shown, err = capsys.readouterr()
    lines = [line.strip() for line in shown.splitlines()]
    assert re.match(r"1  0\.\d{3} weighted \(cosine 0\.\d+\)  ros2/topics\.md:6-6  \(before reranking: 1, ", lines[0])
    assert lines[1] == "ros2 › topics › Topics" and lines[2].startswith("A topic is a named bus over which nodes")
    assert "From /docs/ros2/topics (1), /docs/ros2/services (1)" in lines and err == ""
    assert main([*asked, "--quiet"]) == 0
    assert "· semantic · top_k 5 · no threshold · pages" in capsys.readouterr().out


def test_a_bad_query_is_refused_before_anything_is_opened(capsys: Captured) -> None:
    for query, said in ((" ", "the query is empty"), ("word " * 600, "too long: 600"), ("x" * 4001, "too long: 1")):
        assert said in refused(["search", query, "--store.path", "nowhere"], capsys)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--top-k", "0"], "top_k: Input should be greater than or equal to 1, got '0' (set by the command line)"),
        (["--threshold", "1.5"], "collection 'pages' has the distance cosine: expected a number from 0 to 1"),
        (["--embedding.provider", "opneai"], "embedding.provider: Input should be 'wordllama', 'cohere', 'openai'"),
        (["--metadata.map", "{a"], "--metadata.map '{a':1: not valid YAML"),
        (["--config", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["--log-file", "."], "--log-file .: expected a file to append to, found a folder"),
        (["--filters", "modul = ros2"], "filters: the collection's payload has no field 'modul'; did you mean"),
        (["--filters", "module ="], "filters: 'module =': expected conditions such as `module = a`"),
        (
            ["--rerank", "cross-encoder", "--cross-encoder.provider", "sentence-transformers"],
            "cross_encoder.provider sentence-transformers needs an extra: pip install 'retrieval-evals[rerank]'",
        ),
        (["--rerank", "rrf"], "rerank: 'rrf' is no value any more (set by the command line): mode: hybrid with fusion"),
        (["--collection", "page"], "no collection 'page' at "),
        (["--embedding.provider", "cohere"], "Cohere needs an API key: expected it in COHERE_API_KEY"),
        (["--mode", "hybrid", "--keyword.language", "german"], "collection 'pages' was tokenised as english, but"),
        (["--mode", "hybrid", "--keyword.vector-name", "terms"], "collection 'pages' has no sparse vector 'terms'"),
    ],
)
def test_what_a_mode_or_a_filter_cannot_do_is_told(
    store: list[str], flags: list[str], said: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert refused(["search", "robot", *store, *flags], capsys).startswith(f"error: {said}")


@pytest.mark.parametrize("command", [["search", "robot"], ["inspect"]])
def test_a_missing_store_is_named_and_not_made(command: list[str], tmp_path: Path, capsys: Captured) -> None:
    assert refused(command, capsys).startswith("error: no embedded store at .qdrant: index pages into it first")
    assert list(tmp_path.iterdir()) == []


def test_a_search_that_fails_is_told_once_and_logged_with_its_query(
    server: QdrantServer, tmp_path: Path, capsys: Captured
) -> None:
    there = ["--store.url", server.url, "--collection", "pages"]
    assert main(["index", str(write_pages(tmp_path / "pages")), *there, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    fault = FAULTS["500"]
    with server.failing(type(fault)(reply=fault.reply, on="/points/query/batch")):
        shown = refused(["search", "robot", *there, "--log-file", "log.jsonl"], capsys).splitlines()
        quiet = refused(["search", "robot", *there, "--quiet"], capsys).splitlines()
    *retried, last = shown
    assert [line.partition(": ")[0] for line in retried] == ["WARNING retrievers.net.retry"]
    assert last.startswith("error: ") and "answered 500 Internal Server Error: panicked" in last
    assert [re.sub(r"in [\d.]+ s", "", line) for line in quiet] == [re.sub(r"in [\d.]+ s", "", last)]
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    (failed,) = [entry for entry in logged if entry["level"] == "ERROR"]
    assert (failed["query"], failed["collection"]) == ("robot", "pages")


def test_inspect_takes_the_only_vector_of_a_collection_whatever_its_name(
    server: QdrantServer, tmp_path: Path, capsys: Captured
) -> None:
    size = models.VectorParams(size=256, distance=models.Distance.DOT)
    server.client.create_collection("theirs", vectors_config={"text-dense": size})
    point = models.PointStruct(
        id=1, vector={"text-dense": [1.0] * 256}, payload={"content": "a", "meta": {"title": "b"}}
    )
    server.client.upsert("theirs", [point])
    file = tmp_path / "mine.yaml"
    where = ["--store.url", server.url, "--collection", "theirs", "--trust-embedding", "true"]
    assert main(["inspect", *where, "--write", str(file)]) == 0
    assert (
        "  vector_name: text-dense\n  metadata:\n    text_key: content\n    nested_under: meta"
        in capsys.readouterr().out
    )
    assert main(["search", "robot", "--config", str(file)]) == 0
    capsys.readouterr()
    other = models.VectorParams(size=4, distance=models.Distance.COSINE)
    server.client.create_collection("several", vectors_config={"a": other, "b": other})
    assert "set vector_name" in refused(["inspect", *where[:3], "several"], capsys)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("physical_ai_handbook/docs", "physical_ai_handbook"),
        ("handbook", "handbook"),
        ("my site/Docs", "my_site"),
        ("a.b (v2)", "a_b_v2_"),
        ("x/content/../pages", "x"),
        ("/", "docs"),
        ("/docs", "docs"),
    ],
)
def test_a_collection_is_named_after_the_folder_of_its_pages(path: str, name: str) -> None:
    assert default_collection(Path(path)) == name


class TestForeign:
    """`search` takes a retriever of the user's own; the other commands work on a collection."""

    FLAGS = ("--python", "tests.support.foreign:plain")

    def test_is_searched(self, capsys: Captured) -> None:
        assert main(["search", "forward kinematics of an arm", *self.FLAGS, "--top-k", "2"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(" 1    –    /docs/arms/kinematics")
        assert "tests.support.foreign:plain · top_k 2 · no threshold" in text

    def test_is_inspected_by_its_collection(self, capsys: Captured) -> None:
        assert main(["inspect", "--python", "tests.support.foreign:dense"]) == 0
        said = capsys.readouterr().out
        assert "Points       5\n" in said and "metadata.source_url" in said and "Found under their own names: " in said
        assert "its chunks cannot be listed" in refused(["inspect", "--python", "tests.support.foreign:plain"], capsys)


def test_a_search_takes_the_settings_that_the_collection_records_where_it_is_given_none(
    tmp_path: Path, capsys: Captured
) -> None:
    config = RetrieverConfig(store=StoreConfig(path=tmp_path / "store"), collection="pages")
    asked = RetrieverConfig(mode="hybrid", top_k=2, threshold=0.05, threshold_on="best", rerank="cross-encoder")
    options = IndexOptions(search={**search_settings(asked), "python": "os:getcwd"})
    client = open_client(config.store, {}, create=True)
    index_corpus(
        client, config, make_embeddings(config.embedding, {}), read_corpus(write_pages(tmp_path / "p")), options
    )
    client.close()
    store = ["--store.path", str(tmp_path / "store"), "--collection", "pages"]

    def used(*flags: str) -> list[Any]:
        assert main(["search", "how do nodes stream messages", *store, *flags, "--json"]) == 0
        parameters = json.loads(capsys.readouterr().out)["parameters"]
        return [parameters.get(name) for name in ("mode", "top_k", "threshold", "threshold_on", "rerank")]

    assert used() == ["hybrid", 2, 0.05, "best", None]
    assert used("--top-k", "1", "--threshold", "null")[:3] == ["hybrid", 1, None]
    assert main(["index", str(tmp_path / "p"), *store]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert used()[:2] == ["hybrid", 2]


class TestWrittenExperiment:
    def test_opens_what_was_looked_at(self, store: list[str], tmp_path: Path, capsys: Captured) -> None:
        file = tmp_path / "mine.yaml"
        assert main(["inspect", *store, "--top-k", "7", "--write", str(file)]) == 0
        assert f"golden init --config {file} --out {tmp_path / 'golden.jsonl'}" in capsys.readouterr().out
        written = yaml.safe_load(file.read_text())
        assert written["dataset"] == {"path": "golden.jsonl"}
        assert written["retriever"].keys() == {"store", "collection", "mode", "top_k"}
        assert main(["search", "how do nodes stream messages", "--config", str(file)]) == 0
        assert "top_k 7" in capsys.readouterr().out

    def test_replaces_no_file(self, store: list[str], tmp_path: Path, capsys: Captured) -> None:
        (tmp_path / "mine.yaml").write_text("mine")
        assert "exists already" in refused(["inspect", *store, "--write", str(tmp_path / "mine.yaml")], capsys)
        assert (tmp_path / "mine.yaml").read_text() == "mine"
