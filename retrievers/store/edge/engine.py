"""The engine's shards: made, opened, settled; and its errors as ours."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import qdrant_edge as edge

from retrievers.errors import RetrievalError, StoreError, StoreFullError
from retrievers.store.edge.spec import Spec

log = logging.getLogger(__name__)
NO_ROOM = re.compile("No space left on device|Disk quota exceeded|There is not enough space on the disk")


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what the engine and the disk raise, panics included, into a StoreError that begins with `doing`."""
    try:
        yield
    except RetrievalError:
        raise
    except OSError as error:
        raise _typed(error)(f"{doing}: {error}") from error
    except Exception as error:
        raise _typed(error)(f"{doing}: the embedded engine says: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a fault inside the engine is raised as
            raise
        raise _typed(error)(f"{doing}: the embedded engine failed: {error}") from error


def _typed(error: BaseException) -> type[StoreError]:
    """The class of our error for one of the engine, which says what the system told it as text."""
    return StoreFullError if NO_ROOM.search(str(error)) else StoreError


def create(folder: Path, spec: Spec) -> edge.EdgeShard:
    """A new shard.

    Raises:
        StoreError: The engine refuses.
    """
    with engine_errors(f"making {folder}"):
        folder.mkdir()
        return edge.EdgeShard.create(str(folder), spec.engine_config())


def load(folder: Path) -> edge.EdgeShard:
    """An existing shard.

    A settled shard (see `settle`) keeps every byte while it is opened, read and closed, by any number of processes
    at once: the engine opens its files for writing, but writes what is there already. So readers need no lock against
    each other, only write permission.

    Raises:
        StoreError: The engine refuses.
    """
    with engine_errors(f"opening {folder} (which needs write permission, also to read)"):
        return edge.EdgeShard.load(str(folder))


def close(shard: edge.EdgeShard) -> None:
    """Close a shard that was only read; a failure is not worth an error."""
    try:
        with engine_errors("closing"):
            shard.close()
    except StoreError as error:
        log.warning("%s", error)


def settle(shard: edge.EdgeShard, folder: Path) -> int:
    """Close a shard that was written to, and open and close it once more; how many points it holds.

    Closing leaves a journal that the next opening works in, the only opening that changes bytes. It also shows that
    what was written can be opened, with all its points.

    Raises:
        StoreError: It cannot, or the points are not all there.
    """
    with engine_errors(f"writing {folder}"):
        points = shard.info().points_count
        shard.close()
        again = edge.EdgeShard.load(str(folder))
        found = again.info().points_count
        again.close()
    if found != points:
        raise StoreError(f"{folder} holds {found} points after writing {points}; nothing was changed")
    return int(points)


def abandon(shard: edge.EdgeShard) -> None:
    """Close a shard whose folder is about to be removed."""
    with suppress(StoreError), engine_errors("closing"):
        shard.close()
