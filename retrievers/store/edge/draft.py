"""Changes to collections, one writer at a time: a copy of the generation in force, put in force at the end.

A change belongs to the context that opened it: its own calls see what it has written so far, also from a task or an
executor thread that runs in the context (as LangChain's async methods do); every other thread still sees the
generation in force. Threads of one client wait for each other; another client, in this process or another, is refused.
"""

import itertools
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

import qdrant_edge as edge

from retrievers.config.files import FileLock, LockBusyError
from retrievers.errors import CollectionNotFoundError, StoreError, StoreLockedError, StoreUnreachableError
from retrievers.store.edge import engine, files, layout
from retrievers.store.edge.layout import Folder, folders
from retrievers.store.edge.spec import Spec
from retrievers.store.edge.views import View, Views

# A number for each client: two clients of one folder are two writers.
_NUMBERS = itertools.count()
_DRAFTS: "ContextVar[Mapping[tuple[int, str], Draft]]" = ContextVar("drafts", default=MappingProxyType({}))


class Draft:
    """Draft of a collection, which a successful change puts in force.

    Nothing is copied before the first write, so a change that turns out to be none costs nothing and leaves the
    generation as it is. Only the holder of the writer's lock may make one.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._id = uuid.uuid4().hex
        self._path = folder.generation(self._id)
        self._lock = threading.RLock()
        self._base = folder.current()
        self._spec: Spec | None = None
        self._shard: edge.EdgeShard | None = None
        self._failed = False
        self._writes = 0
        self.touched = False
        self.over = False

    @property
    def exists(self) -> bool:
        """True if the collection exists in the draft."""
        return self._shard is not None if self.touched else self._base is not None

    @property
    def spec(self) -> Spec:
        """Return the draft's description of the collection: all but its points.

        Raises:
            CollectionNotFoundError: There is no such collection.
        """
        with self._lock:
            if self.touched and self._spec is not None and self._shard is not None:
                return self._spec
            if self.touched or self._base is None:
                raise self._missing()
            return self._stored_spec(self._base)

    @property
    def label(self) -> str:
        """Another one after every write."""
        return f"{self._id}.{self._writes}"

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Return the written shard; only after a write (`touched`)."""
        with self._lock:
            if self._shard is None or self._spec is None:
                raise self._missing()
            yield View(self._shard, self._spec, recount=True)

    @contextmanager
    def writing(self) -> Iterator[View]:
        """Return the copy to write to; an engine that fails half way spoils the whole change."""
        with self._lock:
            if not self.touched:
                with self._whole(), engine.engine_errors(f"copying collection {self._folder.name!r}"):
                    self._copy()
            with self.reading() as view:
                try:
                    yield view
                except BaseException:
                    # The copy may hold a part of the write, so the draft must not come into force.
                    self._failed = True
                    raise
                finally:
                    self._wrote()

    def describe(self, spec: Spec) -> None:
        """Replace the description of the collection, which is all but its points."""
        with self.writing():
            self._spec = spec

    def create(self, spec: Spec) -> None:
        """Begin without points.

        Raises:
            StoreError: The collection exists.
        """
        with self._lock:
            if self.exists:
                raise StoreError(f"collection {self._folder.name!r} exists; delete it first, or choose another name")
            self._folder.check_name()
            with self._whole(), engine.engine_errors(f"making collection {self._folder.name!r}"):
                self._path.mkdir(parents=True)
                self._spec, self._shard = spec, engine.create(self._path / "shard", spec)
            self._wrote()

    def delete(self) -> None:
        """Let there be no collection."""
        with self._lock:
            self._drop()
            self._wrote()

    def revert(self) -> None:
        """Undo all writes."""
        with self._lock:
            self._drop()
            self.touched = self._failed = False

    def commit(self) -> None:
        """Put what was written in force, all at once.

        Raises:
            StoreError: It cannot be written; the collection is as it was.
        """
        with self._lock:
            self.over = True
            if self._failed:
                raise StoreError(f"collection {self._folder.name!r}: a write failed, so nothing was changed")
            if not self.touched:
                return
            with engine.engine_errors(f"collection {self._folder.name!r} cannot be written, and is as it was"):
                self._finish()

    def discard(self) -> None:
        """Leave the collection as it was, and no trace of the draft; after `commit` this does nothing."""
        with self._lock:
            self.over = True
            # After `commit` the folder of the draft is the generation in force.
            if self._folder.current() != self._id:
                self._drop()

    def _finish(self) -> None:
        if self._shard is None or self._spec is None:
            if self._base is not None:
                self._folder.put_in_force(None)
            return
        # Cleared first, so that a failure below does not close the shard twice.
        shard, self._shard = self._shard, None
        points = engine.settle(shard, self._path / "shard")
        (self._path / "collection.json").write_text(self._spec.to_json(), encoding="utf-8")
        layout.record(self._path, points)
        (self._path / "lock").touch()
        # All files are on disk before CURRENT names them: a power cut leaves the former generation or the whole new
        # one.
        files.sync_tree(self._path)
        files.sync(self._folder.path)
        files.sync(self._folder.path.parent)
        self._folder.put_in_force(self._id)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Remove incomplete files from the draft's folder."""
        try:
            yield
        except BaseException:
            self._drop()
            raise

    def _wrote(self) -> None:
        self.touched = True
        self._writes += 1

    def _copy(self) -> None:
        if self._base is None:
            raise self._missing()
        base = self._folder.generation(self._base)
        # A damaged base would come into force again with its sizes.
        layout.check(base)
        self._path.mkdir()
        files.copy_tree(base / "shard", self._path / "shard")
        self._spec = self._stored_spec(self._base)
        self._shard = engine.load(self._path / "shard")
        self.touched = True

    def _stored_spec(self, generation: str) -> Spec:
        return Spec.from_json((self._folder.generation(generation) / "collection.json").read_text(encoding="utf-8"))

    def _missing(self) -> CollectionNotFoundError:
        return CollectionNotFoundError(f"no collection {self._folder.name!r} at {self._folder.store}; create it first")

    def _drop(self) -> None:
        shard, self._shard = self._shard, None
        if shard is not None:
            engine.abandon(shard)
        shutil.rmtree(self._path, ignore_errors=True)
        # The folder still holds other generations.
        with suppress(OSError):
            self._folder.path.rmdir()


class OpenChanges:
    """The changes of one client."""

    def __init__(self, path: Path, views: Views) -> None:
        self._path = path
        self._views = views
        self._turn = threading.Lock()
        self._number = next(_NUMBERS)

    def draft(self, name: str) -> Draft | None:
        """Return the change to a collection that the running code is part of."""
        draft = _DRAFTS.get().get((self._number, name))
        return None if draft is None or draft.over else draft

    def names(self) -> dict[str, bool]:
        """Return the collections that are being changed, each with True if it exists in the change."""
        drafts = {name: d for (number, name), d in _DRAFTS.get().items() if number == self._number}
        return {name: draft.exists for name, draft in drafts.items() if not draft.over}

    def sweep(self) -> None:
        """Remove what processes that were killed left behind.

        Raises:
            StoreLockedError: Another process is changing the store.
        """
        with self._writer():
            pass

    @contextmanager
    def change(self, name: str) -> Iterator[Draft]:
        """Open a change to one collection, applied at the end of the block; a nested one is part of the outer.

        Raises:
            StoreLockedError: Another process is changing the store.
        """
        outer = self.draft(name)
        if outer is not None:
            yield outer
            return
        with self._writer():
            draft = Draft(Folder(self._path, name))
            token = _DRAFTS.set({**_DRAFTS.get(), (self._number, name): draft})
            try:
                yield draft
                draft.commit()
            finally:
                _DRAFTS.reset(token)
                draft.discard()
            if draft.touched:
                # Readers of this client release the former generation, so that the sweep can remove it.
                self._views.forget(name)
                Folder(self._path, name).sweep()

    @contextmanager
    def _writer(self) -> Iterator[None]:
        # Inside a change to another collection this process holds the lock already.
        if self.names():
            yield
            return
        with self._turn:
            lock = self._lock()
            try:
                for folder in folders(self._path):
                    # Faults of another collection are reported when it is opened.
                    with suppress(StoreError):
                        folder.sweep()
                yield
            finally:
                lock.release()

    def _lock(self) -> FileLock:
        try:
            return FileLock(self._path / "writer.lock", create=True)
        except LockBusyError as error:
            raise StoreLockedError(
                f"the embedded store at {self._path} is being written to by another process; wait for it to finish, "
                "or write to another folder (--store.path); it can be read meanwhile"
            ) from error
        except OSError as error:
            raise StoreUnreachableError(f"the embedded store at {self._path} cannot be written to: {error}") from error
