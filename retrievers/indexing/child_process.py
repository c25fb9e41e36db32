"""Writing to an embedded collection on a nearly full disk: in a child process.

The system ends a process whose engine writes to a full disk (see `store.edge.disk_space`). A child's end is noticed,
and the collection stays as it was. The child ends with its parent; its unfinished change is dropped.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from retrievers.errors import RetrievalError, StoreError, StoreLockedError
from retrievers.indexing.writing import Order, Progress, write
from retrievers.records import Chunk
from retrievers.store.edge import EdgeClient, disk_space

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

CHILD = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from retrievers.indexing.child_process import serve; serve()"
)
# Approximate bytes of a point besides its text.
POINT_BYTES = 2_000
# Exit of a process whose mapped files cannot be written: a signal, or its status on Windows.
FULL = {-signal.SIGBUS if hasattr(signal, "SIGBUS") else None, 0xC0000006}


def check_room(client: "QdrantClient", collection: str, added: Sequence[Chunk]) -> None:
    """Refuse to add chunks for which an embedded store has no room; a server answers for itself.

    Raises:
        StoreFullError: There is none.
        StoreError: The collection cannot be made under this name.
    """
    if isinstance(client, EdgeClient):
        disk_space.check_room(client.path, collection, _size(added))


def write_safely(client: "QdrantClient", order: Order, progress: Progress) -> None:
    """Write, by another process where the disk is so full that it may be ended (arguments as in `write`).

    Raises:
        StoreFullError: The disk became full; an embedded collection is as it was.
        StoreError: The store failed.
    """
    name = order.config.collection
    if not isinstance(client, EdgeClient) or client.is_changing(name):
        write(client, order, progress)
    elif disk_space.is_tight(client.path, name, _size(order.changes.added)):
        write_apart(client, order, progress)
    else:
        write(client, order, progress)


def write_apart(client: EdgeClient, order: Order, progress: Progress) -> None:
    """Write to an embedded store in another process (arguments and errors as in `write_safely`)."""
    try:
        with _child() as child:
            code = _followed(child, (sys.path, client.path, *_packed(order)), progress)
    finally:
        # Another process has started a change, and has cleaned up first.
        with suppress(StoreLockedError):
            client.sweep()
    if code is not None:
        raise disk_space.full(client.path) if code in FULL else _ended(client.path, code)


def serve() -> None:
    """Run the child: read the order from standard input, write it, and report progress on standard output."""
    path, *packed = (pickle.load(sys.stdin.buffer) for _ in range(4))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as answers:
        # All other output is not part of the answers.
        os.dup2(2, 1)

        def say(*message: Any) -> None:
            pickle.dump(message, answers)
            answers.flush()

        try:
            with EdgeClient(path) as client:
                write(client, _unpacked(*packed), lambda *done: say("progress", *done))  # type: ignore[arg-type]
        except RetrievalError as error:
            say("failed", error)
        else:
            say("done")


def _packed(order: Order) -> tuple[Order, list[str], Any]:
    """Split an order from its vectors: the order, the texts, and the vectors as one array, which is quick to send."""
    return replace(order, vectors={}), list(order.vectors), np.array(list(order.vectors.values()))


def _unpacked(order: Order, texts: Sequence[str], vectors: Any) -> Order:
    return replace(order, vectors=dict(zip(texts, vectors.tolist(), strict=True)))


@contextmanager
def _child() -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that runs `serve`, out of reach of the terminal's Ctrl-C; it ends with the block."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe, start_new_session=True)
    try:
        yield child
    finally:
        child.kill()
        with suppress(BrokenPipeError):
            child.communicate()


def _followed(child: "subprocess.Popen[bytes]", message: Sequence[object], progress: Progress) -> int | None:
    """Tell the child what to do and listen until it is done; its exit code where it ended before."""
    assert child.stdin and child.stdout
    with suppress(BrokenPipeError):  # it has ended
        for part in message:
            pickle.dump(part, child.stdin)
        child.stdin.flush()
    for kind, *content in _messages(child.stdout):
        if kind == "progress":
            progress(*content)
        elif kind == "failed":
            raise content[0]
        else:
            return None
    return child.wait()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _messages(answers: IO[bytes]) -> Iterator[tuple[Any, ...]]:
    # It ended, perhaps in the middle of an answer.
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            yield pickle.load(answers)


def _ended(store: Path, code: int) -> StoreError:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return StoreError(f"the process that writes to {store} {how}; the collection is as it was")


def _size(added: Sequence[Chunk]) -> int:
    return sum(len(chunk.indexed_text.encode()) + POINT_BYTES for chunk in added)
