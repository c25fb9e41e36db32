"""Where a store is; a server over HTTP: keys, limits, faults, TLS; a folder of local mode."""

import gc
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from retrievers import QdrantRetriever
from retrievers.__main__ import main
from retrievers.config import RetrieverConfig, StoreConfig
from retrievers.embedding.models import StaticEmbeddings
from retrievers.errors import StoreError
from retrievers.store.collection import describe
from retrievers.store.opening import embedded_folder, location, open_client, portable_settings
from tests.support import qdrant_server
from tests.support.clock import Clock
from tests.support.collections import TABLE, TableEmbeddings, at, described, fill, indexed, settings, texts
from tests.support.loopback import HEAD, Fault, Reply, certified, drip, raw_server
from tests.support.qdrant_server import KEY, QdrantServer

# Places


def test_a_store_is_where_it_says_or_in_the_usual_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert location(settings(store={"url": "http://h:1"}).store) == "http://h:1"
    assert location(settings(store={"path": "a/b"}).store) == "a/b"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept, here, store = tmp_path / "cache" / "retrieval-evals" / ".qdrant", Path(".qdrant"), settings().store
    assert embedded_folder(store) == here
    kept.mkdir(parents=True)
    assert (embedded_folder(store), embedded_folder(store, create=True)) == (kept, here)
    here.mkdir()
    assert embedded_folder(store) == here


def test_reading_makes_no_folder_and_indexing_may(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("none", "file"):
        with pytest.raises(StoreError, match=rf"embedded store at .*{name}"):
            open_client(settings(store={"path": str(tmp_path / name)}).store, {})
    with pytest.raises(StoreError, match=r"embedded store at .*file cannot be opened"):
        open_client(settings(store={"path": str(tmp_path / "file")}).store, {}, create=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    open_client(settings(store={"path": str(tmp_path / "new")}).store, {}, create=True).close()
    assert (tmp_path / "new" / "collections").is_dir()


# Keys and refusals


@pytest.mark.parametrize("env", [{}, {"QDRANT_API_KEY": "SECRET-other"}])
def test_a_missing_or_wrong_key_names_its_variable_and_not_the_key(server: QdrantServer, env: dict[str, str]) -> None:
    server.rules.api_key = KEY
    fill(server.client, "mine", [[1.0]], texts("a"))
    config = at(server)
    said = "answered 401 Unauthorized: .*; the API key in QDRANT_API_KEY was refused, or none was sent"
    with closing(open_client(config.store, env)) as client, pytest.raises(StoreError, match=said) as caught:
        describe(client, config)
    assert "SECRET" not in str(caught.value)
    server.requests.clear()
    with closing(open_client(config.store, {"QDRANT_API_KEY": f"{KEY}\n"})) as client:
        assert describe(client, config).points == 1
    assert {request.headers["api-key"] for request in server.requests} == {KEY}


@pytest.mark.slow
def test_a_server_that_drips_is_a_timeout() -> None:
    with raw_server(lambda _: drip(HEAD + b"\r\n")) as host, pytest.raises(StoreError, match="no answer in time"):
        described(settings(store={"url": f"http://{host}", "timeout_s": 1}))


def test_an_answer_too_deep_or_too_long_is_refused(server: QdrantServer) -> None:
    for body in (b"[" * 100_000 + b"]" * 100_000, b'{"result": {"exists": ' + b"9" * 10_000 + b"}}"):
        said = r"cannot be read or written .* is it Qdrant, and the address right"
        with server.failing(Fault(reply=Reply(body=body))), pytest.raises(StoreError, match=said):
            described(at(server))


def test_an_old_server_is_searched_and_not_written_to(server: QdrantServer, tmp_path: Path) -> None:
    server.keeps_metadata = False
    with pytest.raises(StoreError, match=r"keeps no collection metadata: Qdrant 1\.16"):
        indexed(tmp_path, store={"url": server.url})
    assert server.client.get_collections().collections == []
    fill(server.client, "mine", [*TABLE.values()], texts(*TABLE))
    with QdrantRetriever.open(at(server), env={}, embeddings=TableEmbeddings(TABLE)) as retriever:
        assert [c.chunk.text for c in retriever.search("b").chunks][:3] == ["b", "a", "c"]


# Faults while a collection is made (tests/faults has every fault by every client of a search)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["429", "torn"])
@pytest.mark.parametrize("on", ["/pages/points", "/exists"])
def test_indexing_gets_over_faults_and_writes_nothing_twice(
    server: QdrantServer, tmp_path: Path, clock: Clock, fault: str, on: str
) -> None:
    with server.failing(replace(qdrant_server.FAULTS[fault], on=on, times=2)):
        info = described(indexed(tmp_path, store={"url": server.url}))
    assert len(clock.waits) == 2
    assert (info.points, info.manifest["state"]) == (9, "complete")


# TLS


def test_the_standard_variable_names_the_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    ca, context = certified(tmp_path)
    untrusted = r"certificate verify failed.* its certificate's authority in SSL_CERT_FILE\?$"
    with QdrantServer(tls=context) as server:
        with pytest.raises(StoreError, match=untrusted):
            described(settings(store={"url": server.url}))
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        assert server.url.startswith("https://") and described(indexed(tmp_path, store={"url": server.url})).points == 9
    (tmp_path / "other").mkdir()
    ca, context = certified(tmp_path / "other", "127.0.0.2")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    with QdrantServer(tls=context) as server, pytest.raises(StoreError, match="certificate verify failed"):
        described(settings(store={"url": server.url}))
    assert clock.waits == []


def test_http_for_https_and_the_other_way_is_told_at_once(clock: Clock) -> None:
    said = "cannot be reached .* is http:// or https:// right"
    with QdrantServer() as server, pytest.raises(StoreError, match=said):
        described(settings(store={"url": server.url.replace("http:", "https:")}))
    alert = b"\x15\x03\x01\x00\x02\x02\x46"  # by which a server says that it speaks TLS
    with raw_server(lambda _: [alert]) as host, pytest.raises(StoreError, match=said):
        described(settings(store={"url": f"http://{host}"}))
    assert clock.waits == []


# Local mode

TEXTS = ("An encoder counts the turns of a joint.", "A gripper holds a cup.", "Maps show where walls are.")


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a LangChain tutorial makes it."""
    folder = tmp_path_factory.mktemp("tutorial") / "db"
    metadatas = [{"source": f"docs/{at}.md", "start_index": at} for at in range(len(TEXTS))]
    where: Any = {"path": str(folder), "collection_name": "my_documents"}
    QdrantVectorStore.from_texts([*TEXTS], StaticEmbeddings(), metadatas, **where).client.close()
    return folder


def local(folder: Path) -> RetrieverConfig:
    return settings(store={"path": f"local:{folder}"}, collection="my_documents")


def test_it_is_read_and_stays_as_it_is(tutorial: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in tutorial.rglob("*") if file.is_file() and file.name != ".lock"}

    before = files()
    with QdrantRetriever.open(local(tutorial)) as retriever:
        document = retriever.invoke("what counts turns?")[0]
    assert document.page_content == TEXTS[0]
    assert document.metadata.items() >= {"source": "docs/0.md", "start_index": 0}.items()
    with pytest.raises(StoreError, match="It is never written to"):
        open_client(local(tutorial).store, {}, create=True)
    assert files() == before


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Clients that failed to open are collected here, with the files that they leave open."""
    yield
    gc.collect()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_cannot_be_opened_is_told_and_a_plain_path_unpickles_nothing(tutorial: Path, tmp_path: Path) -> None:
    with (
        closing(QdrantClient(path=str(tutorial))),
        pytest.raises(StoreError, match=r"db: .* close the client that has"),
    ):
        open_client(local(tutorial).store, {})
    folder, ran = tmp_path / "db", tmp_path / "ran"
    with pytest.raises(StoreError, match="a folder of qdrant-client's local mode, and no other, is named local:FOLDER"):
        open_client(local(folder).store, {})
    shutil.copytree(tutorial, folder)
    [file] = folder.rglob("storage.sqlite")
    with closing(sqlite3.connect(file)) as database, database:
        makes_a_folder = f"cos\nmkdir\n(V{ran}\ntR."  # when it is unpickled
        database.execute("UPDATE points SET point = ?", (makes_a_folder.encode(),))
    for create in (False, True):
        with pytest.raises(StoreError, match=r"is named local:FOLDER.* runs the pickles in it: only one"):
            open_client(StoreConfig.model_validate({"path": str(folder)}), {}, create=create)
    assert not ran.exists()
    # The test would see it: said explicitly, the folder is opened.
    with pytest.raises(StoreError, match="local mode cannot open it"):
        open_client(local(folder).store, {})
    assert ran.exists()


def test_written_settings_name_it_from_any_folder(
    tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tutorial.parent)
    named = ["--store.path", "local:db", "--collection", "my_documents"]
    assert main(["inspect", *named, "--write", str(tmp_path / "mine.yaml")]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["search", "what counts turns?", "--config", "mine.yaml"]) == 0
    assert portable_settings(local(Path("db")))["store"]["path"] == f"local:{tmp_path / 'db'}"
    # A file beside the store can be moved with it.
    monkeypatch.chdir(tutorial.parent)
    assert main(["inspect", *named, "--write", "beside.yaml"]) == 0
    assert "path: local:db\n" in Path("beside.yaml").read_text(encoding="utf-8")
    assert portable_settings(local(Path("db")), Path("app.yaml"))["store"]["path"] == "local:db"
    monkeypatch.chdir(tmp_path)
    assert main(["search", "what counts turns?", "--config", str(tutorial.parent / "beside.yaml")]) == 0
