"""One writer at a time, and which change the running code is inside of.

A change belongs to the context that opened it: its own calls see what it has written so far, also from a task or an
executor thread that took the context along (as LangChain's async methods do); every other thread goes on seeing the
generation in force. Threads of one client wait for each other; another client, in this process or another, is refused.
"""

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

from retrievers.errors import StoreError, StoreLockedError, StoreUnreachableError
from retrievers.store.edge.draft import Draft
from retrievers.store.edge.layout import Folder, folders
from retrievers.store.edge.locks import FileLock, LockBusyError
from retrievers.store.edge.views import Views

_NUMBERS = itertools.count()
_DRAFTS: ContextVar[Mapping[tuple[int, str], Draft]] = ContextVar("drafts", default=MappingProxyType({}))


class Changes:
    """The changes of one client."""

    def __init__(self, path: Path, views: Views) -> None:
        self._path = path
        self._views = views
        self._turn = threading.Lock()
        self._number = next(_NUMBERS)

    def draft(self, name: str) -> Draft | None:
        """The change to a collection that the running code is inside of."""
        draft = _DRAFTS.get().get((self._number, name))
        return None if draft is None or draft.over else draft

    def names(self) -> dict[str, bool]:
        """The collections that are being changed, and whether they exist as the change has it."""
        mine = {name: d for (number, name), d in _DRAFTS.get().items() if number == self._number}
        return {name: draft.exists for name, draft in mine.items() if not draft.over}

    def sweep(self) -> None:
        """Remove what processes that were killed left behind.

        Raises:
            StoreLockedError: Somebody else is changing the store.
        """
        with self._writer():
            pass

    @contextmanager
    def change(self, name: str) -> Iterator[Draft]:
        """A change to one collection, put in force at the end of the block; inside another to it, part of that.

        Raises:
            StoreLockedError: Somebody else is changing the store.
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
                self._views.forget(name)
                Folder(self._path, name).sweep()

    @contextmanager
    def _writer(self) -> Iterator[None]:
        if self.names():  # a change inside a change to another collection: the lock is ours already
            yield
            return
        with self._turn:
            lock = self._lock()
            try:
                for folder in folders(self._path):
                    with suppress(StoreError):  # what is wrong with another collection is said when it is opened
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
