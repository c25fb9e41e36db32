import socket
from json import JSONDecodeError
from typing import Any

import httpx
import httpx2
import pytest
from cohere.core.api_error import ApiError
from cohere.errors import InternalServerError, NotFoundError, TooManyRequestsError, UnauthorizedError
from openai import APIConnectionError, APIStatusError, APITimeoutError, RateLimitError

from evals.judge.faults import read_fault, rejects_structure, status_of

REQUEST: Any = httpx.Request("POST", "http://localhost/v1")


def openai_error(
    status: int, kind: type[APIStatusError] = APIStatusError, body: object = None, **headers: str
) -> APIStatusError:
    response: Any = httpx.Response(status, request=REQUEST, headers=headers)
    return kind("said", response=response, body=body)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TooManyRequestsError(body={}), "limited"),
        (openai_error(429, RateLimitError), "limited"),
        (UnauthorizedError(body={}), "hopeless"),
        (openai_error(401), "hopeless"),
        (openai_error(402), "hopeless"),
        (openai_error(403), "hopeless"),
        (openai_error(404), "hopeless"),
        (openai_error(400), "refused"),
        (openai_error(422), "refused"),
        (RuntimeError("something of ours"), "refused"),
        (ApiError(status_code=200, body="<html>"), "passing"),
        (JSONDecodeError("torn", "{", 1), "passing"),
        (AttributeError("'str' object has no attribute 'choices'"), "passing"),
        (openai_error(429, RateLimitError, {"code": "insufficient_quota"}), "hopeless"),
        (caused(httpx.ConnectError("?"), socket.gaierror(socket.EAI_NONAME, "?")), "hopeless"),
        (caused(httpx.ConnectError("?"), socket.gaierror(socket.EAI_AGAIN, "?")), "passing"),
        (httpx2.ConnectError("refused"), "passing"),
        (httpx2.RemoteProtocolError("dropped"), "passing"),
        (ApiError(status_code=500, body="<html>"), "passing"),
        (openai_error(502), "passing"),
        (openai_error(529), "passing"),
        (openai_error(408), "passing"),
        (httpx.ConnectError("refused"), "passing"),
        (httpx.RemoteProtocolError("dropped"), "passing"),
        (httpx.ReadTimeout("slow"), "passing"),
        (APIConnectionError(request=REQUEST), "passing"),
        (caused(APIConnectionError(request=REQUEST), httpx.ConnectError("refused")), "passing"),
        (caused(APITimeoutError(request=REQUEST), httpx.ReadTimeout("slow")), "passing"),
        (ConnectionRefusedError("refused"), "passing"),
        (TimeoutError(), "passing"),
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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (openai_error(401), "APIStatusError, status 401, the API key was refused; check the variable that "
                            "judge.api_key_env names"),
        (UnauthorizedError(body={"message": "no such key: sk-1"}), "judge.api_key_env names"),
        (NotFoundError(body={"message": "model 'x' not found"}, headers={"server": "s"}),
         "NotFoundError, status 404, no such model, or judge.base_url is wrong (model 'x' not found)"),
        (InternalServerError(body={"message": "boom"}, headers={"server": "s"}), "Error, status 500, boom"),
        (ApiError(status_code=502, body="<html><h1>502 Bad Gateway</h1></html>"), "status 502, 502 Bad Gateway"),
        (ApiError(status_code=200, body="<p>Welcome</p>"), "judge.base_url is not the address of the provider's API: "
                                                           "Welcome"),
        (openai_error(500, body={"error": {"message": "boom"}}), "APIStatusError, status 500, boom"),
        (openai_error(500, body={"error": "boom"}), "APIStatusError, status 500, boom"),
        (openai_error(429, RateLimitError, {"code": "insufficient_quota"}), "the account has no credit left"),
        (openai_error(500), "APIStatusError, status 500, said"),
        (httpx.ReadTimeout("slow"), "judge.timeout_s sets how long to wait"),
        (httpx2.ReadTimeout("slow"), "judge.timeout_s sets how long to wait"),
        (caused(APIConnectionError(request=REQUEST), ConnectionRefusedError("nobody listens")),
         "APIConnectionError, the connection failed; is judge.base_url right, and does the server run? "
         "(nobody listens)"),
        (JSONDecodeError("torn", "{", 1), "a torn reply is none; if all are, judge.base_url is not the address of the "
                                          "provider's API: torn: line 1 column 2 (char 1)"),
        (RuntimeError("two\nlines"), "RuntimeError, two lines"),
        (RuntimeError(), "RuntimeError"),
    ],
)  # fmt: skip
def test_a_message_names_type_status_and_remedy_in_one_line(error: Exception, said: str) -> None:
    message = read_fault(error).message
    assert message.endswith(said) and "headers" not in message and "\n" not in message


def test_a_long_message_is_cut() -> None:
    assert len(read_fault(RuntimeError("x" * 9_000)).message) < 300
    assert len(read_fault(ApiError(status_code=200, body="x" * 9_000)).message) < 500


def test_no_answer_in_time_has_one_name_for_all_libraries() -> None:
    late = (httpx.ReadTimeout("slow"), httpx2.ConnectTimeout("slow"), TimeoutError(), APITimeoutError(request=REQUEST))
    assert {read_fault(error).type for error in late} == {"Timeout"}


def test_secrets_do_not_get_into_a_message() -> None:
    said = read_fault(RuntimeError("refused Bearer sk-abcdefghijklmnopqrstuvwxyz012345")).message
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
