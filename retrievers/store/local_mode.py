"""A folder of qdrant-client's local mode (`QdrantClient(path=…)`), read from a copy.

The client locks such a folder against all others and may write to it when it opens it, so that an evaluation would
keep out the application whose folder it is. A copy needs the lock only while it is made, and changes
nothing.
"""

import logging
import shutil
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from retrievers.config.files import FileLock, LockBusyError, load_json, read_text
from retrievers.errors import StoreError, StoreLockedError, StoreUnreachableError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

log = logging.getLogger(__name__)
META = "meta.json"
LOCK = ".lock"
MOST_BYTES = 10_000_000
# Every search compares a query with all vectors in Python; qdrant-client advises against more.
SENSIBLE_POINTS = 20_000


def is_local_mode(path: Path) -> bool:
    """Return True if a folder is one that qdrant-client's local mode has made."""
    try:
        content = load_json(read_text(path / META, "the format of local mode", MOST_BYTES, StoreError))
    except (OSError, StoreError, ValueError):  # there is none, or something else of that name
        return False
    return isinstance(content, dict) and "collections" in content


def open_local_mode(path: Path) -> "QdrantClient":
    """Return a client of the folder's present content, in memory; whoever made the folder may run any code.

    Raises:
        StoreLockedError: An open client holds the folder.
        StoreUnreachableError: It cannot be read, or there is no room for a copy.
        StoreError: It is damaged, or of another kind.
    """
    if not is_local_mode(path):
        raise StoreError(
            f"{path}: expected a folder that qdrant-client's local mode has made, found none with a {META} of its; "
            "name an embedded store without local:"
        )
    # On POSIX the copy is gone once it is loaded, so that a killed process leaves nothing behind.
    with tempfile.TemporaryDirectory(prefix="retrievers-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "copy"
        _copy(path, copy)
        client = _load(path, copy)
    many = {c.name: client.count(c.name).count for c in client.get_collections().collections}
    for name, points in many.items():
        if points > SENSIBLE_POINTS:
            log.warning(
                "collection %r at %s: %s points are many for qdrant-client's local mode, which compares every query "
                "with all of them (at most %s are sensible); use a Qdrant server, or expect slow searches",
                name, path, f"{points:,}", f"{SENSIBLE_POINTS:,}",
            )  # fmt: skip
    return client


def expect_exact_search() -> None:
    """Silence a warning of local mode: all its searches are exact, which is what is asked for."""
    warnings.filterwarnings("ignore", message="Local mode performs exact")


def _copy(path: Path, copy: Path) -> None:
    try:
        with FileLock(path / LOCK, shared=True) if (path / LOCK).exists() else nullcontext():
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns(LOCK))
    except LockBusyError as error:
        raise StoreLockedError(
            f"{path}: a client of qdrant-client's local mode has this folder open, in this process or another; "
            "end it or call its close(), then try again (once it is read, the folder is free for it)"
        ) from error
    except (OSError, shutil.Error) as error:
        raise StoreUnreachableError(
            f"{path}: the folder of qdrant-client's local mode cannot be read: {error}"
        ) from error


def _load(path: Path, copy: Path) -> "QdrantClient":
    from qdrant_client import QdrantClient

    expect_exact_search()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Local mode is not recommended")
            return QdrantClient(path=str(copy), force_disable_check_same_thread=True)
    # What is stored is pickled, and unpickling damaged bytes may raise anything.
    except Exception as error:
        raise StoreError(
            f"{path}: the folder of qdrant-client's local mode is damaged, or was made by another version of it "
            f"({type(error).__name__}: {error}); make the collection again"
        ) from error
