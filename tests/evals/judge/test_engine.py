"""The engine behind both protocols, with the real clients: what is asked, how often, how fast, for how much."""

import asyncio
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput as Rating

from evals.collect.observations import Unscored
from evals.judge.asking import Engine
from evals.judge.store import VerdictStore
from retrievers.embedding.tokens import count_tokens
from tests.support.chat_faults import ChatFault, Output, When, says
from tests.support.chat_requests import ChatRequest, tokens
from tests.support.chat_server import MODEL, ChatServer
from tests.support.judges import TEXTS, ask, engine, later_engine, settings, verdicts
from tests.support.judging import Oracle
from tests.support.loopback import Reply
from tests.support.one_question import ORACLE, RIGHT, USEFUL, USELESS, prompt
from tests.support.openai_server import OpenAIChatServer

WRONG = '{"reason": "changed its mind", "verdict": 0}'
pytestmark = pytest.mark.usefixtures("at_once")


class Miscounting(OpenAIChatServer):
    """Answers rightly, with a count of tokens that cannot be."""

    def __init__(self, oracle: Oracle, count: Any) -> None:
        super().__init__(oracle)
        self._count = count

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        body = json.loads(super().said(asked, output).body)
        body["usage"] |= {"prompt_tokens": self._count, "completion_tokens": self._count}
        return Reply.json(body)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.sqlite"


def test_a_question_is_asked_once_however_often_it_comes(server: ChatServer) -> None:
    with engine(server) as made:
        said = ask(made, [USEFUL, USELESS] * 5, [USELESS, USEFUL])
    assert verdicts(said) == [1, 0] * 5 + [0, 1]
    assert len(server.chats) == 2
    assert (made.account.usage.calls, made.account.usage.hits, made.account.usage.failed) == (2, 10, 0)


def test_a_question_that_failed_is_not_asked_again(server: ChatServer) -> None:
    with engine(server) as made, server.faulty("prose"):
        assert verdicts(ask(made, [USEFUL] * 3, [USEFUL])) == ["Malformed"] * 4
    assert len(server.chats) == 2 and made.account.usage.failed == 1


def test_the_next_run_finds_its_verdicts_in_the_store(server: ChatServer, file: Path) -> None:
    for _ in range(2):
        with engine(server, file) as made:
            assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
    assert len(server.chats) == 2
    assert (made.account.usage.calls, made.account.usage.hits, made.account.usage.tokens) == (0, 2, 0)


def test_without_a_store_the_next_run_asks_again(server: ChatServer) -> None:
    for _ in range(2):
        with engine(server) as made:
            ask(made, [USEFUL])
    assert len(server.chats) == 2


def test_what_is_stored_is_asked_again_when_told_to_and_replaced(server: ChatServer, file: Path) -> None:
    with engine(server, file) as made:
        assert verdicts(ask(made, [USEFUL])) == [1]
    with engine(server, file, refresh=True) as made, server.faulty(says(WRONG)):
        assert verdicts(ask(made, [USEFUL, USEFUL])) == [0, 0]
    with engine(server, file) as made:
        assert verdicts(ask(made, [USEFUL])) == [0]
    assert len(server.chats) == 2


def test_a_failure_is_not_stored(server: ChatServer, file: Path) -> None:
    with engine(server, file) as made, server.faulty("prose"):
        assert verdicts(ask(made, [USEFUL])) == ["Malformed"]
    with engine(server, file) as made:
        assert verdicts(ask(made, [USEFUL])) == [1]


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.5},
        {"temperature": None},
        {"max_output_tokens": 100},
        {"model": "another"},
        {"base_url": "another"},
    ],
    ids=str,
)
def test_a_verdict_is_of_its_model_and_parameters_alone(
    server: ChatServer, file: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "models", (MODEL, "another"))
    config = settings(server)
    if "model" in changes:
        changes = {"model": f"{config.provider}:another"}
    if "base_url" in changes:
        changes = {"base_url": (config.base_url or "").replace("127.0.0.1", "localhost")}
    with engine(server, file) as made:
        ask(made, [USEFUL])
    with engine(server, file, **changes) as made, server.faulty(says(WRONG)):
        assert verdicts(ask(made, [USEFUL])) == [0]
    with engine(server, file) as made:
        assert verdicts(ask(made, [USEFUL])) == [1]
    assert len(server.chats) == 2


def test_a_verdict_is_of_its_schema_alone(server: ChatServer, file: Path) -> None:
    with engine(server, file) as made:
        ask(made, [USEFUL])
        with server.faulty(says('{"rating": 2}')):
            [rating] = ask(made, [USEFUL], schema=Rating)
    assert isinstance(rating, Rating) and rating.rating == 2
    assert len(server.chats) == 2


def test_what_plays_no_part_in_an_answer_changes_no_key(server: ChatServer, file: Path) -> None:
    with engine(server, file) as made:
        ask(made, [USEFUL])
    with engine(server, file, timeout_s=5, max_concurrency=3, requests_per_minute=1000) as made:
        ask(made, [USEFUL])
    assert len(server.chats) == 1


def test_no_more_are_asked_at_once_than_allowed(server: ChatServer) -> None:
    server.latency = 0.02
    with engine(server, max_concurrency=4) as made:
        assert verdicts(ask(made, TEXTS[:40])) == [0] * 40
    assert 2 <= server.peak <= 4
    assert len(server.chats) == 40


def test_the_first_question_is_asked_alone(server: ChatServer) -> None:
    with engine(server) as made, server.faulty("slow"):
        ask_for_a_moment(made)
    assert len(server.chats) == 1


def ask_for_a_moment(made: Engine) -> None:
    async def several() -> None:
        asked = [asyncio.ensure_future(made.ask(prompt(text), Verdict)) for text in TEXTS[:5]]
        await asyncio.wait(asked, timeout=0.3)
        for one in asked:
            one.cancel()
        await asyncio.wait(asked)

    asyncio.run(several())


# Servers without JSON mode


def test_a_server_without_json_mode_is_found_out_by_one_request(server: ChatServer) -> None:
    server.json_mode = False
    with engine(server) as made:
        assert verdicts(ask(made, [USEFUL, *TEXTS[:9]])) == [1] + [0] * 9
    assert len(server.chats) == made.account.usage.calls == 11
    assert [bool(chat.response_format) for chat in server.chats] == [True] + [False] * 10


def test_a_server_that_loses_its_json_mode_costs_one_request_for_each_in_flight(server: ChatServer) -> None:
    server.json_mode = False
    with later_engine(server, max_concurrency=4) as made:
        assert verdicts(ask(made, TEXTS[:20])) == [0] * 20
    assert 21 <= len(server.chats) <= 20 + 4
    assert sum(bool(chat.response_format) for chat in server.chats) == len(server.chats) - 20


# Money


def test_usage_is_what_the_server_counted(server: ChatServer) -> None:
    with engine(server, prices={f"{settings(server).model}": {"input": 2.0, "output": 8.0}}) as made:
        ask(made, [USEFUL, USELESS])
    read = sum(tokens(chat.prompt) for chat in server.chats)
    assert (made.account.usage.calls, made.account.usage.tokens_in) == (2, read)
    assert made.account.usage.tokens_out >= 2 * tokens(RIGHT) - 8
    assert made.account.usage.usd == pytest.approx((read * 2 + made.account.usage.tokens_out * 8) / 1e6)


def test_a_budget_of_calls_is_spent_to_the_last_and_not_beyond(server: ChatServer) -> None:
    with engine(server, budget={"calls": 5}) as made:
        said = ask(made, TEXTS[:20], TEXTS[:20])
    assert len(server.chats) == made.account.usage.calls == 5
    assert verdicts(said).count(0) == 10
    assert [one for one in said if isinstance(one, Unscored)] == [
        Unscored(reason="the budget of 5 calls is spent", missing=True)
    ] * 30
    assert made.account.usage.stopped == "the budget of 5 calls is spent" and made.fatal is None


def test_attempts_count(server: ChatServer) -> None:
    with engine(server, budget={"calls": 4}) as made, server.faulty("500"):
        assert verdicts(ask(made, [USEFUL])) == ["unscored"]
    assert len(server.chats) == 4


def long_answers() -> ChatFault:
    """Verdicts of 1,500 to 2,000 tokens."""
    draw = random.Random(0)
    return ChatFault(says=lambda _: Output(text=json.dumps({"reason": "x" * draw.randint(6_000, 7_900), "verdict": 0})))


def a_dollar_a_million(server: ChatServer) -> dict[str, Any]:
    return {f"{settings(server).model}": {"input": 1.0, "output": 1.0}}


def test_a_budget_is_spent_up_to_less_than_one_call_and_never_passed(server: ChatServer) -> None:
    server.latency, spent = 0.2, 50_000
    with engine(server, budget={"usd": 0.05}, prices=a_dollar_a_million(server)) as made, server.faulty(long_answers()):
        said = verdicts(ask(made, TEXTS[:60]))
    assert server.peak > 1
    assert spent - 6_000 < made.account.usage.tokens <= spent
    assert said.count(0) == len(server.chats) == made.account.usage.calls
    assert (
        said.count("unscored") == 60 - len(server.chats) and "does not hold another call" in made.account.usage.stopped
    )


@pytest.mark.parametrize("count", [-5, 10**12, 10**400, 1.5, None, {"a": 1}], ids=lambda count: str(count)[:8])
def test_counts_that_no_server_can_mean_are_estimated_from_the_texts(count: Any) -> None:
    with Miscounting(ORACLE, count) as server, engine(server, prices=a_dollar_a_million(server)) as made:
        assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
        read = sum(count_tokens(chat.prompt) for chat in server.chats)
    assert (made.account.usage.tokens_in, made.account.usage.unanswered) == (read, 0)
    assert 0 < made.account.usage.tokens_out < 100 and (made.account.usage.usd or 0) < 0.01


def test_an_answer_of_counts_that_its_client_does_not_take_costs_what_was_reserved() -> None:
    """NaN becomes an error within ChatOpenAI: there is no answer, and it may have been billed."""
    with Miscounting(ORACLE, math.nan) as server:
        budget: dict[str, Any] = {"budget": {"usd": 0.02}, "prices": a_dollar_a_million(server)}
        with engine(server, **budget) as made:
            ask(made, TEXTS[:20])
    assert made.account.usage.unanswered <= 4 and "does not hold another call" in made.account.usage.stopped


def test_answers_far_over_their_limit_spend_no_budget_many_times_over(server: ChatServer) -> None:
    """Sixteen at once that write 24,000 tokens where 100 are allowed; each costs more than half of the budget."""
    server.latency = 0.05
    endless = ChatFault(says=lambda _: Output(text=json.dumps({"reason": "x" * 96_000, "verdict": 0})))
    limits: dict[str, Any] = {"max_output_tokens": 100, "budget": {"usd": 0.04}, "max_concurrency": 16}
    with engine(server, **limits, prices=a_dollar_a_million(server)) as made, server.faulty(endless):
        ask(made, TEXTS[:60])
    assert len(server.chats) == 1 and (made.account.usage.usd or 0) <= 0.04
    assert "does not hold another call" in made.account.usage.stopped


def test_a_server_that_begins_to_write_too_much_is_sent_nothing_after_what_was_in_flight(server: ChatServer) -> None:
    server.latency = 0.05
    endless = ChatFault(says=lambda _: Output(text=json.dumps({"reason": "x" * 96_000, "verdict": 0})))
    limits: dict[str, Any] = {"max_output_tokens": 100, "budget": {"usd": 0.5}, "max_concurrency": 4}
    with (
        engine(server, **limits, prices=a_dollar_a_million(server)) as made,
        server.faulty(endless, When(calls=range(30, 1000))),
    ):
        ask(made, TEXTS[:300])
    # 29 of about a thousand tokens, and then 18 of 25,000: as many as 0.5 USD holds, and no more than 4 beyond it.
    assert len(server.chats) < 29 + 18 + 4
    assert (made.account.usage.usd or 0) < 0.5 + 4 * 0.026


def test_a_request_without_an_answer_is_held_against_the_budget(server: ChatServer) -> None:
    with later_engine(server, budget={"usd": 0.02}, prices=a_dollar_a_million(server)) as made, server.faulty("torn"):
        assert verdicts(ask(made, [USEFUL])) == ["unscored"]
    assert 2 <= len(server.chats) == made.account.usage.unanswered < 8 and made.account.usage.tokens == 2
    assert f"by {len(server.chats)} requests without an answer" in made.account.usage.stopped


@pytest.mark.parametrize("fault", ["500", "429"])
def test_a_request_that_was_refused_costs_nothing(server: ChatServer, fault: str) -> None:
    with (
        engine(server, budget={"usd": 0.01}, prices=a_dollar_a_million(server)) as made,
        server.faulty(fault, When(calls=range(1, 7))),
    ):
        assert verdicts(ask(made, [USEFUL])) == [1]
    assert made.account.usage.unanswered == 0 and made.account.usage.calls == 7


def test_a_budget_is_not_spent_on_what_is_stored(server: ChatServer, file: Path) -> None:
    with engine(server, file) as made:
        ask(made, TEXTS[:10])
    with engine(server, file, budget={"calls": 2}) as made:
        assert verdicts(ask(made, TEXTS[:12])) == [0] * 12
    assert len(server.chats) == 12 and made.account.usage.stopped == ""


# The store's faults


def test_a_store_that_cannot_be_written_ends_judging_with_what_was_paid_for(server: ChatServer, file: Path) -> None:
    with VerdictStore(file) as store:
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")  # as full as this database can be
        with engine(server, store, max_concurrency=2) as made:
            said = verdicts(ask(made, TEXTS[:300]))
    bought = said.count(0)
    assert bought == len(server.chats) < 300 and said.count("unscored") == 300 - bought
    assert "verdict store" in made.account.usage.stopped and "make room" in made.account.usage.stopped


def test_a_store_that_cannot_be_read_ends_judging(server: ChatServer, file: Path) -> None:
    store = VerdictStore(file)
    store.close()
    with engine(server, store) as made:
        assert verdicts(ask(made, [USEFUL, USELESS])) == ["unscored"] * 2
    assert server.chats == [] and "cannot be used" in made.account.usage.stopped
