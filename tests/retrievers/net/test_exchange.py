import gzip
import time
from collections.abc import Callable, Iterable

import httpx
import pytest

from retrievers.net import TooLargeError, exchange
from tests.support.raw_server import HEAD, drip, flood, raw_server

BODY = b'{"a": 1}'
BOMB = gzip.compress(b" " * 50_000_000)


def ask(host: str, timeout_s: float = 5.0, most_bytes: int = 1_000_000) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return exchange(
            client, client.build_request("GET", f"http://{host}/"), timeout_s=timeout_s, most_bytes=most_bytes
        )


def test_an_answer_is_what_was_sent_unpacked() -> None:
    packed = gzip.compress(BODY)
    head = b"HTTP/1.1 418 Short and stout\r\nContent-Encoding: gzip\r\nRetry-After: 3\r\n"
    with raw_server(lambda _: [head + b"Content-Length: %d\r\n\r\n" % len(packed) + packed]) as host:
        response = ask(host)
    assert (response.status_code, response.reason_phrase, response.json()) == (418, "Short and stout", {"a": 1})
    assert (response.headers["retry-after"], response.headers["content-length"]) == ("3", str(len(BODY)))


@pytest.mark.parametrize(
    "begun",
    [HEAD + b"Content-Length: 1000000\r\n\r\n", HEAD + b"\r\n"],
    ids=["body", "without length"],
)
def test_a_drip_ends_at_the_deadline(begun: bytes) -> None:
    with raw_server(lambda _: drip(begun)) as host:
        start = time.monotonic()
        with pytest.raises(httpx.ReadTimeout):
            ask(host, timeout_s=0.3)
        assert 0.2 < time.monotonic() - start < 2


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: flood(HEAD + b"\r\n"),
        lambda _: flood(HEAD + b"Content-Length: 10000000000\r\n\r\n"),
        lambda _: [HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB],
    ],
    ids=["without length", "announced", "packed"],
)
def test_an_answer_too_large_is_not_read(answer: Callable[[bytes], Iterable[bytes]]) -> None:
    with raw_server(answer) as host, pytest.raises(TooLargeError, match="more than 1,000,000"):
        ask(host)
