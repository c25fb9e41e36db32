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
# Messages of Linux, of its quotas, and of Windows.
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
        # The class of faults inside the engine.
        if type(error).__name__ != "PanicException":
            raise
        raise _typed(error)(f"{doing}: the embedded engine failed: {error}") from error


def _typed(error: BaseException) -> type[StoreError]:
    """Return our error class for an engine error, which gives the system's message only as text."""
    return StoreFullError if NO_ROOM.search(str(error)) else StoreError


def create(folder: Path, spec: Spec) -> edge.EdgeShard:
    """Create a shard.

    Raises:
        StoreError: The engine refuses.
    """
    with engine_errors(f"making {folder}"):
        folder.mkdir()
        return edge.EdgeShard.create(str(folder), spec.engine_config())


def load(folder: Path) -> edge.EdgeShard:
    """Open an existing shard.

    A settled shard (see `settle`) keeps every byte while it is opened, read and closed, by any number of processes
    at once: the engine opens its files for writing, but rewrites their present content. So readers need no lock against
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
        # This opening works the journal into the files, so that later ones change no byte.
        again = edge.EdgeShard.load(str(folder))
        count = again.info().points_count
        again.close()
    if count != points:
        raise StoreError(f"{folder} holds {count} points after writing {points}; nothing was changed")
    return int(points)


def abandon(shard: edge.EdgeShard) -> None:
    """Close a shard whose folder is about to be removed."""
    with suppress(StoreError), engine_errors("closing"):
        shard.close()
