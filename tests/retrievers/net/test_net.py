"""Requests: faults of libraries that the table of clients has not, how long they are repeated, answers that fit.

`tests/faults/test_clients.py` has the faults of the clients that are installed with the project.
"""

import gzip
import socket
import ssl
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import aiohttp
import httpx
import pytest
import requests

from retrievers.errors import StoreError
from retrievers.net import (
    TooLargeError,
    attempt,
    exchange,
    headers_of,
    is_transient,
    patient,
    retry_after_s,
    timed_out,
    working_time,
)
from tests.support.clock import Clock
from tests.support.loopback import HEAD, raw_server


def because(error: Exception, origin: Exception) -> Exception:
    error.__cause__ = origin
    return error


def answered(status: int, **headers: str) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    return requests.HTTPError("answered", response=response)


REQUEST: Any = httpx.Request("GET", "http://127.0.0.1")  # the SDK may want that of another version
UNTRUSTED = ssl.SSLCertVerificationError("self-signed")
ENDLESS = ValueError("a")
ENDLESS.__cause__ = because(httpx.ConnectError("b"), ENDLESS)
NO, PASSES, LATE = (False, False), (True, False), (True, True)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((answered(code), PASSES) for code in (429, 503, 504)),
        *((answered(code), NO) for code in (400, 409, 422, 501)),
        (httpx.UnsupportedProtocol("ftp"), NO),
        (because(httpx.ConnectError("tls"), UNTRUSTED), NO),
        (because(httpx.ConnectError("tls"), ssl.SSLEOFError("EOF")), PASSES),
        (because(httpx.ConnectError("dns"), socket.gaierror(socket.EAI_NONAME, "unknown")), NO),
        (because(httpx.ConnectError("dns"), socket.gaierror(socket.EAI_AGAIN, "later")), PASSES),
        (ConnectionResetError("of no HTTP library"), PASSES),
        (TimeoutError("of no HTTP library"), LATE),
        (requests.ConnectionError("refused"), PASSES),
        (requests.ReadTimeout("x"), LATE),
        (aiohttp.ServerDisconnectedError(), PASSES),
        (aiohttp.ServerTimeoutError(), LATE),
        (aiohttp.ClientResponseError(REQUEST, (), status=429), PASSES),
        (because(ValueError("a wrapper"), requests.ConnectionError("refused")), PASSES),
        (because(ValueError("a wrapper"), answered(400)), NO),
        (because(answered(400), ConnectionResetError("before")), NO),
        (ENDLESS, PASSES),
        (ValueError("x"), NO),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_fault_may_pass_and_may_be_a_timeout(error: Exception, kind: tuple[bool, bool]) -> None:
    assert (is_transient(error), timed_out(error)) == kind


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), (" 0.5 ", 0.5), *((no, None) for no in ("-3", "nan", "inf", "", "Thu, 01 Jan 1970 00:00:00 GMT"))],
)
def test_retry_after_is_read_in_seconds_by_any_case_of_its_name(value: str, seconds: float | None) -> None:
    assert retry_after_s({"RETRY-AFTER": value}) == seconds
    assert retry_after_s(headers_of(answered(429, **{"Retry-After": value}))) == seconds
    assert retry_after_s({"Other": value}) is None is retry_after_s(headers_of(ValueError(value)))


# Retries


def action(clock: Clock, faults: Sequence[StoreError | None], lasts: float = 0) -> Mock:
    """Return what takes `lasts` seconds and raises the faults in turn, the last again and again; None succeeds."""
    left = iter(faults)

    def act() -> str:
        clock.pass_by(lasts)
        if (fault := next(left, faults[-1])) is not None:
            raise type(fault)(str(fault)).marked(transient=fault.transient, retry_after_s=fault.retry_after_s)
        return "done"

    return Mock(side_effect=act)


def asking(seconds: float) -> StoreError:
    return StoreError("busy").marked(transient=True, retry_after_s=seconds)


PASSING, LASTING = StoreError("busy").marked(transient=True), StoreError("refused")


@pytest.mark.parametrize(
    ("faults", "share", "waits"),
    [
        ([PASSING] * 5, 1, [0.5, 0.75, 1.25, 2, 2]),  # a random part is added to each wait
        *(([asking(s)], 0, [max(s, 0.25)]) for s in (0, 0.001, 5)),  # who asks to wait is waited for, not pestered
    ],
)
def test_what_passes_in_time_is_a_success(
    clock: Clock, faults: list[StoreError], share: float, waits: list[float]
) -> None:
    clock.share = share
    assert attempt(action(clock, [*faults, None]), name="store") == "done"
    assert clock.waits == waits


@pytest.mark.parametrize(
    ("run_s", "faults", "lasts", "calls", "said"),
    [
        (None, [PASSING], 0.25, 5, "busy (5 attempts in 5.0 s)"),  # an application's search tries for five seconds
        (None, [PASSING], 5, 1, "busy"),  # one request took all the time
        (None, [PASSING, LASTING], 0, 2, "refused (2 attempts in 0.2 s)"),
        (0, [PASSING], 0, 1, "busy"),
    ],
)
def test_the_last_error_says_how_often_and_how_long(
    clock: Clock, run_s: float | None, faults: list[StoreError | None], lasts: float, calls: int, said: str
) -> None:
    asked = action(clock, faults, lasts)
    with nullcontext() if run_s is None else patient(run_s), pytest.raises(StoreError) as caught:
        attempt(asked, name="store")
    assert (str(caught.value), asked.call_count) == (said, calls)


def test_what_may_not_be_repeated_or_is_no_error_of_ours_is_tried_once_and_its_cause_kept(clock: Clock) -> None:
    once = action(clock, [PASSING, None])
    with patient(60), pytest.raises(StoreError, match=r"^busy$"):
        attempt(once, name="store", retried=False)
    for error in (ZeroDivisionError(), because(StoreError("away"), TimeoutError("no answer"))):
        with pytest.raises(type(error)) as caught:
            attempt(Mock(side_effect=error), name="store")
        assert caught.value is error
    assert (once.call_count, clock.waits) == (1, [])


def test_a_run_outlives_a_store_that_restarts_says_so_once_and_counts_no_failed_attempt_as_latency(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = SimpleNamespace(monotonic=clock.now, perf_counter=clock.now)
    monkeypatch.setattr("retrievers.net.time", told)
    before = working_time()
    with patient(60):
        attempt(action(clock, [PASSING] * 20 + [None], lasts=0.5), name="store")
        assert working_time() - before == pytest.approx(0.5), "of all requests the last alone"
        attempt(action(clock, [asking(7), None]), name="store")
    assert caplog.messages == [
        "store: trying again for up to 60 s: busy",
        "store: waiting 7 s, as asked: busy",
    ]


# Answers; `tests/evals/cases/test_relevance.py` has those without an end


def ask(head: bytes, content: bytes) -> httpx.Response:
    """Ask for an answer of at most a megabyte, which is packed."""
    packed = gzip.compress(content)
    whole = head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    with raw_server(lambda _: [whole]) as host, httpx.Client(trust_env=False) as client:
        request = client.build_request("GET", f"http://{host}/")
        return exchange(client, request, timeout_s=5, most_bytes=1_000_000)


def test_an_answer_is_what_was_sent_unpacked_if_that_is_not_too_large() -> None:
    response = ask(b"HTTP/1.1 418 Short\r\nRetry-After: 3\r\n", b'{"a": 1}')
    assert (response.status_code, response.reason_phrase, response.json()) == (418, "I'm a teapot", {"a": 1})
    assert (response.headers["retry-after"], response.headers["content-length"]) == ("3", "8")
    with pytest.raises(TooLargeError, match="more than 1,000,000"):
        ask(HEAD, b" " * 50_000_000)
