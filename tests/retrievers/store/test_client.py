import sqlite3
from pathlib import Path

import pytest
from qdrant_client import models

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError, StoreLockedError, StoreUnreachableError
from retrievers.store import embedded_folder, location, open_client, store_errors
from retrievers.store.embedded import EmbeddedClient
from tests.support.collections import settings


def test_a_folder_that_does_not_exist_is_named_and_not_made(tmp_path: Path) -> None:
    config = settings(store={"path": str(tmp_path / "none")})
    with pytest.raises(StoreUnreachableError, match=r"no embedded store at .*none: index pages into it first"):
        open_client(config.store, {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachableError):
        open_client(settings(store={"path": str(tmp_path)}).store, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("create", [False, True])
def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path, create: bool) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnreachableError, match=str(tmp_path / "file")):
        open_client(settings(store={"path": str(tmp_path / "file")}).store, {}, create=create)


def test_indexing_may_make_the_folder(tmp_path: Path) -> None:
    open_client(settings(store={"path": str(tmp_path / "new")}).store, {}, create=True).close()
    assert (tmp_path / "new" / "edge.json").is_file()


def test_a_folder_is_read_by_several_and_written_to_by_one(pages: RetrieverConfig) -> None:
    first, second = EmbeddedClient(pages.store.path or Path()), EmbeddedClient(pages.store.path or Path())
    params = models.VectorParams(size=2, distance=models.Distance.COSINE)
    with first.building("other", vectors=params):
        assert second.count("pages").count == first.count("pages").count > 0
        with pytest.raises(StoreLockedError, match="is being written to"), second.building("pages", vectors=params):
            raise AssertionError("built")
    assert second.collection_exists("other")
    first.close()
    second.close()


def test_a_database_that_fails_later_is_a_store_error() -> None:
    config = settings(store={"path": "p"}, collection="c")
    with pytest.raises(
        StoreError, match=r"collection 'c' at p: cannot be read or written \(OperationalError: readonly"
    ):
        with store_errors(config.store, config.collection):
            raise sqlite3.OperationalError("readonly database")


def test_a_store_is_where_it_says_or_in_the_working_folder() -> None:
    assert location(settings(store={"url": "http://h:1"}).store) == "http://h:1"
    assert location(settings(store={"path": "a/b"}).store) == "a/b"
    assert location(settings().store) == ".qdrant"


def test_a_store_that_is_not_named_is_read_from_the_users_cache_where_only_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept, here, store = tmp_path / "cache" / "retrieval-evals" / ".qdrant", Path(".qdrant"), settings().store
    assert embedded_folder(store) == here
    kept.mkdir(parents=True)
    assert embedded_folder(store) == kept
    assert embedded_folder(store, create=True) == here
    here.mkdir()
    assert embedded_folder(store) == here
