"""Which faults may pass by themselves, and what Retry-After asks for."""

import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import aiohttp
import httpx
import openai
import pytest
import requests

from retrievers.net.faults import headers_of, is_transient, is_untrusted, retry_after_s, status_of, timed_out


class Answered(Exception):
    def __init__(self, status_code: int | None) -> None:
        self.status_code = status_code


def because(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def answered_requests(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    response.headers["Retry-After"] = "7"
    return requests.HTTPError("answered", response=response)


REQUEST: Any = httpx.Request("GET", "http://127.0.0.1")  # the SDK may want that of another version
REFUSED: Any = httpx.Response(400, request=REQUEST)
BUSY: Any = httpx.Response(503, request=REQUEST)


@pytest.mark.parametrize(
    ("status", "transient"),
    [(code, code in (429, 500, 502, 503, 504)) for code in (200, 400, 401, 403, 404, 409, 422, 429)]
    + [(code, code in (500, 502, 503, 504)) for code in (500, 501, 502, 503, 504, 505)]
    + [(None, False)],
)
def test_statuses(status: int | None, transient: bool) -> None:
    assert is_transient(Answered(status)) is transient


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (httpx.ReadTimeout("x"), True),
        (httpx.ConnectTimeout("x"), True),
        (httpx.WriteTimeout("x"), True),
        (httpx.PoolTimeout("x"), True),
        (httpx.ConnectError("refused"), True),
        (httpx.ReadError("reset"), True),
        (httpx.WriteError("broken pipe"), True),
        (httpx.RemoteProtocolError("disconnected"), True),
        (httpx.UnsupportedProtocol("ftp"), False),
        (httpx.LocalProtocolError("header"), False),
        (httpx.TooManyRedirects("x"), False),
        (httpx.DecodingError("gzip"), False),
        (because(httpx.ConnectError("tls"), ssl.SSLCertVerificationError("self-signed")), False),
        (because(httpx.ConnectError("tls"), ssl.SSLError("wrong version number")), False),
        (because(httpx.ConnectError("tls"), ssl.SSLEOFError("EOF")), True),
        (because(httpx.ConnectError("dns"), socket.gaierror(socket.EAI_NONAME, "unknown")), False),
        (because(httpx.ConnectError("dns"), socket.gaierror(socket.EAI_AGAIN, "later")), True),
        (ConnectionResetError("of no HTTP library"), True),
        (BrokenPipeError("of no HTTP library"), True),
        (TimeoutError("of no HTTP library"), True),
        (FileNotFoundError("no file"), False),
        (PermissionError("not allowed"), False),
        (requests.ConnectionError("refused"), True),
        (requests.ReadTimeout("x"), True),
        (requests.ConnectTimeout("x"), True),
        (because(requests.exceptions.SSLError("tls"), ssl.SSLCertVerificationError("self-signed")), False),
        (requests.exceptions.MissingSchema("no scheme"), False),
        (requests.exceptions.InvalidURL("bad"), False),
        (answered_requests(503), True),
        (answered_requests(404), False),
        (aiohttp.ServerDisconnectedError(), True),
        (aiohttp.ServerTimeoutError(), True),
        (aiohttp.ClientOSError(104, "reset"), True),
        (aiohttp.InvalidURL("bad"), False),
        (aiohttp.ClientResponseError(REQUEST, (), status=429), True),
        (aiohttp.ClientResponseError(REQUEST, (), status=401), False),
        (openai.APIConnectionError(request=REQUEST), True),
        (openai.APITimeoutError(request=REQUEST), True),
        (because(openai.APIConnectionError(request=REQUEST), ssl.SSLCertVerificationError("self-signed")), False),
        (openai.InternalServerError("x", response=BUSY, body=None), True),
        (openai.BadRequestError("x", response=REFUSED, body=None), False),
        (because(ValueError("a wrapper"), requests.ConnectionError("refused")), True),
        (because(ValueError("a wrapper"), answered_requests(400)), False),
        (because(answered_requests(400), ConnectionResetError("before")), False),
        (ValueError("x"), False),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_errors_without_an_answer(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient


def test_a_refused_certificate_and_a_timeout_are_known() -> None:
    refused = because(httpx.ConnectError("tls"), ssl.SSLCertVerificationError("self-signed"))
    assert (is_untrusted(refused), is_untrusted(httpx.ConnectError("x"))) == (True, False)
    assert (timed_out(httpx.ReadTimeout("x")), timed_out(httpx.ReadError("x"))) == (True, False)


@pytest.mark.parametrize(
    ("error", "late"),
    [
        (requests.ReadTimeout("x"), True),
        (requests.ConnectionError("x"), False),
        (aiohttp.ServerTimeoutError(), True),
        (openai.APITimeoutError(request=REQUEST), True),
        (openai.APIConnectionError(request=REQUEST), False),
        (because(ValueError("a wrapper"), TimeoutError()), True),
        (because(httpx.ConnectError("x"), TimeoutError()), False),
        (because(answered_requests(504), TimeoutError()), False),
    ],
    ids=repr,
)
def test_timeouts_of_other_libraries(error: Exception, late: bool) -> None:
    assert timed_out(error) is late


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_what_requests_raises(silent_port: int) -> None:
    with pytest.raises(requests.RequestException) as late:
        requests.get(f"http://127.0.0.1:{silent_port}", timeout=0.1)
    assert (is_transient(late.value), timed_out(late.value)) == (True, True)
    with pytest.raises(requests.RequestException) as refused:
        requests.get("http://127.0.0.1:1", timeout=5)
    assert (is_transient(refused.value), timed_out(refused.value)) == (True, False)


def test_what_openai_raises(silent_port: int) -> None:
    with openai.OpenAI(api_key="k", base_url=f"http://127.0.0.1:{silent_port}", timeout=0.1, max_retries=0) as client:
        with pytest.raises(openai.OpenAIError) as late:
            client.models.list()
    assert (is_transient(late.value), timed_out(late.value)) == (True, True)
    with openai.OpenAI(api_key="k", base_url="http://127.0.0.1:1", timeout=5, max_retries=0) as client:
        with pytest.raises(openai.OpenAIError) as refused:
            client.models.list()
    assert (is_transient(refused.value), timed_out(refused.value)) == (True, False)


def test_the_headers_are_those_of_the_error_or_of_its_response() -> None:
    assert retry_after_s(headers_of(answered_requests(429))) == 7
    assert headers_of(ValueError("x")) is None


def test_errors_that_cause_each_other_end() -> None:
    one, other = httpx.ConnectError("a"), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    assert is_transient(one)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"RETRY-AFTER": "0"}, 0),
        (httpx.Headers({"Retry-After": "7"}), 7),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "Thu, 99 Foo 2026 00:00:00 GMT"}, None),
        ({"Other": "7"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_retry_after_in_seconds(headers: object, seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


def test_retry_after_as_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    assert retry_after_s({"Retry-After": formatdate(1_000_030, usegmt=True)}) == pytest.approx(30)
    assert retry_after_s({"Retry-After": formatdate(1_000_030)}) == pytest.approx(30)  # -0000: no zone named


class ClientError(Exception):
    """As botocore's: the answer is a mapping."""

    def __init__(self, response: object) -> None:
        self.response = response


def test_the_status_of_an_error_of_aws_is_that_of_its_answer() -> None:
    error = ClientError({"ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "3"}}})
    assert (status_of(error), is_transient(error), retry_after_s(headers_of(error))) == (429, True, 3.0)
    for response in ({}, {"ResponseMetadata": None}):
        assert (status_of(ClientError(response)), headers_of(ClientError(response))) == (None, None)
