"""`python -m retrievers search|inspect` in the test's own process: what is printed, and what bad input gets."""

import json
import os
import re
import shutil
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
from tests.support.cohere_server import KEY as COHERE_KEY
from tests.support.cohere_server import CohereServer
from tests.support.collections import fill, indexed, write_pages
from tests.support.command import own_logging
from tests.support.loopback import free_port
from tests.support.qdrant_server import FAULTS, QdrantServer
from tests.support.qdrant_server import KEY as QDRANT_KEY
from tests.support.rerank_server import FAULTS as RERANK_FAULTS
from tests.support.rerank_server import RerankServer

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
    assert main(["search", "how do nodes stream messages", *store]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].startswith(" 1  0.") and lines[0].endswith("  ros2/topics.md:6-6")
    assert lines[1].strip() == "ros2 › topics › Topics"
    assert lines[2].strip().startswith("A topic is a named bus over which nodes stream messages")
    assert "· semantic · top_k 5 · no threshold · pages" in shown.out
    assert "Confidence " in shown.out
    assert shown.err == ""


def test_a_bad_query_is_refused_before_anything_is_opened(capsys: Captured) -> None:
    for query, said in (
        (" ", "the query is empty"),
        ("word " * 600, "too long: 600 words"),
        ("x" * 4001, "too long: 1"),
    ):
        assert said in refused(["search", query, "--store.path", "nowhere"], capsys)


# Modes, filters, reranking, groups


def session_of(arguments: list[str], capsys: Captured) -> dict[str, Any]:
    """The session that a search prints as JSON."""
    assert main(["search", *arguments, "--json", "--threshold", "0"]) == 0
    session: dict[str, Any] = json.loads(capsys.readouterr().out)
    return session


def test_everything_at_once(store: list[str], capsys: Captured) -> None:
    filters = 'module = ros2 and not (title = "See: also #1") and chunk_token_count >= 5'
    ways = ["--mode", "hybrid", "--filters", filters, "--rerank", "mmr", "--group-by", "source_url"]
    session = session_of(["how do nodes stream messages", *ways, *store], capsys)
    assert session["parameters"]["mode"] == "hybrid"
    assert sorted(chunk["metadata"]["source_url"] for chunk in session["chunks"]) == [
        "/docs/ros2/services",
        "/docs/ros2/topics",
    ]
    best = session["chunks"][0]
    assert best["metadata"]["source_url"] == "/docs/ros2/topics"
    assert (best["score_scale"], best["original_rank"]) == ("weighted", 1)
    assert set(best["scores"]) == {"semantic", "keyword", "fused", "diversity"}
    assert main(["search", "how do nodes stream messages", *ways, *store, "--threshold", "0"]) == 0
    assert "(before reranking: 1, 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ("tags contains [ros2, topics]", {"/docs/ros2/topics"}),
        ('{"sidebar_position": 2}', {"/docs/ros2/services"}),
        ("sidebar_position <= 1 or url = /docs/motion/imu", {"/docs/ros2/topics", "/docs/motion/imu"}),
        ("{module: ros2, sidebar_position: [1, 5]}", {"/docs/ros2/topics"}),
        ("module = ros2 and not sidebar_position = 1", {"/docs/ros2/services"}),
    ],
)
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_filters_are_text_or_a_mapping(
    store: list[str], mode: str, filters: str, found: set[str], capsys: Captured
) -> None:
    session = session_of(["robot", "--mode", mode, "--filters", filters, "--top-k", "20", *store], capsys)
    assert {chunk["metadata"]["source_url"] for chunk in session["chunks"]} == found


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--top-k", "0"], "top_k: Input should be greater than or equal to 1, got '0' (set by the command line)"),
        (["--threshold", "1.5"], "collection 'pages' has the distance cosine: expected a number from 0 to 1"),
        (["--embedding.provider", "opneai"], "embedding.provider: Input should be 'wordllama', 'cohere', 'openai'"),
        (["--metadata.map", "{a"], "--metadata.map '{a':1: not valid YAML"),
        (["--config", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["--log-file", "."], "--log-file .: expected a file to append to, found a folder"),
        (
            ["--filters", "modul = ros2"],
            "filters: the collection's payload has no field 'modul'; did you mean 'module'",
        ),
        (["--filters", "module ="], "filters: 'module =': expected conditions such as `module = a`"),
        (
            ["--rerank", "cross-encoder", "--cross-encoder.provider", "sentence-transformers"],
            "cross_encoder.provider sentence-transformers needs an extra: pip install 'retrieval-evals[rerank]'",
        ),
        (["--rerank", "rrf"], "rerank: 'rrf' is no value any more (set by the command line): mode: hybrid with fusion"),
        (["--mode", "hybrid", "--keyword.language", "german"], "collection 'pages' was tokenised as english, but"),
        (["--mode", "hybrid", "--keyword.vector-name", "terms"], "collection 'pages' has no sparse vector 'terms'"),
    ],
)
def test_what_a_mode_or_a_filter_cannot_do_is_told(
    store: list[str], flags: list[str], said: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert refused(["search", "robot", *flags, *store], capsys).startswith(f"error: {said}")


def test_hybrid_on_a_collection_without_term_weights_says_how_to_index(server: QdrantServer, capsys: Captured) -> None:
    fill(server.client, "theirs", [[1.0] * 256], [{"page_content": "a robot"}])
    flags = ["--store.url", server.url, "--collection", "theirs", "--trust-embedding", "true", "--mode", "hybrid"]
    shown = refused(["search", "robot", *flags], capsys)
    assert "has no sparse vector 'bm25', which mode 'hybrid' searches: it has none; " in shown
    assert "index the pages again (python -m retrievers index DIR)" in shown


def test_a_cross_encoder_over_http_reranks(store: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", COHERE_KEY)
    with RerankServer() as cohere:
        flags = ["--rerank", "cross-encoder", "--cross-encoder.base-url", cohere.url]
        session = session_of(["A client waits for the answer", *flags, *store], capsys)
        assert session["chunks"][0]["metadata"]["heading"] == "Calling"
        assert session["chunks"][0]["score_scale"] == "rerank"
        assert session["timings"]["rerank_ms"] > 0
        with cohere.failing(RERANK_FAULTS["401"]):
            shown = refused(["search", "robot", *flags, *store], capsys)
        assert "error: cohere:rerank-v3.5 failed to rerank 9 texts: UnauthorizedError, status 401, the API key" in shown
        assert COHERE_KEY not in shown


@pytest.mark.parametrize("command", [["search", "robot"], ["inspect"]])
def test_a_missing_store_is_named_and_not_made(command: list[str], tmp_path: Path, capsys: Captured) -> None:
    assert refused(command, capsys).startswith("error: no embedded store at .qdrant: index pages into it first")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["search", "robot"], ["inspect"]])
def test_a_missing_collection_names_the_nearest(command: list[str], store: list[str], capsys: Captured) -> None:
    shown = refused([*command, *store[:2], "--collection", "page"], capsys)
    assert "no collection 'page'" in shown
    assert "did you mean 'pages'?" in shown


@pytest.mark.parametrize("command", [["search", "robot"], ["inspect"]])
def test_a_store_that_somebody_else_reads_can_be_read(
    command: list[str], folder: RetrieverConfig, store: list[str], capsys: Captured
) -> None:
    holder = open_client(folder.store, {})
    try:
        assert main([*command, *store]) == 0
    finally:
        holder.close()


def test_another_model_is_refused(store: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected it in COHERE_API_KEY" in refused(
        ["search", "robot", *store, "--embedding.provider", "cohere"], capsys
    )
    monkeypatch.setenv("COHERE_API_KEY", COHERE_KEY)
    shown = refused(["search", "robot", *store, "--embedding.provider", "cohere"], capsys)
    assert "was embedded by wordllama:l2_supercat_256, but the query would be embedded by cohere" in shown
    assert COHERE_KEY not in shown


def test_a_server_is_searched_and_inspected_like_a_folder(
    server: QdrantServer, store: list[str], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.rules.api_key = QDRANT_KEY
    monkeypatch.setenv("QDRANT_API_KEY", QDRANT_KEY)
    there = ["--store.url", server.url, "--collection", "pages"]
    assert main(["index", str(write_pages(tmp_path / "pages")), "--context", "none", *there]) == 0
    assert f"3 pages, 9 chunks in collection 'pages' at {server.url}: 9 added" in capsys.readouterr().out
    for command in (["search", "how do nodes stream messages", "--threshold", "0.3", "--json"], ["inspect"]):
        shown = []
        for place in (there, store):
            assert main([*command, *place]) == 0
            shown.append(capsys.readouterr().out)
        if "--json" in command:
            sessions = [json.loads(text) for text in shown]
            assert timeless(sessions[0]) == timeless(sessions[1])
        else:
            assert without_examples(shown[0]) == without_examples(shown[1])
    assert {request.headers["api-key"] for request in server.requests} == {QDRANT_KEY}


def test_damage_is_named_with_what_to_do(
    folder: RetrieverConfig, store: list[str], tmp_path: Path, capsys: Captured
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.store.path or "", copy)
    [file] = copy.glob("collections/pages/shard/segments/*/mutable_id_tracker.mappings")
    os.truncate(file, file.stat().st_size // 2)
    for command in (["inspect"], ["search", "robot"]):
        said = refused([*command, *store, "--store.path", str(copy)], capsys)
        assert "is not as it was written (its files have other sizes" in said
    assert main(["index", str(write_pages(tmp_path / "docs")), *store, "--store.path", str(copy)]) == 0
    assert main(["search", "robot", *store, "--store.path", str(copy)]) == 0


def timeless(session: dict[str, object]) -> dict[str, object]:
    chunks = session["chunks"]
    assert isinstance(chunks, list)
    return {
        **{
            key: value
            for key, value in session.items()
            if key not in ("session_id", "timings", "cache", "below_threshold")
        },
        "chunks": [{**chunk, "retrieved_at": None} for chunk in chunks],
    }


def without_examples(shown: str) -> list[str]:
    """Examples are of the first point, which is another one in a folder."""
    return [line[:50] if line.startswith("  metadata.") else line[:20] for line in shown.splitlines()]


@pytest.mark.parametrize("command", [["search", "robot"], ["inspect"]])
@pytest.mark.parametrize("fault", ["401", "200 HTML"])
def test_a_server_that_fails_is_told(server: QdrantServer, command: list[str], fault: str, capsys: Captured) -> None:
    with server.failing(FAULTS[fault]):
        shown = refused([*command, "--store.url", server.url], capsys)
    said = "cannot be read or written (" if fault == "200 HTML" else "answered "
    assert f"\nerror: collection 'physical_ai_handbook' at {server.url}: {said}" in f"\n{shown}"


def test_an_unreachable_server_is_told(capsys: Captured) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    shown = refused(["search", "robot", "--store.url", address], capsys)
    assert f"at {address}: cannot be reached (ConnectError" in shown


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


def test_quiet_leaves_the_result(store: list[str], capsys: Captured) -> None:
    for command in (["search", "how do nodes stream messages"], ["inspect"]):
        assert main([*command, *store, "--quiet"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert out.startswith((" 1  0.", "Collection   pages"))


def test_a_provider_that_fails_is_told_without_the_key(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COHERE_API_KEY", COHERE_KEY)
    with CohereServer() as cohere:
        flags = ["--store.path", "db", "--collection", "pages", "--embedding.provider", "cohere"]
        flags += ["--embedding.base-url", cohere.url]
        assert main(["index", str(write_pages(tmp_path / "pages")), *flags]) == 0
        monkeypatch.setenv("COHERE_API_KEY", "co-other-SECRET")
        capsys.readouterr()
        shown = refused(["search", "robot", *flags, "--verbose", "--log-file", "log.jsonl"], capsys)
    assert "UnauthorizedError, status 401, the API key was refused" in shown
    assert "SECRET" not in shown + (tmp_path / "log.jsonl").read_text()


def test_inspect_shows_a_collection_and_proposes_its_setting(store: list[str], capsys: Captured) -> None:
    assert main(["inspect", *store]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[:3] == [
        "Collection   pages",
        "Points       9",
        "Vectors      (unnamed): 256; distance cosine",
    ]
    assert "Embedded by  wordllama:l2_supercat_256\nIndex        context none, splitter sections, " in shown
    assert "\nState        complete\n" in shown
    assert "metadata.source_url" in shown
    assert "Not found: none" in shown


def test_inspect_reads_a_foreign_collection_that_search_would_refuse(server: QdrantServer, capsys: Captured) -> None:
    fill(server.client, "theirs", [[1.0, 0.0]], [{"body": "a robot", "href": "/a", "chunk_idx": 0}])
    flags = ["--store.url", server.url, "--collection", "theirs"]
    assert main(["inspect", *flags]) == 0
    shown = capsys.readouterr().out
    assert "Embedded by  none recorded" in shown
    assert "text_key: body" in shown and "source_url: href" in shown and "chunk_index: chunk_idx" in shown
    assert "holds no vector with a text under payload key 'page_content'" in refused(
        ["search", "robot", *flags], capsys
    )


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

    def test_is_searched_with_scores_where_it_has_some(self, capsys: Captured) -> None:
        command = ["search", "forward kinematics", "--python", "tests.support.foreign:dense", "--json"]
        assert main([*command, "--threshold", "0.3"]) == 0
        session = json.loads(capsys.readouterr().out)
        assert {chunk["score_scale"] for chunk in session["chunks"]} == {"cosine"}
        assert all(chunk["score"] >= 0.3 for chunk in session["chunks"])

    def test_is_inspected_by_its_collection(self, capsys: Captured) -> None:
        assert main(["inspect", "--python", "tests.support.foreign:dense"]) == 0
        said = capsys.readouterr().out
        assert "Points       5\n" in said and "metadata.source_url" in said and "Found under their own names: " in said
        assert "its chunks cannot be listed" in refused(["inspect", "--python", "tests.support.foreign:plain"], capsys)

    def test_that_fails_is_named(self, capsys: Captured) -> None:
        said = refused(["search", "robot", "--python", "tests.support.foreign:one_string"], capsys)
        assert "returned str 'a string'; expected a list of documents or texts" in said


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
