"""One deadline for everything that a request sends and receives.

The timeouts of httpx bound each wait for the next bytes, so a server that sends a byte a second keeps a client for as
long as it likes, in the head of its answer too. Below, every such wait is cut to the time left until the deadline.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from ssl import SSLContext
from typing import Any

import httpcore
import httpx

_ends: ContextVar[float] = ContextVar("retrievers.net", default=math.inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End operations of `bounded` clients in the block after at most `seconds`, with httpx's `ReadTimeout`."""
    token = _ends.set(min(_ends.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def bounded(client: httpx.Client) -> httpx.Client:
    """Make the client keep to the deadlines of `within`, directly and through proxies."""
    for transport in (client._transport, *client._mounts.values()):
        # httpx has no public parameter for a network backend.
        pool = getattr(transport, "_pool", None)
        if pool is not None:
            # The SDK of OpenAI brings successors of httpx and httpcore, which have the same classes.
            core = import_module(type(pool).__module__.partition(".")[0])
            pool._network_backend = _Network(pool._network_backend, core.ReadTimeout)
    return client


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    left = _ends.get() - time.monotonic()
    if left <= 0:
        raise late("the deadline has passed")
    return timeout if left == math.inf else min(left, math.inf if timeout is None else timeout)


class _Network(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend, late: type[Exception]) -> None:
        self._inner = inner
        self._late = late

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(
            self._inner.connect_tcp(host, port, _left(timeout, self._late), local_address, socket_options), self._late
        )

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.connect_unix_socket(path, _left(timeout, self._late), socket_options), self._late)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, late: type[Exception]) -> None:
        self._inner = inner
        self._late = late
        self.close = inner.close  # type: ignore[method-assign]
        self.get_extra_info = inner.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout, self._late))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(timeout, self._late))

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout, self._late)), self._late)
