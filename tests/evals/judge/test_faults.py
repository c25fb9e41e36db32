from typing import Any

import httpx
import pytest
from cohere.core.api_error import ApiError
from cohere.errors import TooManyRequestsError, UnauthorizedError
from openai import APIConnectionError, APIStatusError, APITimeoutError, RateLimitError

from evals.judge.faults import read_fault, rejects_structure, status_of

REQUEST: Any = httpx.Request("POST", "http://localhost/v1")


def openai_error(status: int, kind: type[APIStatusError] = APIStatusError, **headers: str) -> APIStatusError:
    response: Any = httpx.Response(status, request=REQUEST, headers=headers)
    return kind("said", response=response, body=None)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TooManyRequestsError(body={}), "rate_limit"),
        (openai_error(429, RateLimitError), "rate_limit"),
        (UnauthorizedError(body={}), "hopeless"),
        (openai_error(401), "hopeless"),
        (openai_error(402), "hopeless"),
        (openai_error(403), "hopeless"),
        (openai_error(404), "hopeless"),
        (openai_error(400), "refused"),
        (openai_error(422), "refused"),
        (ValueError("something of ours"), "refused"),
        (ApiError(status_code=200, body="<html>"), "refused"),
        (ApiError(status_code=500, body="<html>"), "transient"),
        (openai_error(502), "transient"),
        (openai_error(529), "transient"),
        (openai_error(408), "transient"),
        (httpx.ConnectError("refused"), "transient"),
        (httpx.RemoteProtocolError("dropped"), "transient"),
        (httpx.ReadTimeout("slow"), "transient"),
        (APIConnectionError(request=REQUEST), "refused"),
        (caused(APIConnectionError(request=REQUEST), httpx.ConnectError("refused")), "transient"),
        (caused(APITimeoutError(request=REQUEST), httpx.ReadTimeout("slow")), "transient"),
        (ConnectionRefusedError("refused"), "transient"),
        (TimeoutError(), "transient"),
    ],
)
def test_what_may_pass_is_told_from_what_will_not(error: Exception, kind: str) -> None:
    assert read_fault(error).kind == kind


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (TooManyRequestsError(body={}, headers={"Retry-After": "7"}), 7.0),
        (openai_error(429, RateLimitError, **{"retry-after": "1.5"}), 1.5),
        (TooManyRequestsError(body={}, headers={}), None),
        (TooManyRequestsError(body={}), None),
        (openai_error(429, RateLimitError), None),
    ],
)
def test_the_time_that_a_server_asks_for_is_read(error: Exception, seconds: float | None) -> None:
    assert read_fault(error).retry_after_s == seconds


def test_a_message_names_type_status_and_remedy_in_one_line() -> None:
    assert read_fault(openai_error(401)).message == (
        "APIStatusError, status 401, the API key was refused; check the variable that judge.api_key_env names"
    )
    assert read_fault(httpx.ReadTimeout("slow")).message.endswith("judge.timeout_s sets how long to wait")
    assert read_fault(httpx.ReadTimeout("slow")).type == "Timeout"
    assert "\n" not in read_fault(ValueError("two\nlines")).message
    assert len(read_fault(ValueError("x" * 9_000)).message) < 400


def test_secrets_do_not_get_into_a_message() -> None:
    said = read_fault(ValueError("refused Bearer sk-abcdefghijklmnopqrstuvwxyz012345")).message
    assert "abcdefghijklmnop" not in said


def test_a_status_is_found_in_what_an_error_came_from() -> None:
    assert status_of(caused(RuntimeError("wrapped"), openai_error(503))) == 503
    assert status_of(ValueError()) is None


@pytest.mark.parametrize(
    ("said", "status", "rejected"),
    [
        ("response_format is not supported by this model", 400, True),
        ("unknown field json_schema", 422, True),
        ("response_format is not supported", 500, False),
        ("the prompt is too long", 400, False),
    ],
)
def test_a_refused_request_for_json_is_told_from_other_refusals(said: str, status: int, rejected: bool) -> None:
    response: Any = httpx.Response(status, request=REQUEST)
    assert rejects_structure(APIStatusError(said, response=response, body=None)) is rejected
