"""What the engine makes of every fault of server and model, behind both protocols, with the real clients."""

import logging
import time
from typing import Any

import pytest

from evals.collect.observations import Failure, Unscored
from evals.judge import asking
from evals.judge.asking import ATTEMPTS
from tests.support.chat_faults import FILTERED, PROTOCOL, SPOKEN, ChatFault, When, too_many
from tests.support.chat_requests import tokens
from tests.support.chat_server import ChatServer
from tests.support.judges import TEXTS, ask, engine, later_engine, settings, verdicts
from tests.support.loopback import free_port
from tests.support.one_question import RIGHT, USEFUL, USELESS

pytestmark = pytest.mark.usefixtures("at_once")
FIRST = When(calls={1})
HELD = ("prose around", "braces around", "fenced")
"""What the model says beside a verdict that is there all the same."""
NO_VERDICT = {
    "cut": "cut at its token limit",
    "verdict 7": "verdict is 7, expected one of 0, 1",
    "refusal": "I'm sorry, but I can't help",
    "empty": "the answer is empty",
    "prose": "expected a JSON object, got 'The passage looks rather useful to me.'",
    "wrong keys": "Field required; got",
    "null": "expected a JSON object, got 'null'",
    "a list": "expected a JSON object, got '[1, 0]'",
    "verdict in words": "verdict: ",
    "NaN": "verdict: ",
    "python": "expected a JSON object, got",
}
SPOKEN_FAULTS = {**{name: SPOKEN[name] for name in NO_VERDICT}, "filtered": FILTERED}
LASTING = {"401": "the API key was refused", "404": "no such model"}
PATIENCE = {"429 seconds": 1, "429 date": 1, "401": 2, "404": 2, "slow": 3}
"""Requests where the wait is too long, three timeouts end, or one more attempt is all that may help; else all."""
TOO_LONG = ChatFault(status=400, message="This model's maximum context length is 8192 tokens")


def test_all_faults_are_looked_at() -> None:
    assert set(NO_VERDICT) | set(HELD) == set(SPOKEN)


@pytest.mark.parametrize("name", HELD)
def test_what_stands_around_a_verdict_does_no_harm(server: ChatServer, name: str) -> None:
    with engine(server) as made, server.faulty(name):
        assert verdicts(ask(made, [USEFUL])) == [1]
    assert len(server.chats) == 1


@pytest.mark.parametrize("name", SPOKEN_FAULTS)
def test_an_answer_that_is_no_verdict_is_repaired_once(server: ChatServer, name: str) -> None:
    with engine(server) as made, server.faulty(SPOKEN_FAULTS[name], FIRST):
        assert verdicts(ask(made, [USEFUL])) == [1]
    asked, again = (chat.prompt for chat in server.chats)
    assert again.startswith(asked) and "Your last answer could not be used: " in again
    assert (made.account.usage.calls, made.account.usage.failed) == (2, 0)


@pytest.mark.parametrize("name", SPOKEN_FAULTS)
def test_a_second_answer_that_is_none_is_a_failure_with_its_cause(server: ChatServer, name: str) -> None:
    with engine(server) as made, server.faulty(SPOKEN_FAULTS[name]):
        said = ask(made, [USEFUL])
    assert verdicts(said) == ["Malformed"]
    assert isinstance(said[0], Failure) and NO_VERDICT.get(name, "the model refused to answer") in said[
        0
    ].message.replace("\\'", "'")
    assert len(server.chats) == 2
    assert (made.account.usage.calls, made.account.usage.failed, made.fatal) == (2, 1, None)


def test_the_tokens_of_answers_that_are_none_are_counted(server: ChatServer) -> None:
    for fault in ("cut", "verdict 7"):
        server.requests.clear()
        with engine(server) as made, server.faulty(fault):
            ask(made, [USEFUL])
        assert made.account.usage.tokens_in == sum(tokens(chat.prompt) for chat in server.chats)
        assert made.account.usage.tokens_out >= 2 * (tokens(RIGHT) // 2)


@pytest.mark.parametrize("name", [name for name in PROTOCOL if name not in PATIENCE])
def test_a_fault_that_passes_costs_one_request(server: ChatServer, name: str) -> None:
    with engine(server, timeout_s=0.5 if name == "slow" else 10) as made, server.faulty(name, FIRST):
        assert verdicts(ask(made, [USEFUL])) == [1]
    assert len(server.chats) == made.account.usage.calls == 2


@pytest.mark.parametrize("name", PROTOCOL)
def test_a_fault_that_stays_is_a_failure_after_all_attempts(
    server: ChatServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PATIENCE_S", 5.0)
    with later_engine(server, timeout_s=0.1 if name == "slow" else 10) as made, server.faulty(name):
        [said] = ask(made, [USEFUL])
    assert isinstance(said, Failure)
    requests = PATIENCE.get(name, ATTEMPTS)
    assert len(server.chats) == made.account.usage.calls == requests
    assert said.message.endswith(f"({requests} attempts)") == (requests > 1)
    status = PROTOCOL[name].status
    assert f"status {status}" in said.message or status in (None, 200)
    assert (said.type == "Timeout") == (name == "slow")
    assert made.account.usage.failed == 1


def test_a_rate_limit_is_waited_for_and_fewer_are_asked_at_once(server: ChatServer) -> None:
    with later_engine(server, max_concurrency=8) as made, server.faulty(too_many(0.2), When(calls=range(1, 9))):
        start = time.monotonic()
        assert verdicts(ask(made, TEXTS[:8])) == [0] * 8
    assert time.monotonic() - start >= 0.2
    assert 9 <= len(server.chats) <= 16
    assert made.pace.limit < 8


@pytest.mark.slow
def test_a_server_that_takes_few_at_once_is_asked_few_at_once(server: ChatServer) -> None:
    server.latency, server.capacity = 0.2, 3
    with later_engine(server, max_concurrency=8) as made:
        assert verdicts(ask(made, TEXTS[:9])) == [0] * 9
    assert made.pace.limit < 8


def test_a_wait_that_the_server_asked_for_is_no_attempt(server: ChatServer) -> None:
    with engine(server, max_concurrency=1) as made, server.faulty(too_many(0.02), When(calls=range(2, 4 * ATTEMPTS))):
        assert verdicts(ask(made, TEXTS[:2])) == [0, 0]
    assert len(server.chats) == made.account.usage.calls == 4 * ATTEMPTS


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.slow
def test_a_server_that_asks_to_wait_for_ever_is_waited_for_so_long(
    server: ChatServer, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PATIENCE_S", 1.0)
    with engine(server) as made, server.faulty(too_many(0.3), When(calls=range(before + 1, 1000))):
        start = time.monotonic()
        said = verdicts(ask(made, TEXTS[:20]))
    assert time.monotonic() - start < 3
    assert said.count(0) == before and "429" in made.account.usage.stopped
    assert (made.fatal is None) == bool(before)


@pytest.mark.parametrize("drip_s", [1.5, 30.0])
@pytest.mark.slow
def test_an_answer_that_trickles_ends_at_its_timeout(server: ChatServer, drip_s: float) -> None:
    with later_engine(server, timeout_s=0.5) as made, server.faulty(ChatFault(drip_s=drip_s)):
        start = time.monotonic()
        assert verdicts(ask(made, [USEFUL])) == ["Timeout"]
        assert time.monotonic() - start < 2.5
    assert len(server.chats) == 3 == made.account.usage.unanswered


def test_three_timeouts_bound_all_attempts(server: ChatServer) -> None:
    with later_engine(server, timeout_s=0.2) as made, server.faulty("slow"):
        assert verdicts(ask(made, [USEFUL])) == ["Timeout"]
    assert 1 <= len(server.chats) <= 3


def test_malformed_answers_and_faults_together_end_after_all_attempts(server: ChatServer) -> None:
    """The last attempt is the first that is answered, and not with a verdict."""
    with later_engine(server) as made, server.faulty("prose"), server.faulty("500", When(calls=range(1, ATTEMPTS))):
        assert verdicts(ask(made, [USEFUL])) == ["Malformed"]
    assert len(server.chats) == ATTEMPTS


# Faults that all calls have


@pytest.mark.parametrize("name", LASTING)
def test_what_no_call_will_get_past_is_asked_once(server: ChatServer, name: str) -> None:
    with engine(server) as made, server.faulty(name):
        said = ask(made, TEXTS[:50])
    assert len(server.chats) == 1
    assert LASTING[name] in str(made.fatal) and str(made.fatal).startswith(
        f"the judge {settings(server).model} refuses"
    )
    assert isinstance(said[0], Failure) and all(isinstance(one, Unscored) for one in said[1:])


def test_a_key_that_is_revoked_later_ends_judging_with_what_there_is(server: ChatServer) -> None:
    with engine(server, max_concurrency=4) as made, server.faulty("401", When(calls=range(11, 1000))):
        said = verdicts(ask(made, TEXTS[:50]))
    assert 10 + 6 <= len(server.chats) <= 10 + 6 + 2 * 3  # two more than at once, and those in flight before and then
    assert said.count(0) == 10 and said.count("unscored") >= 50 - len(server.chats)
    assert made.fatal is None and "refuses every call" in made.account.usage.stopped


def test_a_server_that_is_not_there_is_said_so(server: ChatServer) -> None:
    with engine(server, base_url=f"http://127.0.0.1:{free_port()}/v1") as made:
        said = verdicts(ask(made, TEXTS[:5]))
    assert said[1:] == ["unscored"] * 4
    assert "cannot be reached" in str(made.fatal) and "does the server run?" in str(made.fatal)
    assert made.account.usage.calls == ATTEMPTS


def test_a_page_of_a_proxy_for_an_answer_points_to_the_address(server: ChatServer) -> None:
    with engine(server) as made, server.faulty("200 HTML"):
        ask(made, [USEFUL])
    assert "judge.base_url is not the address of the provider's API" in str(made.fatal)


@pytest.mark.parametrize("status", [401, 403])
def test_one_refusal_among_answers_is_tried_again_and_ends_nothing(server: ChatServer, status: int) -> None:
    with engine(server, max_concurrency=4) as made, server.faulty(ChatFault(status=status), When(calls={14})):
        assert verdicts(ask(made, TEXTS[:30])) == [0] * 30
    assert len(server.chats) == 31 and made.account.usage.stopped == ""


def test_one_question_that_is_always_refused_is_one_failure(server: ChatServer) -> None:
    with engine(server, max_concurrency=1) as made, server.faulty(ChatFault(status=403), When(calls={4, 5})):
        said = ask(made, TEXTS[:3], [USEFUL], TEXTS[3:9])
    assert verdicts(said).count(0) == 9 and len(server.chats) == 11
    assert isinstance(said[3], Failure) and "status 403" in said[3].message
    assert made.account.usage.stopped == "" and made.account.usage.failed == 1


@pytest.mark.parametrize("place", [0, 1])
def test_a_prompt_that_is_too_long_is_one_failure_even_if_it_is_the_first(server: ChatServer, place: int) -> None:
    with engine(server) as made, server.faulty(TOO_LONG, When(calls={place + 1})):
        said = ask(made, [USELESS, *TEXTS[:9]])
    failures = [one for one in said if isinstance(one, Failure)]
    assert len(failures) == 1 and "maximum context length" in failures[0].message
    assert len(server.chats) == 10 and made.fatal is None and not made.account.usage.stopped


@pytest.mark.parametrize("status", [400, 422])
def test_a_judge_that_refuses_its_first_question_is_asked_no_other(server: ChatServer, status: int) -> None:
    with engine(server) as made, server.faulty(ChatFault(status=status, message="unknown field 'seed'")):
        said = verdicts(ask(made, TEXTS[:100]))
    assert len(server.chats) == 1 and said.count("unscored") == 99
    assert "failed at the first call: " in str(made.fatal) and "unknown field 'seed'" in str(made.fatal)


@pytest.mark.parametrize("name", ["cut", "verdict 7", "refusal"])
def test_a_judge_whose_answers_are_no_verdicts_is_soon_asked_no_more(server: ChatServer, name: str) -> None:
    with engine(server, max_concurrency=4) as made, server.faulty(name):
        ask(made, TEXTS[:100])
    assert 32 <= len(server.chats) <= 32 + 4
    assert "failed 32 times in a row, at last: Malformed: " in str(made.fatal)


def test_a_judge_that_stops_giving_verdicts_ends_judging_with_what_there_is(server: ChatServer) -> None:
    with engine(server, max_concurrency=4) as made, server.faulty("refusal", When(calls=range(21, 1000))):
        said = verdicts(ask(made, TEXTS[:100]))
    # Up to 3 refusals may be read before the last verdict, which starts the count again; 4 calls run at the end.
    assert said.count(0) == 20 and 52 <= len(server.chats) <= 52 + 3 + 4
    assert made.fatal is None and "failed 32 times in a row" in made.account.usage.stopped


def test_a_judge_that_fails_on_and_on_ends_judging_with_what_there_is(server: ChatServer) -> None:
    with engine(server, max_concurrency=2) as made, server.faulty(ChatFault(status=400), When(calls=range(21, 1000))):
        said = verdicts(ask(made, TEXTS[:100]))
    assert said.count(0) == 20 and 52 <= len(server.chats) <= 54
    assert made.fatal is None and "failed 32 times in a row" in made.account.usage.stopped


def test_failures_among_answers_end_nothing(server: ChatServer) -> None:
    with later_engine(server, max_concurrency=2) as made, server.faulty(ChatFault(status=400), When(share=0.5, seed=1)):
        said = verdicts(ask(made, TEXTS[:100]))
    assert len(server.chats) == 100 and made.account.usage.stopped == ""
    assert said.count(0) + made.account.usage.failed == 100 and 20 < made.account.usage.failed < 80


def test_attempts_are_logged_with_stage_and_number(server: ChatServer, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "evals"), later_engine(server) as made, server.faulty("500", FIRST):
        ask(made, [USEFUL])
    [record] = [one for one in caplog.records if "trying again" in one.message]
    assert (record.stage, record.attempt) == ("judge", 1) and "status 500, internal error" in record.message
