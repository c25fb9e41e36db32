"""The folders of an embedded store, and the generation of a collection in force.

PATH/edge.json                          says that this is a store of ours, and its version
PATH/writer.lock                        held by the one process that is changing something
PATH/collections/NAME/CURRENT           the generation in force; without it the collection does not exist
PATH/collections/NAME/ID/               one generation, never changed after it came into force
    lock  collection.json  shard/       held by its readers; vectors and metadata; what the engine keeps
    sizes.json                          number of points, and the size of each file, when it came into force

Collections lie under a folder of their own so that no name can meet `edge.json` or `writer.lock`.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote, unquote

from retrievers.config.files import LOCAL_MODE, FileLock, LockBusyError, load_json, read_bytes, read_text
from retrievers.errors import CollectionDamagedError, StoreError, StoreUnreachableError
from retrievers.store.edge import files
from retrievers.store.local_mode import is_local_mode

MARKER = "edge.json"
FORMAT = "retrievers.edge"
VERSION = 1
SIZES = "sizes.json"
GENERATION = re.compile(r"[0-9a-f]{32}")
LONGEST_NAME = 200
MOST_BYTES = 10_000_000
FAULTS_SHOWN = 3


def open_store(path: Path, *, create: bool) -> None:
    """Check that a folder is an embedded store, or make it one.

    Args:
        path: The folder.
        create: True to make a store of a missing folder, or of one that is not a store yet.

    Raises:
        StoreUnreachableError: It does not exist, or cannot be used.
        StoreError: It is in another format, or of a later version.
    """
    try:
        if (path / MARKER).exists():
            _check_marker(path)
            return
        if is_local_mode(path):
            raise StoreError(
                f"{path}: found a folder of qdrant-client's local mode, expected one of an embedded store; to read it "
                f"write --store.path {LOCAL_MODE}{path}. Opening it runs the pickles in it: only for a folder that you "
                "trust. It is never written to: name another folder to index into"
            )
        if not create:
            raise StoreUnreachableError(
                f"no embedded store at {path}: index pages into it first (python -m retrievers index DIR), "
                "or name another place with --store.path or --store.url"
            )
        (path / "collections").mkdir(parents=True, exist_ok=True)
        files.write_whole(path / MARKER, json.dumps({"format": FORMAT, "version": VERSION}))
    except OSError as error:
        raise StoreUnreachableError(
            f"the embedded store at {path} cannot be opened: {error.strerror}; name another place with --store.path"
        ) from error


@dataclass(frozen=True)
class Folder:
    """The folder of one collection, which need not exist."""

    store: Path
    name: str

    @cached_property
    def path(self) -> Path:
        """Return the folder of a collection; the name is escaped, so that any name fits and none leaves the store."""
        escaped = quote(self.name, safe=" ")
        return self.store / "collections" / (f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped)

    def generation(self, generation: str) -> Path:
        """Return the folder of a generation."""
        return self.path / generation

    def current(self) -> str | None:
        """Return the generation in force, or None when there is no such collection.

        Raises:
            StoreError: The file that says so is damaged.
        """
        if len(self.path.name) > LONGEST_NAME:
            return None
        try:
            text = read_bytes(self._current, "a generation's name", MOST_BYTES, self._damaged).decode(
                "ascii", "replace"
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not GENERATION.fullmatch(text):
            raise self._damaged(f"{self._current} is damaged: expected the name of a generation, found {text[:40]!r}")
        return text

    def _damaged(self, message: str) -> StoreError:
        return StoreError(f"{message}; remove {self.path} and index again")

    @cached_property
    def _current(self) -> Path:
        return self.path / "CURRENT"

    def put_in_force(self, generation: str | None) -> None:
        """Let a generation that is on disk be the one that readers get from now on (None: no collection)."""
        if generation is not None:
            files.write_whole(self._current, generation)
        else:
            self._current.unlink(missing_ok=True)
            files.sync(self.path)

    def sweep(self) -> None:
        """Remove generations that are not in force and without readers; only the writer may do this."""
        if not self.path.is_dir():
            return
        current = self.current()
        for entry in list(self.path.iterdir()):
            if GENERATION.fullmatch(entry.name) and entry.name != current:
                _remove_unread(entry)
            elif entry.suffix == ".new":
                entry.unlink(missing_ok=True)
        if current is None and not any(self.path.iterdir()):
            self.path.rmdir()

    def check_name(self) -> None:
        """Refuse a name that cannot be a folder.

        Raises:
            StoreError: It is empty or too long.
        """
        if not self.name or len(self.path.name) > LONGEST_NAME:
            raise StoreError(
                f"collection name {self.name[:60]!r} of {len(self.name)} characters: expected 1 to {LONGEST_NAME}"
            )


def folders(store: Path) -> Iterator[Folder]:
    """Return the folders of a store's collections by name, with those that have no generation in force."""
    root = store / "collections"
    names = sorted(unquote(entry.name) for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []
    yield from (Folder(store, name) for name in names)


def record(generation: Path, points: int) -> None:
    """Write down what a complete generation holds: its points, and the size of every file.

    Raises:
        OSError: It cannot be written.
    """
    content = {"engine": _engine(), "points": points, "files": dict(_sizes(generation))}
    (generation / SIZES).write_text(json.dumps(content), encoding="utf-8")


def check(generation: Path) -> int | None:
    """Refuse a generation whose files have other sizes than when they were written.

    Returns:
        The recorded number of points; None where another version of the engine wrote the files, or nothing is recorded.

    Raises:
        CollectionDamagedError: Naming the first few files.
    """
    try:
        recorded = json.loads((generation / SIZES).read_text(encoding="utf-8"))
        points, sizes = int(recorded["points"]), dict(recorded["files"])
        if recorded["engine"] != _engine():
            return None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(generation, f"{SIZES}: {type(error).__name__}: {error}") from error
    found = dict(_sizes(generation))
    faults = [
        f"{name}: expected {size:,} bytes, found {found[name]:,}" if name in found else f"{name}: is missing"
        for name, size in sizes.items()
        if found.get(name) != size
    ]
    if faults:
        more = [f"… and {len(faults) - FAULTS_SHOWN} more"] if len(faults) > FAULTS_SHOWN else []
        raise damaged(generation, "; ".join([*faults[:FAULTS_SHOWN], *more]))
    return points


def damaged(generation: Path, fault: str) -> CollectionDamagedError:
    """Return the error for a generation whose files are not as they were written."""
    return CollectionDamagedError(f"{generation} is damaged: {fault}; remove {generation.parent} and index again")


def _sizes(generation: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(generation.rglob("*")):
        name = path.relative_to(generation).as_posix()
        if name not in (SIZES, "lock") and files.HALF_WRITTEN not in name and path.is_file():
            yield name, path.stat().st_size


@cache
def _engine() -> str:
    """Return the version of the engine; another one may rewrite files when it opens them."""
    return version("qdrant-edge-py")


def _remove_unread(generation: Path) -> None:
    try:
        lock = FileLock(generation / "lock") if (generation / "lock").exists() else None
    except (LockBusyError, FileNotFoundError):
        return
    # The next writer removes the rest.
    shutil.rmtree(generation, ignore_errors=True)
    if lock is not None:
        lock.release()


def _check_marker(path: Path) -> None:
    try:
        marker = load_json(read_text(path / MARKER, f"format {FORMAT!r}", MOST_BYTES, StoreError))
    except ValueError:
        marker = None
    if not isinstance(marker, dict) or marker.get("format") != FORMAT:
        raise StoreError(f"{path / MARKER} is damaged: expected format {FORMAT!r}; index into another folder")
    if marker.get("version") != VERSION:
        raise StoreError(
            f"the embedded store at {path} has version {marker.get('version')!r} of its format, expected {VERSION}; "
            "use the release that made it, or index again into another folder"
        )
