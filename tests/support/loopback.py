"""What the loopback servers share: HTTP on a free port of 127.0.0.1, faults on demand, a record of requests.

Beside them a server of bytes, for answers that no HTTP library would send, and certificates for one that speaks TLS.
"""

import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler
from threading import Event, Lock, Thread
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from werkzeug.serving import make_ssl_devcert


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Answer of which a part is `sent` before the connection is reset; less than 0: not even its head."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: float = 1.0

    @classmethod
    def json(cls, value: Any, status: int = 200, **headers: str) -> "Reply":
        return cls(status=status, body=json.dumps(value).encode(), headers=headers)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A reply to give in place of the right one, `times` times (None: always), where the path ends with `on`.

    `slow` keeps the client waiting until the server stops; `reset` breaks the connection before the answer, `torn` in
    the middle of it.
    """

    reply: Reply | None = None
    slow: bool = False
    reset: bool = False
    torn: bool = False
    on: str = ""
    times: int | None = None


class LoopbackServer:
    """A server in a thread; a context manager. Requests are recorded before they are answered."""

    keeps_alive = False
    """No client is left with an open socket where connections do not stay open."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.fault: Fault | None = None
        self._lock = Lock()
        self._released = Event()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._scheme = "https" if tls else "http"
        if tls:
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
            )
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None
            self.release()

    def wait(self) -> None:
        self._released.wait(30)

    def release(self) -> None:
        self._released.set()
        self._released = Event()

    def handle(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            fault = self._due(request)
        if fault is None:
            return self.answer(request)
        if fault.slow:
            self.wait()
        if fault.reset or fault.torn:
            return replace(self.answer(request), sent=0.5 if fault.torn else -1.0)
        return fault.reply or Reply(status=503)

    def answer(self, request: Request) -> Reply:
        return Reply.json({"message": f"no such path {request.path}"}, 404)

    def _due(self, request: Request) -> Fault | None:
        fault = self.fault
        if fault is None or not request.path.endswith(fault.on):
            return None
        if fault.times is not None:
            left = fault.times - 1
            self.fault = None if left == 0 else replace(fault, times=left)
        return fault


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with the usual 5, a burst of connections loses some and waits a second for each
    owner: LoopbackServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that gave up waiting: it is part of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        self.close_connection = True
        if len(raw) < length:  # the client died before it had asked
            return
        request = Request(
            method=self.command,
            path=unquote(urlsplit(self.path).path),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=json.loads(raw) if raw else None,
        )
        reply = self.server.owner.handle(request)
        if reply.sent < 0:
            return self._reset()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.close_connection = not self.server.owner.keeps_alive
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body[: int(len(reply.body) * reply.sent)])
        if reply.sent < 1:
            self._reset()

    def _reset(self) -> None:
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing on standard error."""


# Bytes

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def raw_server(answer: Callable[[bytes], Iterable[bytes]]) -> Iterator[str]:
    """Answer each connection's first bytes with others, until the client leaves; yields host and port."""

    class Answering(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                for part in answer(self.request.recv(65_536)):
                    self.request.sendall(part)

    with _Http(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def drip(head: bytes, every_s: float = 0.05) -> Iterator[bytes]:
    yield head
    while True:
        time.sleep(every_s)
        yield b"x"


# TLS


def certified(folder: Path, host: str = "localhost") -> tuple[str, ssl.SSLContext]:
    """Return the file of a certificate that is an authority of its own, and the context of a server that has it."""
    file, key = make_ssl_devcert(str(folder / host), host=host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return file, context
