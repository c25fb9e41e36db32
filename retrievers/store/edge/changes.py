"""One writer at a time, and the change that the running code is part of.

A change belongs to the context that opened it: its own calls see what it has written so far, also from a task or an
executor thread that runs in the context (as LangChain's async methods do); every other thread still sees the
generation in force. Threads of one client wait for each other; another client, in this process or another, is refused.
"""

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

from retrievers.config.file_locks import FileLock, LockBusyError
from retrievers.errors import StoreError, StoreLockedError, StoreUnreachableError
from retrievers.store.edge.draft import Draft
from retrievers.store.edge.layout import Folder, folders
from retrievers.store.edge.views import Views

# A number for each client: two clients of one folder are two writers.
_NUMBERS = itertools.count()
_DRAFTS: ContextVar[Mapping[tuple[int, str], Draft]] = ContextVar("drafts", default=MappingProxyType({}))


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
