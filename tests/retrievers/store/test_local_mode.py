"""A folder of qdrant-client's local mode, made as a LangChain tutorial makes it."""

import hashlib
import logging
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from retrievers.config import RetrieverConfig
from retrievers.embedding.static import StaticEmbeddings
from retrievers.errors import StoreError, StoreLockedError
from retrievers.retriever.qdrant import QdrantRetriever
from retrievers.store import local_mode, open_client
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
    return settings(store={"path": str(folder)}, collection="my_documents", threshold=0)


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
    with pytest.raises(StoreError, match="never written to; name another folder"):
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
