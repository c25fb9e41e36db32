"""Writing by another process: the same collection, and an error instead of the end where the disk becomes full."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from retrievers.errors import EmbeddingMismatchError, StoreError, StoreFullError, StoreLockedError
from retrievers.indexing.child_process import write_apart, write_safely
from retrievers.indexing.writing import Changes, Order, write
from retrievers.records import Chunk
from retrievers.store.edge import EdgeClient
from tests.support.child import environment
from tests.support.indexing import DIMENSION, content, manifest, settings
from tests.support.small_disk import small_disk

NAME = "pages"


def order(store: Path, count: int, *, dimension: int = DIMENSION, exists: bool = False, first: int = 0) -> Order:
    chunks = tuple(
        Chunk(chunk_id=str(n), point_id=str(UUID(int=n)), text=f"Text of number {n}.", source_url=f"/docs/{n}")
        for n in range(first, first + count)
    )
    vectors = {chunk.text: [1.0, *[float(number)] * (dimension - 1)] for number, chunk in enumerate(chunks)}
    record = {
        "embedding": {"provider": "python", "model": "tests", "dimension": DIMENSION},
        "bm25": {"language": "english", "average_length": 2.4},
    }
    return Order(config=settings(store), changes=Changes(added=chunks), vectors=vectors, manifest=record, exists=exists)


def opened(path: Path) -> Any:
    """A store that takes the place of a QdrantClient."""
    return EdgeClient(path, create=True)


def untold(stage: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


@pytest.mark.slow
def test_the_collection_is_the_one_that_this_process_writes(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with opened(tmp_path / "here") as here, opened(tmp_path / "apart") as apart:
        write(here, order(here.path, 300), untold)
        write_apart(apart, order(apart.path, 300), lambda *done: told.append(done))
        assert (content(apart), manifest(apart)) == (content(here), manifest(here))
    assert told == [("writing", 256, 300), ("writing", 300, 300)]


@pytest.mark.slow
def test_a_typed_error_of_the_other_process_is_raised_here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path / "store") as client:
        with pytest.raises(EmbeddingMismatchError, match="expected 8 dimensions in vector '', got 9"):
            write_apart(client, order(client.path, 3, dimension=9), untold)
        with client.changing("another"):
            client.delete_collection("another")
            with EdgeClient(client.path) as other, pytest.raises(StoreLockedError, match="by another process"):
                write_apart(other, order(client.path, 3), untold)
        assert left(client) == []
    assert capfd.readouterr() == ("", "")


def left(client: EdgeClient) -> list[str]:
    """The generations on the disk, in force or not."""
    return [folder.name for folder in (client.path / "collections").glob("*/*") if folder.is_dir()]


def interrupt(child: int) -> None:
    raise KeyboardInterrupt


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="asks the system for the child")
@pytest.mark.parametrize(
    ("harm", "raised", "said"),
    [(interrupt, KeyboardInterrupt, "^$"), (kill, StoreError, "was ended by SIGKILL; the collection is as it was")],
)
def test_an_end_in_the_middle_leaves_the_collection_as_it_was(
    tmp_path: Path, harm: Callable[[int], None], raised: type[BaseException], said: str
) -> None:
    def at_once(stage: str, done: int, total: int) -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        harm(int(children[-1]))

    with opened(tmp_path / "store") as client:
        write(client, order(client.path, 3), untold)
        before = content(client), client.generation(NAME)
        with pytest.raises(raised, match=said):
            write_apart(client, order(client.path, 5_000, exists=True, first=3), at_once)
        assert (content(client), client.generation(NAME)) == before
        assert left(client) == [client.generation(NAME)]


PARENT = """
import sys
from pathlib import Path
from retrievers.store.edge import EdgeClient
from retrievers.indexing.child_process import write_apart
from tests.retrievers.indexing.test_child_process import order
path = Path(sys.argv[1])
with EdgeClient(path) as client:
    write_apart(client, order(path, 20_000, exists=True, first=3), lambda *done: print("begun", flush=True))
"""


@pytest.mark.slow
def test_the_other_process_ends_with_the_one_that_is_killed(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as client:
        write(client, order(client.path, 3), untold)
        command = [sys.executable, "-c", PARENT, str(client.path)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout and parent.stdout.readline() == "begun\n"
            parent.kill()
        assert waited(client) < 10
        assert client.count(NAME).count == 3
        assert left(client) == [client.generation(NAME)]


def waited(client: EdgeClient) -> float:
    """Seconds until nobody writes to the store."""
    start = time.monotonic()
    while time.monotonic() < start + 10:
        try:
            client.sweep()
            break
        except StoreLockedError:
            time.sleep(0.05)
    return time.monotonic() - start


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    with small_disk(tmp_path / "disk", megabytes=60) as resize:
        yield resize


@pytest.mark.slow
def test_a_disk_that_becomes_full_is_told_and_nothing_left_on_it(tmp_path: Path, disk: Callable[[int], None]) -> None:
    with opened(tmp_path / "disk" / "store") as client:
        with pytest.raises(
            StoreFullError, match=r"was full before the collection was written \([\d.]+ MB are free again"
        ):
            write_safely(client, order(client.path, 20), untold)
        assert left(client) == []
        disk(250)
        write_safely(client, order(client.path, 20), untold)
        before = content(client)
        with pytest.raises(StoreFullError):
            write_apart(client, order(client.path, 20, exists=True, first=20), untold)
        assert content(client) == before
        assert left(client) == [client.generation(NAME)]
        disk(400)
        write_safely(client, order(client.path, 20, exists=True, first=20), untold)
        assert client.count(NAME).count == 40
