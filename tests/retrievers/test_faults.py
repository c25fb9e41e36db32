"""Which faults may pass by themselves, and what Retry-After asks for."""

import socket
import ssl
import time
from email.utils import formatdate

import httpx
import pytest

from retrievers.faults import is_transient, is_untrusted, retry_after_s, timed_out


class Answered(Exception):
    def __init__(self, status_code: int | None) -> None:
        self.status_code = status_code


def because(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


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
        (ConnectionError("not of an HTTP library"), False),
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
