"""A change is in force whole or not at all, seen by its own code at once and by all others at its end."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from qdrant_client import models

from retrievers.errors import CollectionNotFoundError, StoreError, StoreFullError
from retrievers.store.edge import EdgeClient, draft, engine, files

NAME = "pages"
T = TypeVar("T")
PAIR = models.VectorParams(size=2, distance=models.Distance.DOT)


@pytest.fixture
def pages(client: EdgeClient) -> Iterator[EdgeClient]:
    """A collection of point 1."""
    with client.changing(NAME):
        client.create_collection(NAME, PAIR)
        client.upsert(NAME, [point(1)])
    yield client


def point(i: int) -> models.PointStruct:
    return models.PointStruct(id=i, vector=[float(i), 1.0], payload={"i": i})


def ids(client: EdgeClient) -> list[Any]:
    return [record.id for record in client.scroll(NAME, limit=100)[0]]


def elsewhere(work: Callable[[], T]) -> T:
    """Done in another thread, which is outside of every change."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def folder(client: EdgeClient) -> set[str]:
    return {entry.name for entry in (client.path / "collections" / NAME).iterdir()}


def test_seen_inside_at_once_and_outside_at_the_end(pages: EdgeClient) -> None:
    before = pages.generation(NAME)
    with pages.changing(NAME):
        pages.upsert(NAME, [point(2)])
        first = pages.generation(NAME)
        pages.delete(NAME, [1])
        assert (ids(pages), elsewhere(lambda: ids(pages))) == ([2], [1])
        assert [p.id for p in pages.query_points(NAME, [1.0, 0.0]).points] == [2]
        assert len({before, first, pages.generation(NAME)}) == 3
        assert elsewhere(lambda: pages.generation(NAME)) == before
    assert (ids(pages), elsewhere(lambda: ids(pages))) == ([2], [2])
    assert folder(pages) == {"CURRENT", pages.generation(NAME)}


def test_an_exception_leaves_it_as_it_was(pages: EdgeClient) -> None:
    before = (pages.generation(NAME), folder(pages))
    with pytest.raises(KeyboardInterrupt), pages.changing(NAME):
        pages.upsert(NAME, [point(2)])
        pages.update_collection(NAME, metadata={"x": 1})
        raise KeyboardInterrupt
    assert (pages.generation(NAME), folder(pages)) == before
    assert (ids(pages), pages.get_collection(NAME).config.metadata) == ([1], None)


def test_a_collection_made_inside(client: EdgeClient) -> None:
    with pytest.raises(ValueError, match="stop"), client.changing(NAME):
        client.create_collection(NAME, PAIR)
        client.upsert(NAME, [point(1)])
        assert [c.name for c in client.get_collections().collections] == [NAME]
        assert (client.collection_exists(NAME), elsewhere(lambda: client.collection_exists(NAME))) == (True, False)
        assert elsewhere(client.get_collections).collections == []
        raise ValueError("stop")
    assert not client.collection_exists(NAME)
    assert list((client.path / "collections").iterdir()) == []


def test_removed_and_made_anew_inside(pages: EdgeClient) -> None:
    with pages.changing(NAME):
        pages.delete_collection(NAME)
        assert not pages.collection_exists(NAME)
        with pytest.raises(CollectionNotFoundError):
            pages.count(NAME)
        pages.create_collection(NAME, {"other": PAIR})
        assert (pages.count(NAME).count, elsewhere(lambda: ids(pages))) == (0, [1])
    assert isinstance(pages.get_collection(NAME).config.params.vectors, dict)
    with suppress(ValueError), pages.changing(NAME):
        pages.delete_collection(NAME)
        raise ValueError
    assert pages.collection_exists(NAME)


def test_no_change_costs_no_generation(pages: EdgeClient) -> None:
    before = pages.generation(NAME)
    with pages.changing(NAME):
        assert pages.count(NAME).count == 1
        assert pages.generation(NAME) == before
    with pages.changing("another"):
        pass
    assert (pages.generation(NAME), pages.collection_exists("another")) == (before, False)


def test_a_change_inside_a_change_is_part_of_it(pages: EdgeClient) -> None:
    with pytest.raises(ValueError, match="stop"), pages.changing(NAME):
        with pages.changing(NAME):
            pages.upsert(NAME, [point(2)])
        assert elsewhere(lambda: ids(pages)) == [1]
        with pages.changing("another"):
            pages.create_collection("another", PAIR)
        raise ValueError("stop")
    assert (ids(pages), pages.count("another").count) == ([1], 0)


def test_a_write_that_failed_half_way_spoils_the_change(pages: EdgeClient) -> None:
    with (
        pytest.raises(StoreError, match="a write failed, so nothing was changed"),
        pages.changing(NAME),
    ):
        pages.upsert(NAME, [point(2)])
        with suppress(StoreError):
            pages.overwrite_payload(NAME, {"x": 1}, [1, 99])
    assert (ids(pages), folder(pages)) == ([1], {"CURRENT", pages.generation(NAME)})


def test_tasks_and_executor_threads_belong_to_the_change(pages: EdgeClient) -> None:
    async def add() -> None:
        await asyncio.gather(*(asyncio.to_thread(pages.upsert, NAME, [point(i)]) for i in range(2, 6)))

    with pages.changing(NAME):
        asyncio.run(add())
        assert (len(ids(pages)), elsewhere(lambda: len(ids(pages)))) == (5, 1)
    assert len(ids(pages)) == 5


@pytest.mark.slow
def test_threads_write_one_after_the_other_while_others_read(pages: EdgeClient) -> None:
    seen: list[int] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        return run

    def write(start: int) -> None:
        for _ in range(2):
            pages.upsert(NAME, [point(start), point(start + 1)])

    def read() -> None:
        while not stop.is_set():
            seen.append(len(pages.query_points(NAME, [1.0, 1.0]).points))

    readers = [threading.Thread(target=guarded(read)) for _ in range(2)]
    writers = [threading.Thread(target=guarded(partial(write, start))) for start in (10, 20, 30)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert failures == []
    assert set(seen) <= {1, 3, 5, 7}, "never half of an upsert"
    assert ids(pages) == [1, 10, 11, 20, 21, 30, 31]


@pytest.mark.parametrize("where", ["settle", "sync_tree", "write_whole"])
def test_a_disk_that_fails_at_the_end(pages: EdgeClient, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    before = (pages.generation(NAME), folder(pages))

    def fail(*_: Any) -> None:
        raise StoreError("no") if where == "settle" else OSError(28, "No space left on device")

    monkeypatch.setattr(engine if where == "settle" else files, where, fail)
    says = "^no$" if where == "settle" else "cannot be written, and is as it was: .*No space left"
    with pytest.raises(StoreError if where == "settle" else StoreFullError, match=says):
        pages.upsert(NAME, [point(2)])
    monkeypatch.undo()
    assert (pages.generation(NAME), folder(pages), ids(pages)) == (*before, [1])
    pages.upsert(NAME, [point(2)])
    assert ids(pages) == [1, 2]


def test_a_disk_that_fails_at_the_beginning(pages: EdgeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder(pages)
    with pages.changing(NAME):
        with monkeypatch.context() as patched:

            def fail(source: Path, target: Path) -> None:
                target.mkdir()
                raise OSError(28, "No space left on device")

            patched.setattr(files, "copy_tree", fail)
            with pytest.raises(StoreError, match=r"copying collection 'pages': .*No space left"):
                pages.upsert(NAME, [point(2)])
            assert folder(pages) == before
        pages.upsert(NAME, [point(3)])
    assert ids(pages) == [1, 3]


def test_left_overs_are_swept_by_the_next_writer(pages: EdgeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(draft.Draft, "discard", lambda self: None)  # as if the process had been killed
        with suppress(ValueError), pages.changing(NAME):
            pages.upsert(NAME, [point(2)])
            raise ValueError
    (pages.path / "collections" / NAME / "CURRENT.17.new").write_text("x")
    assert len(folder(pages)) == 4
    pages.create_collection("another", PAIR)
    assert folder(pages) == {"CURRENT", pages.generation(NAME)}
    assert ids(pages) == [1]


def test_reading_leaves_every_byte_as_it_was(pages: EdgeClient) -> None:
    """Check that any number of processes can read one generation, with any version of the engine."""
    with pages.changing(NAME):
        pages.create_payload_index(NAME, "i", "integer")
        pages.upsert(NAME, [point(i) for i in range(200)])
        pages.delete(NAME, list(range(50)))
        pages.upsert(NAME, [point(i) for i in range(60, 90)])
        pages.overwrite_payload(NAME, {"i": -1}, [100])
    before = contents(pages.path)
    (half,) = (pages.path / "collections" / NAME / pages.generation(NAME) / "shard" / "segments").iterdir()
    (half / f"{files.HALF_WRITTEN}abc").mkdir()  # what a killed reader leaves
    for _ in range(2):
        clients = [EdgeClient(pages.path) for _ in range(3)]
        for client in clients:
            assert len(client.query_points(NAME, [1.0, 1.0], limit=1_000, with_vectors=True).points) == 150
            assert client.count(NAME, models.Filter(must=models.IsNullCondition(is_null={"key": "i"}))).count == 0
            assert len(client.scroll(NAME, limit=1_000)[0]) == client.get_collection(NAME).points_count == 150
        for client in clients:
            client.close()
    assert contents(pages.path) == before
    pages.upsert(NAME, [point(500)])
    assert not list(pages.path.rglob(f"{files.HALF_WRITTEN}*"))


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}
