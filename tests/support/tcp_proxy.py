"""A way to a server that can be cut and opened again, as when it restarts."""

import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Self


class TcpProxy:
    """Passes connections to a port of this machine on to a server; a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = Lock()
        self._cut = False
        self._thread = Thread(target=self._serve, daemon=True)

    @property
    def port(self) -> int:
        number: int = self._listener.getsockname()[1]
        return number

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join()

    def cut(self) -> None:
        """Break every connection, and let none through from now on."""
        with self._lock:
            self._cut = True
            for one in self._open:
                _close(one)
            self._open.clear()

    def restore(self) -> None:
        """Let connections through again."""
        self._cut = False

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            with self._lock:
                if self._cut:
                    _close(client)
                    continue
                server = socket.create_connection(self._target)
                self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    _close(source)
    _close(sink)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
