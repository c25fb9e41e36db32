"""The judge behind llama.cpp, vLLM and Cohere: verdicts, their tokens, and what each server says when it fails."""

from collections.abc import Iterator

import pytest

from evals.collect.observations import Failure
from tests.support.chat_faults import ChatFault, When
from tests.support.chat_requests import tokens
from tests.support.chat_server import ChatServer
from tests.support.judge_servers import SERVERS, TOO_LONG
from tests.support.judges import TEXTS, ask, engine, verdicts
from tests.support.one_question import ORACLE, RIGHT, USEFUL, USELESS

pytestmark = pytest.mark.usefixtures("at_once")


@pytest.fixture(params=SERVERS)
def own(request: pytest.FixtureRequest) -> Iterator[ChatServer]:
    with SERVERS[request.param](ORACLE) as running:
        yield running


def test_its_verdicts_are_read_and_its_tokens_counted(own: ChatServer) -> None:
    with engine(own) as made:
        assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
    assert made.account.usage.tokens_in == sum(tokens(chat.prompt) for chat in own.chats)
    assert made.account.usage.tokens_out >= 2 * tokens(RIGHT) - 8
    assert all(chat.response_format for chat in own.chats)


def test_an_answer_that_it_cut_off_is_malformed(own: ChatServer) -> None:
    with engine(own) as made, own.faulty("cut"):
        [said] = ask(made, [USEFUL])
    assert isinstance(said, Failure) and said.type == "Malformed" and "judge.max_output_tokens" in said.message


def test_a_prompt_that_is_too_long_for_it_fails_alone(own: ChatServer) -> None:
    fault = ChatFault(status=400, message=TOO_LONG)
    with engine(own) as made, own.faulty(fault, When(calls={1})):
        said = ask(made, [USELESS, *TEXTS[:9]])
    failures = [one for one in said if isinstance(one, Failure)]
    assert len(failures) == 1 and "8192" in failures[0].message
    assert len(own.chats) == 10 and made.fatal is None


def test_its_refusal_of_a_key_ends_judging_after_one_request(own: ChatServer) -> None:
    with engine(own) as made:
        own.key = "another"
        ask(made, TEXTS[:9])
    assert len(own.chats) == 1 and "status 401, the API key was refused" in str(made.fatal)


def test_a_model_that_it_loads_still_is_waited_for(own: ChatServer) -> None:
    fault = ChatFault(status=503, message="Loading model")
    with engine(own) as made, own.faulty(fault, When(calls=range(1, 4))):
        assert verdicts(ask(made, [USEFUL])) == [1]
    assert len(own.chats) == 4


def test_a_model_that_it_lacks_is_named(own: ChatServer) -> None:
    with engine(own) as made:
        own.models = ("another",)
        ask(made, [USEFUL])
    assert "status 404, no such model, or judge.base_url is wrong" in str(made.fatal)
