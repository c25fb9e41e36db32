import errno
import os
import shutil

import pytest
from qdrant_client import models

from retrievers.errors import StoreError, StoreFullError
from retrievers.store.edge import EdgeClient, disk_space
from retrievers.store.edge.engine import engine_errors

NAME = "pages"


def test_more_than_is_free_is_refused(client: EdgeClient) -> None:
    free = shutil.disk_usage(client.path).free
    disk_space.check_room(client.path, NAME, more=1_000)
    with pytest.raises(
        StoreFullError, match=r"has [\d,.]+ MB free, and collection 'pages' needs [\d,.]+ MB to be writ"
    ):
        disk_space.check_room(client.path, NAME, more=2 * free)


def test_a_copy_of_the_collection_is_counted(client: EdgeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(client.path)  # other tests fill and free the same disk meanwhile
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    client.create_collection(NAME, models.VectorParams(size=2, distance=models.Distance.COSINE))
    free = usage.free
    files = (client.path / "collections" / NAME / client.generation(NAME)).rglob("*")
    copy = sum(file.stat().st_blocks * 512 for file in files if file.is_file())
    with pytest.raises(StoreFullError):
        disk_space.check_room(client.path, NAME, more=free - copy // 2)
    disk_space.check_room(client.path, "another", more=free - 3 * copy // 4)


def test_a_name_that_no_folder_can_have_is_refused(client: EdgeClient) -> None:
    with pytest.raises(StoreError, match="of 100 characters: expected 1 to 200"):
        disk_space.check_room(client.path, "ö" * 100, more=0)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        RuntimeError("Service internal error: No space left on device (os error 28)"),
    ],
)
def test_what_the_engine_and_the_system_say_of_a_full_disk(error: Exception) -> None:
    with pytest.raises(StoreFullError, match=r"writing: .*(No space left|quota exceeded)"), engine_errors("writing"):
        raise error


def test_other_errors_are_not_for_want_of_room() -> None:
    with pytest.raises(StoreError, match=r"writing: .*Input/output") as raised, engine_errors("writing"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert type(raised.value) is StoreError
