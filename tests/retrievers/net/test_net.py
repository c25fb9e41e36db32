"""Requests: which faults may pass, how long they are repeated, by a clock of our own; and answers that fit."""

import gzip
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import aiohttp
import httpx
import openai
import pytest
import requests

from retrievers.errors import RetrievalError, StoreError
from retrievers.net import TooLargeError, exchange
from retrievers.net.faults import cause, headers_of, is_transient, retry_after_s, timed_out
from retrievers.net.retry import attempt, patient, working_time
from tests.support.clock import Clock
from tests.support.raw_server import HEAD, drip, flood, raw_server

# Faults


def because(error: Exception, origin: Exception) -> Exception:
    error.__cause__ = origin
    return error


def answered(status: int, **headers: str) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    return requests.HTTPError("answered", response=response)


REQUEST: Any = httpx.Request("GET", "http://127.0.0.1")  # the SDK may want that of another version
BUSY: Any = httpx.Response(503, request=REQUEST)
REFUSED: Any = httpx.Response(400, request=REQUEST)
UNTRUSTED = ssl.SSLCertVerificationError("self-signed")
NO, PASSES, LATE = (False, False), (True, False), (True, True)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((answered(code), PASSES) for code in (429, 500, 502, 503, 504)),
        *((answered(code), NO) for code in (400, 401, 403, 404, 409, 422, 501)),
        (httpx.ReadTimeout("x"), LATE),
        (httpx.ConnectError("refused"), PASSES),
        (httpx.RemoteProtocolError("disconnected"), PASSES),
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
        (openai.APIConnectionError(request=REQUEST), PASSES),
        (openai.APITimeoutError(request=REQUEST), LATE),
        (openai.InternalServerError("x", response=BUSY, body=None), PASSES),
        (openai.BadRequestError("x", response=REFUSED, body=None), NO),
        (because(ValueError("a wrapper"), requests.ConnectionError("refused")), PASSES),
        (because(ValueError("a wrapper"), answered(400)), NO),
        (because(answered(400), ConnectionResetError("before")), NO),
        (ValueError("x"), NO),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_fault_may_pass_and_may_be_a_timeout(error: Exception, kind: tuple[bool, bool]) -> None:
    assert (is_transient(error), timed_out(error)) == kind


def test_errors_that_cause_each_other_are_known() -> None:
    one, other = httpx.ConnectError("a"), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    assert is_transient(one)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (headers_of(answered(429, **{"Retry-After": "7"})), 7),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"RETRY-AFTER": "0"}, 0),
        *(
            ({"Retry-After": value}, None)
            for value in ("-3", "nan", "inf", "soon", "", "Thu, 01 Jan 1970 00:00:00 GMT")
        ),
        ({"Other": "7"}, None),
        (headers_of(ValueError("x")), None),
    ],
)
def test_retry_after_is_read_in_seconds(headers: object, seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (answered(401), "HTTPError, status 401, the API key was refused"),
        (answered(200), "HTTPError, status 200, the answer is not the provider's; is embedding.base_url right?"),
        (httpx.ReadTimeout(""), "ReadTimeout, no answer in time"),
        (ValueError("one\ntwo"), "ValueError, one"),
        (openai.BadRequestError("", response=REFUSED, body={"message": "long"}), "BadRequestError, status 400, long"),
    ],
)  # fmt: skip
def test_a_providers_error_is_one_line(error: Exception, said: str) -> None:
    assert cause(error) == said


# Retries


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().rules(monkeypatch)


class Action:
    """Takes `lasts` seconds and raises `faults` one after another, the last one again and again; None is a success."""

    def __init__(self, clock: Clock, faults: Sequence[StoreError | None], lasts: float = 0) -> None:
        self.clock, self.faults, self.lasts, self.calls = clock, faults, lasts, 0

    def __call__(self) -> str:
        self.clock.pass_by(self.lasts)
        fault = self.faults[min(self.calls, len(self.faults) - 1)]
        self.calls += 1
        if fault is not None:
            raise type(fault)(str(fault)).marked(transient=fault.transient, retry_after_s=fault.retry_after_s)
        return "done"


def asking(seconds: float) -> StoreError:
    return StoreError("busy").marked(transient=True, retry_after_s=seconds)


PASSING, LASTING = StoreError("busy").marked(transient=True), StoreError("refused")


def tried(action: Callable[[], str], *, retried: bool = True) -> str:
    return attempt(action, name="store", retried=retried)


@pytest.mark.parametrize(
    ("faults", "share", "waits"),
    [
        *(([PASSING] * failures, 0, [0.25, 0.5, 1, 2, 2][:failures]) for failures in (0, 1, 5)),
        ([PASSING] * 5, 1, [0.5, 0.75, 1.25, 2, 2]),  # a random part is added to each wait
        *(([asking(s)], 0, [max(s, 0.25)]) for s in (0, 0.001, 1, 5)),  # who asks to wait is waited for, not pestered
    ],
)
def test_what_passes_in_time_is_a_success(
    clock: Clock, faults: list[StoreError], share: float, waits: list[float]
) -> None:
    clock.share = share
    assert tried(Action(clock, [*faults, None])) == "done"
    assert clock.waits == waits


@pytest.mark.parametrize(
    ("run_s", "faults", "lasts", "calls", "said"),
    [
        (None, [PASSING], 0.25, 5, "busy (5 attempts in 5.0 s)"),  # an application's search tries for five seconds
        (None, [PASSING], 5, 1, "busy"),  # one request took all the time
        (None, [LASTING], 0, 1, "refused"),
        (None, [PASSING, LASTING], 0, 2, "refused (2 attempts in 0.2 s)"),
        (None, [asking(7), None], 0, 1, "busy (asked to wait 7 s, more than 5 s)"),
        (60, [asking(61), None], 0, 1, "busy (asked to wait 61 s, more than 60 s (store.wait_s))"),
        (60, [PASSING], 0, 34, "busy (34 attempts in 61.8 s)"),
        (0, [PASSING], 0, 1, "busy"),
    ],
)
def test_the_last_error_says_how_often_and_how_long(
    clock: Clock, run_s: float | None, faults: list[StoreError | None], lasts: float, calls: int, said: str
) -> None:
    action = Action(clock, faults, lasts)
    with nullcontext() if run_s is None else patient(run_s), pytest.raises(StoreError) as caught:
        tried(action)
    assert (str(caught.value), action.calls) == (said, calls)
    assert (caught.value.attempts, caught.value.stage) == (calls, "store")


def test_what_may_not_be_repeated_or_is_no_error_of_ours_is_tried_once_and_its_cause_kept(clock: Clock) -> None:
    action = Action(clock, [PASSING, None])
    with patient(60), pytest.raises(StoreError, match=r"^busy$"):
        tried(action, retried=False)
    for error in (ZeroDivisionError(), because(StoreError("away"), TimeoutError("no answer"))):
        with pytest.raises(type(error)) as caught:
            tried(Mock(side_effect=error))
        assert caught.value is error
    assert (action.calls, clock.waits) == (1, [])


def test_a_run_outlives_a_store_that_restarts_and_says_so_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    back = clock.time + 50

    def restarted() -> str:
        if clock.time < back:
            raise StoreError("gone").marked(transient=True)
        return "done"

    with patient(60):
        assert tried(restarted) == tried(Action(clock, [asking(7), None])) == "done"
    restart, asked = caplog.messages
    assert restart == "store: trying again for up to 60 s (store.wait_s): gone"
    assert asked == "store: waiting 7 s, as asked: busy"


def test_what_a_run_waited_is_no_latency() -> None:
    faults: Iterator[RetrievalError | None] = iter([PASSING, PASSING, None])

    def action() -> str:
        time.sleep(0.05)
        if fault := next(faults):
            raise StoreError("gone").marked(transient=fault.transient)
        return "done"

    before, began = working_time(), time.perf_counter()
    with patient(60):
        tried(action)
    assert 0.05 <= working_time() - before <= time.perf_counter() - began - 0.1, "of three calls one"


# Answers

BOMB = gzip.compress(b" " * 50_000_000)


def ask(host: str, timeout_s: float = 5.0) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        request = client.build_request("GET", f"http://{host}/")
        return exchange(client, request, timeout_s=timeout_s, most_bytes=1_000_000)


def test_an_answer_is_what_was_sent_unpacked() -> None:
    packed = gzip.compress(b'{"a": 1}')
    head = b"HTTP/1.1 418 Short\r\nContent-Encoding: gzip\r\nRetry-After: 3\r\n"
    with raw_server(lambda _: [head + b"Content-Length: %d\r\n\r\n" % len(packed) + packed]) as host:
        response = ask(host)
    assert (response.status_code, response.reason_phrase, response.json()) == (418, "I'm a teapot", {"a": 1})
    assert (response.headers["retry-after"], response.headers["content-length"]) == ("3", "8")


def test_a_drip_ends_at_the_deadline() -> None:
    with raw_server(lambda _: drip(HEAD + b"\r\n")) as host, pytest.raises(httpx.ReadTimeout):
        ask(host, timeout_s=0.3)


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
