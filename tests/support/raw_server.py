"""A server of bytes on the loopback, for answers that no HTTP library would send."""

import contextlib
import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Thread

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextlib.contextmanager
def raw_server(answer: Callable[[bytes], Iterable[bytes]]) -> Iterator[str]:
    """Answer each connection's first bytes with others, until the client leaves; yields host and port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=_serve, args=(listening, answer), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def drip(head: bytes, every_s: float = 0.05) -> Iterator[bytes]:
    """Yield a beginning, and then a byte at a time without end."""
    yield head
    while True:
        time.sleep(every_s)
        yield b"x"


def flood(head: bytes) -> Iterator[bytes]:
    """Return a beginning, and then ten gigabytes."""
    return itertools.chain([head], itertools.repeat(b" " * 1_000_000, 10_000))


def _serve(listening: socket.socket, answer: Callable[[bytes], Iterable[bytes]]) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listening.accept()
            Thread(target=_answer, args=(connection, answer), daemon=True).start()


def _answer(connection: socket.socket, answer: Callable[[bytes], Iterable[bytes]]) -> None:
    with connection, contextlib.suppress(OSError):
        for part in answer(connection.recv(65_536)):
            connection.sendall(part)
