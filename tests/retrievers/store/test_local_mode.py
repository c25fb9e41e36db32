"""A folder of qdrant-client's local mode, made as a LangChain tutorial makes it."""

import hashlib
import logging
import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from retrievers import QdrantRetriever
from retrievers.__main__ import main
from retrievers.config import RetrieverConfig, StoreConfig
from retrievers.config.layers import build, file_layer
from retrievers.embedding.models import StaticEmbeddings
from retrievers.errors import StoreError, StoreLockedError
from retrievers.store import local_mode, open_client
from retrievers.store.location import portable_settings
from tests.support.collections import settings

TEXTS = ("An encoder counts the turns of a joint.", "A gripper holds a cup.", "Maps show where walls are.")


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tutorial") / "db"
    documents = [
        Document(page_content=text, metadata={"source": f"docs/{at}.md", "start_index": at})
        for at, text in enumerate(TEXTS)
    ]
    store = QdrantVectorStore.from_documents(
        documents, StaticEmbeddings(), path=str(folder), collection_name="my_documents"
    )
    store.client.close()
    return folder


def at(folder: Path) -> RetrieverConfig:
    return settings(store={"path": f"local:{folder}"}, collection="my_documents", threshold=0)


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_it_is_searched_as_the_store_itself_does_and_stays_as_it_is(tutorial: Path) -> None:
    before = hashes(tutorial)
    with QdrantRetriever.open(at(tutorial)) as retriever:
        found = retriever.search("what counts turns?").chunks
        # The folder is free while the retriever is open.
        own = QdrantVectorStore.from_existing_collection("my_documents", StaticEmbeddings(), path=str(tutorial))
        [document] = retriever.invoke("what counts turns?")[:1]
        expected = own.similarity_search_with_score("what counts turns?", k=3)
        own.client.close()
    assert [hit.chunk.text for hit in found] == [document.page_content for document, _ in expected]
    assert [hit.score for hit in found] == pytest.approx([max(0.0, score) for _, score in expected], abs=1e-6)
    assert hashes(tutorial) == before
    assert document.metadata.items() >= {"source": "docs/0.md", "start_index": 0}.items()


def test_two_read_it_at_once(tutorial: Path) -> None:
    first, second = open_client(at(tutorial).store, {}), open_client(at(tutorial).store, {})
    assert first.count("my_documents").count == second.count("my_documents").count == 3
    first.close()
    second.close()


def test_an_open_client_holds_it(tutorial: Path) -> None:
    holder = QdrantClient(path=str(tutorial))
    with pytest.raises(
        StoreLockedError, match=r"db: a client of .*local mode has this folder open.* call its close\(\)"
    ):
        open_client(at(tutorial).store, {})
    holder.close()


def test_it_is_never_written_to(tutorial: Path) -> None:
    before = hashes(tutorial)
    with pytest.raises(StoreError, match="never written to: name another folder"):
        open_client(at(tutorial).store, {}, create=True)
    assert hashes(tutorial) == before


@pytest.mark.parametrize("damage", [b"no database", b""])
def test_damage_is_named(tutorial: Path, tmp_path: Path, damage: bytes) -> None:
    collection = tmp_path / "db" / "collection" / "my_documents"
    collection.mkdir(parents=True)
    (tmp_path / "db" / "meta.json").write_text('{"collections": {"my_documents": 3}}' if not damage else
                                               (tutorial / "meta.json").read_text())  # fmt: skip
    (collection / "storage.sqlite").write_bytes(damage)
    with pytest.raises(StoreError, match=r"db: the folder of qdrant-client's local mode is damaged, or was made by"):
        open_client(at(tmp_path / "db").store, {})


def test_many_points_are_said_to_be_many(
    tutorial: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_mode, "SENSIBLE_POINTS", 2)
    with caplog.at_level(logging.WARNING):
        open_client(at(tutorial).store, {}).close()
    assert "3 points are many for qdrant-client's local mode" in caplog.text


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("create", [False, True])
def test_a_plain_path_unpickles_nothing_and_says_what_to_write(tutorial: Path, tmp_path: Path, create: bool) -> None:
    folder, ran = tmp_path / "db", tmp_path / "ran"
    shutil.copytree(tutorial, folder)
    [file] = folder.rglob("storage.sqlite")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE points SET point = ?", (pickle.dumps(Evil(ran)),))
    plain = StoreConfig.model_validate({"path": str(folder)})
    with pytest.raises(StoreError, match=r"write --store\.path local:.*/db\. Opening it runs the pickles in it"):
        open_client(plain, {}, create=create)
    assert not ran.exists()
    # The test would see it: said explicitly, the folder is opened.
    with pytest.raises(StoreError, match="is damaged"):
        open_client(at(folder).store, {})
    assert ran.exists()


def test_another_folder_is_none_of_local_mode(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"expected a folder that qdrant-client's local mode has made"):
        open_client(at(tmp_path).store, {})


def test_a_file_of_settings_names_it_beside_itself_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for written, folder in {"local:db": tmp_path / "db", "local:~/db": tmp_path / "home" / "db"}.items():
        file = tmp_path / "retriever.yaml"
        file.write_text(f"store: {{path: '{written}'}}")
        assert build(RetrieverConfig, [file_layer(file, RetrieverConfig)]).store.local_mode == folder


def test_settings_that_are_written_name_it_from_any_folder(
    tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tutorial.parent)
    named = ["--store.path", "local:db", "--collection", "my_documents"]
    assert main(["inspect", *named, "--write", str(tmp_path / "mine.yaml")]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["search", "what counts turns?", "--config", "mine.yaml"]) == 0
    assert portable_settings(at(Path("db")))["store"]["path"] == f"local:{tmp_path / 'db'}"
