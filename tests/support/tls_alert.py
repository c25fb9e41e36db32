"""A server that speaks TLS, to a client that does not: the alert by which it says so."""

import socket
from threading import Thread
from typing import Self


class TlsAlert:
    """Answers every connection on the loopback with a fatal alert of TLS; a context manager."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        """Its address, as a user would wrongly write it."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # it was closed
                return
            with connection:
                connection.recv(65536)
                connection.sendall(b"\x15\x03\x03\x00\x02\x02\x46")
