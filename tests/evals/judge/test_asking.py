"""From prompts to verdicts, behind both protocols and the real clients: what is asked, how often, for how much."""

import json
import logging
import math
import random
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput as Rating

from evals.collect.observations import Failure, Unscored
from evals.errors import JudgeError
from evals.judge import asking
from evals.judge.asking import ATTEMPTS, FAILURES_IN_A_ROW
from evals.judge.store import VerdictStore
from retrievers.embedding.tokens import count_tokens
from tests.support.chat_faults import FILTERED, PROTOCOL, SPOKEN, ChatFault, Output, When, says, too_many
from tests.support.chat_requests import ChatRequest, tokens
from tests.support.chat_server import MODEL, ChatServer
from tests.support.judges import TEXTS, ask, engine, later_engine, settings, verdicts
from tests.support.judging import Oracle
from tests.support.loopback import Reply, free_port
from tests.support.one_question import ORACLE, USEFUL, USELESS
from tests.support.openai_server import OpenAIChatServer

WRONG = says('{"reason": "changed its mind", "verdict": 0}')
FIRST = When(calls={1})


class TestOnce:
    def test_a_question_is_bought_once_in_a_run_and_in_all_runs_on_a_store(
        self, server: ChatServer, file: Path
    ) -> None:
        with engine(server, file) as made:
            assert verdicts(ask(made, [USEFUL, USELESS] * 5, [USELESS, USEFUL])) == [1, 0] * 5 + [0, 1]
        assert (made.account.usage.calls, made.account.usage.hits, len(server.chats)) == (2, 10, 2)
        with engine(server, file) as made:
            assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
        usage = made.account.usage
        assert (usage.calls, usage.hits, usage.tokens, len(server.chats)) == (0, 2, 0, 2)

    def test_a_failure_is_not_asked_again_in_a_run_and_not_stored(self, server: ChatServer, file: Path) -> None:
        with engine(server, file) as made, server.faulty("prose"):
            assert verdicts(ask(made, [USEFUL] * 3, [USEFUL])) == ["Malformed"] * 4
        assert len(server.chats) == 2 and made.account.usage.failed == 1
        with engine(server, file) as made:
            assert verdicts(ask(made, [USEFUL])) == [1]

    @pytest.mark.parametrize("change", ["temperature", "max_output_tokens", "model", "base_url"])
    def test_a_verdict_is_of_its_model_parameters_and_address(
        self, server: ChatServer, file: Path, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "models", (MODEL, "another"))
        own = settings(server)
        elsewhere = (own.base_url or "").replace("127.0.0.1", "localhost")
        changed = {
            "temperature": 0.5, "max_output_tokens": 100, "model": f"{own.provider}:another", "base_url": elsewhere,
        }  # fmt: skip
        with engine(server, file) as made:
            ask(made, [USEFUL])
        with engine(server, file, **{change: changed[change]}) as made, server.faulty(WRONG):
            assert verdicts(ask(made, [USEFUL])) == [0]
        with engine(server, file, timeout_s=5, max_concurrency=3, requests_per_minute=1000) as made:
            assert verdicts(ask(made, [USEFUL])) == [1]
        assert len(server.chats) == 2

    def test_a_verdict_is_of_its_schema(self, server: ChatServer, file: Path) -> None:
        with engine(server, file) as made:
            ask(made, [USEFUL])
            with server.faulty(says('{"rating": 2}')):
                [rating] = ask(made, [USEFUL], schema=Rating)
        assert isinstance(rating, Rating) and rating.rating == 2 and len(server.chats) == 2

    def test_two_runs_that_begin_together_on_a_store_buy_nothing_twice(self, server: ChatServer, file: Path) -> None:
        server.latency = 0.02

        def judge(_: int) -> tuple[list[int | str], int, int]:
            with engine(server, file, max_concurrency=4) as made:
                said = verdicts(ask(made, [USEFUL, *TEXTS[:40]]))
            return said, made.account.usage.calls, made.account.usage.hits

        with ThreadPoolExecutor(2) as pool:
            (one, calls, hits), (other, others, other_hits) = pool.map(judge, range(2))
        assert one == other == [1] + [0] * 40
        assert len(server.chats) == calls + others == hits + other_hits == 41

    def test_no_more_are_asked_at_once_than_allowed_and_the_first_alone(self, server: ChatServer) -> None:
        server.latency = 0.02
        with engine(server, max_concurrency=4) as made:
            assert verdicts(ask(made, TEXTS[:40])) == [0] * 40
        assert 2 <= server.peak <= 4 and len(server.chats) == 40
        server.requests.clear()
        with engine(server) as made, server.faulty("401"):
            ask(made, TEXTS[:40])
        assert len(server.chats) == 1


class TestStore:
    def test_its_files_are_their_owners_alone_and_hold_json(self, server: ChatServer, file: Path) -> None:
        with engine(server, file) as made:
            ask(made, [USEFUL])
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in file.parent.iterdir()}
        assert len(modes) >= 3 and set(modes.values()) == {0o600}, modes
        with closing(sqlite3.connect(file)) as database:
            [(answer, kind)] = database.execute("SELECT answer, kind FROM verdicts").fetchall()
        assert json.loads(answer)["verdict"] == 1 and kind == "ContextPrecisionOutput"

    @pytest.mark.parametrize("answer", ['{"reason": "", "verdict": 7}', '{"reason": ""', b"\xff\x00", 5], ids=str)
    def test_a_row_that_is_no_verdict_is_bought_again(self, server: ChatServer, file: Path, answer: object) -> None:
        for _ in range(2):
            with engine(server, file) as made:
                assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
            with closing(sqlite3.connect(file)) as database, database:
                database.execute("UPDATE verdicts SET answer = ?", (answer,))
        assert len(server.chats) == 4

    def test_one_that_is_full_ends_judging_with_what_was_paid_for(self, server: ChatServer, file: Path) -> None:
        with closing(VerdictStore(file)) as store:
            pages = store._database.execute("PRAGMA page_count").fetchone()[0]
            store._database.execute(f"PRAGMA max_page_count = {pages}")
            with engine(server, store, max_concurrency=2) as made:
                said = verdicts(ask(made, TEXTS[:300]))
        bought = said.count(0)
        assert bought == len(server.chats) < 300 and said.count("unscored") == 300 - bought
        assert f"the verdict store {file} cannot be used" in made.account.usage.stopped
        assert "make room" in made.account.usage.stopped

    @pytest.mark.parametrize("content", [b"not a database at all, but a text of some length" * 20, None])
    def test_a_file_of_something_else_stays_as_it_is(self, tmp_path: Path, content: bytes | None) -> None:
        file = tmp_path / "mine"
        if content is None:
            file.mkdir()
        else:
            file.write_bytes(content)
        with pytest.raises(JudgeError, match=r"cannot be used .* or name another file with judge\.cache_path"):
            VerdictStore(file)
        assert content is None or file.read_bytes() == content


# Money


def a_dollar_a_million(server: ChatServer) -> dict[str, Any]:
    return {f"{settings(server).model}": {"input": 1.0, "output": 1.0}}


def writes(least: int, most: int) -> ChatFault:
    """Verdicts of so many characters."""
    draw = random.Random(0)
    return ChatFault(says=lambda _: Output(text=json.dumps({"reason": "x" * draw.randint(least, most), "verdict": 0})))


class Miscounting(OpenAIChatServer):
    """Answers rightly, with a count of tokens that cannot be."""

    def __init__(self, oracle: Oracle, count: Any) -> None:
        super().__init__(oracle)
        self._count = count

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        body = json.loads(super().said(asked, output).body)
        body["usage"] |= {"prompt_tokens": self._count, "completion_tokens": self._count}
        return Reply.json(body)


class TestBudget:
    def test_usage_is_what_the_server_counted_of_answers_of_any_kind(self, server: ChatServer) -> None:
        price = {f"{settings(server).model}": {"input": 2.0, "output": 8.0}}
        with engine(server, prices=price) as made, server.faulty("verdict 7", When(calls={2})):
            ask(made, [USEFUL, USELESS])
        read, usage = sum(tokens(chat.prompt) for chat in server.chats), made.account.usage
        assert (usage.calls, usage.tokens_in) == (3, read) and usage.tokens_out > 30
        assert usage.usd == pytest.approx((read * 2 + usage.tokens_out * 8) / 1e6)

    def test_calls_are_spent_to_the_last_and_attempts_count(self, server: ChatServer) -> None:
        with engine(server, budget={"calls": 5}) as made, server.faulty("500", FIRST):
            said = ask(made, TEXTS[:20])
        spent = "the budget of 5 calls is spent"
        assert len(server.chats) == made.account.usage.calls == 5 and verdicts(said).count(0) == 4
        assert [one for one in said if isinstance(one, Unscored)] == [Unscored(reason=spent, missing=True)] * 16
        assert made.account.usage.stopped == spent and made.fatal is None

    def test_sixteen_at_once_spend_it_up_to_less_than_one_call_and_never_more(self, server: ChatServer) -> None:
        """Sums of prices leave remainders, and nobody waits for ever."""
        server.latency, limits = 0.1, {"budget": {"usd": 0.05}, "prices": a_dollar_a_million(server)}
        with engine(server, **limits) as made, server.faulty(writes(6_000, 7_900)):  # type: ignore[arg-type]
            said = verdicts(ask(made, TEXTS[:60]))
        assert server.peak > 1 and 50_000 - 6_000 < made.account.usage.tokens <= 50_000
        assert said.count(0) == len(server.chats) == 60 - said.count("unscored")
        assert "does not hold another call" in made.account.usage.stopped

    def test_after_an_answer_over_its_limit_no_call_starts_before_the_reserve_is_what_was_seen(
        self, server: ChatServer
    ) -> None:
        """24,000 tokens where 100 are allowed: first the very first answer, then those from the thirtieth on."""
        server.latency, prices = 0.05, a_dollar_a_million(server)
        limits: dict[str, Any] = {"max_output_tokens": 100, "prices": prices}
        with engine(server, **limits, budget={"usd": 0.04}) as made, server.faulty(writes(96_000, 96_000)):
            ask(made, TEXTS[:60])
        assert len(server.chats) == 1 and (made.account.usage.usd or 0) <= 0.04
        server.requests.clear()
        later = When(calls=range(30, 1000))
        with (
            engine(server, **limits, budget={"usd": 0.5}, max_concurrency=4) as made,
            server.faulty(writes(96_000, 96_000), later),
        ):
            ask(made, TEXTS[:300])
        # 29 of about a thousand tokens, 18 of 25,000 as 0.5 USD holds, and those in flight beyond it.
        assert len(server.chats) < 29 + 18 + 4 and (made.account.usage.usd or 0) < 0.5 + 4 * 0.026

    @pytest.mark.parametrize(
        "count", [-5, 10**12, 10**400, 1.5, math.nan, None, {"a": 1}], ids=lambda count: str(count)[:8]
    )
    def test_counts_that_no_server_can_mean_are_estimated_from_the_texts(self, count: Any) -> None:
        with Miscounting(ORACLE, count) as server, engine(server, prices=a_dollar_a_million(server)) as made:
            assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
            read, usage = sum(count_tokens(chat.prompt) for chat in server.chats), made.account.usage
        assert (usage.tokens_in, usage.unanswered) == (read, 0) and 0 < usage.tokens_out < 100

    def test_a_request_without_an_answer_is_held_against_it_and_a_refused_one_costs_nothing(
        self, server: ChatServer
    ) -> None:
        limits: dict[str, Any] = {"budget": {"usd": 0.02}, "prices": a_dollar_a_million(server)}
        with later_engine(server, **limits) as made, server.faulty("torn"):
            assert verdicts(ask(made, [USEFUL])) == ["unscored"]
        assert 2 <= len(server.chats) == made.account.usage.unanswered < 8 and made.account.usage.tokens == 2
        assert f", {len(server.chats)} requests without an answer at their most" in made.account.usage.stopped
        for fault in ("500", "429"):
            with engine(server, **limits) as made, server.faulty(fault, When(calls=range(1, 3))):
                assert verdicts(ask(made, [USEFUL])) == [1]
            assert made.account.usage.unanswered == 0


# Faults of the model

HELD = ("prose around", "braces around", "fenced")
NO_VERDICT = {
    "cut": "cut off at judge.max_output_tokens",
    "verdict 7": "verdict is 7, expected one of 0, 1",
    "refusal": "I'm sorry, but I can't help",
    "empty": "the answer is empty",
    "prose": "expected a JSON object, got 'The passage looks rather useful to me.'",
    "wrong keys": "Field required; got",
    "null": "expected a JSON object, got 'null'",
    "verdict in words": "verdict: ",
    "NaN": "verdict: ",
}


class TestAnswers:
    @pytest.mark.parametrize("name", HELD)
    def test_what_stands_around_a_verdict_does_no_harm(self, server: ChatServer, name: str) -> None:
        with engine(server) as made, server.faulty(name):
            assert verdicts(ask(made, [USEFUL])) == [1]
        assert len(server.chats) == 1

    @pytest.mark.parametrize("name", [*NO_VERDICT, "filtered"])
    def test_one_that_is_no_verdict_is_repaired_once_and_then_a_failure_with_its_cause(
        self, server: ChatServer, name: str
    ) -> None:
        fault = FILTERED if name == "filtered" else SPOKEN[name]
        with engine(server) as made, server.faulty(fault, FIRST):
            assert verdicts(ask(made, [USEFUL])) == [1]
        asked, again = (chat.prompt for chat in server.chats)
        assert again.startswith(asked) and "Your last answer could not be used: " in again
        with engine(server) as made, server.faulty(fault):
            [said] = ask(made, [USEFUL])
        assert isinstance(said, Failure) and said.type == "Malformed"
        assert NO_VERDICT.get(name, "the model refused to answer") in said.message.replace("\\'", "'")
        assert len(server.chats) == 4 and (made.account.usage.failed, made.fatal) == (1, None)

    def test_a_server_without_json_mode_is_found_out_by_one_request(self, server: ChatServer) -> None:
        server.json_mode = False
        with engine(server) as made:
            assert verdicts(ask(made, [USEFUL, *TEXTS[:9]])) == [1] + [0] * 9
        assert [bool(chat.response_format) for chat in server.chats] == [True] + [False] * 10

    def test_a_judge_that_gives_no_verdicts_any_more_is_soon_asked_no_more(self, server: ChatServer) -> None:
        for before in (0, 20):
            server.requests.clear()
            with (
                engine(server, max_concurrency=4) as made,
                server.faulty("refusal", When(calls=range(before + 1, 1000))),
            ):
                said = verdicts(ask(made, TEXTS[:100]))
            assert said.count(0) == before
            assert before + FAILURES_IN_A_ROW <= len(server.chats) <= before + FAILURES_IN_A_ROW + 8
            assert "failed 32 times in a row, at last: Malformed: " in made.account.usage.stopped
            assert (made.fatal is None) == bool(before)


# Faults of the protocol

LASTING = {"401": "status 401, the API key was refused; check judge.model", "404": "status 404"}
TOO_LONG = ChatFault(status=400, message="This model's maximum context length is 8192 tokens")


class TestFaults:
    @pytest.mark.parametrize("name", [name for name in PROTOCOL if name not in (*LASTING, "429")])
    def test_one_that_passes_costs_a_request_and_one_that_stays_is_a_failure(
        self, server: ChatServer, name: str
    ) -> None:
        with engine(server, timeout_s=0.5 if name == "slow" else 10) as made, server.faulty(name, FIRST):
            assert verdicts(ask(made, [USEFUL])) == [1]
        assert len(server.chats) == made.account.usage.calls == 2
        server.requests.clear()
        with later_engine(server, timeout_s=0.1 if name == "slow" else 10) as made, server.faulty(name):
            [said] = ask(made, [USEFUL])
        attempts = ATTEMPTS["late" if name == "slow" else "passing"]
        assert isinstance(said, Failure) and said.message.endswith(f"({attempts} attempts)")
        assert len(server.chats) == made.account.usage.calls == attempts and made.account.usage.failed == 1
        assert (said.type == "Timeout") == (name == "slow")

    def test_faults_of_several_kinds_are_attempts_together_and_a_repair_follows_any(self, server: ChatServer) -> None:
        with later_engine(server) as made, server.faulty("prose", When(calls={2})), server.faulty("500", FIRST):
            assert verdicts(ask(made, [USEFUL])) == [1]
        server.requests.clear()
        first = When(calls={1, 2, 3})
        with later_engine(server, timeout_s=0.1) as made, server.faulty("slow"), server.faulty("500", first):
            assert verdicts(ask(made, [USEFUL])) == ["Timeout"]
        assert len(server.chats) == 4

    def test_a_rate_limit_is_waited_for_which_is_no_attempt(self, server: ChatServer) -> None:
        limited = When(calls=range(2, 40))
        with engine(server, max_concurrency=1) as made, server.faulty(too_many(0.02), limited):
            assert verdicts(ask(made, TEXTS[:2])) == [0, 0]
        assert len(server.chats) == 40

    @pytest.mark.parametrize("before", [0, 1])
    def test_a_server_that_lets_no_call_through_ends_judging(
        self, server: ChatServer, before: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(asking, "PATIENCE_S", 1.0)
        with engine(server) as made, server.faulty(too_many(0.3), When(calls=range(before + 1, 1000))):
            said = verdicts(ask(made, TEXTS[:20]))
        assert said.count(0) == before and "let no call through for 1 s" in made.account.usage.stopped
        assert (made.fatal is None) == bool(before)

    @pytest.mark.parametrize(
        ("fault", "said", "requests"),
        [
            *(((PROTOCOL[name]), f"failed at the first call: .*{told}", 1) for name, told in LASTING.items()),
            (ChatFault(status=422, message="unknown field 'seed'"), "failed at the first call: .*unknown field", 1),
            (
                PROTOCOL["200 HTML"],
                "failed at the first call: .*check judge.model, judge.base_url",
                ATTEMPTS["passing"],
            ),
        ],
    )
    def test_one_of_the_first_call_that_all_would_have_ends_judging(
        self, server: ChatServer, fault: ChatFault, said: str, requests: int
    ) -> None:
        with engine(server) as made, server.faulty(fault):
            first, *others = ask(made, TEXTS[:50])
        assert len(server.chats) == requests and isinstance(first, Failure)
        assert all(isinstance(one, Unscored) for one in others)
        with pytest.raises(JudgeError, match=f"the judge {settings(server).model} {said}"):
            raise made.fatal or AssertionError

    def test_a_server_that_is_not_there_is_said_so(self, server: ChatServer) -> None:
        with engine(server, base_url=f"http://127.0.0.1:{free_port()}/v1") as made:
            ask(made, TEXTS[:5])
        assert "failed at the first call" in str(made.fatal) and "check judge.model, judge.base_url" in str(made.fatal)
        assert made.account.usage.unanswered == 0

    def test_a_key_that_is_revoked_later_ends_judging_with_what_there_is(self, server: ChatServer) -> None:
        with engine(server, max_concurrency=4) as made, server.faulty("401", When(calls=range(11, 1000))):
            said = verdicts(ask(made, TEXTS[:100]))
        assert said.count(0) == 10 and len(server.chats) <= 10 + FAILURES_IN_A_ROW + 8
        assert made.fatal is None and "the API key was refused" in made.account.usage.stopped

    @pytest.mark.parametrize("status", [401, 403])
    def test_one_refusal_among_answers_is_tried_again_and_ends_nothing(self, server: ChatServer, status: int) -> None:
        with engine(server, max_concurrency=4) as made, server.faulty(ChatFault(status=status), When(calls={14})):
            assert verdicts(ask(made, TEXTS[:30])) == [0] * 30
        assert len(server.chats) == 31 and made.account.usage.stopped == ""

    @pytest.mark.parametrize("place", [0, 1])
    def test_a_prompt_that_is_too_long_is_one_failure_even_if_it_is_the_first(
        self, server: ChatServer, place: int
    ) -> None:
        with engine(server) as made, server.faulty(TOO_LONG, When(calls={place + 1})):
            said = ask(made, [USELESS, *TEXTS[:9]])
        [failure] = [one for one in said if isinstance(one, Failure)]
        assert "maximum context length" in failure.message
        assert len(server.chats) == 10 and made.fatal is None and not made.account.usage.stopped

    def test_failures_among_answers_end_nothing(self, server: ChatServer) -> None:
        half = When(share=0.5, seed=1)
        with later_engine(server, max_concurrency=2) as made, server.faulty(ChatFault(status=400), half):
            said = verdicts(ask(made, TEXTS[:100]))
        assert 100 == said.count(0) + made.account.usage.failed and len(server.chats) < 200
        assert made.account.usage.stopped == "" and 10 < made.account.usage.failed < 80

    def test_attempts_are_logged_with_stage_and_number(self, server: ChatServer, caplog: Any) -> None:
        with caplog.at_level(logging.INFO, "evals"), later_engine(server) as made, server.faulty("500", FIRST):
            ask(made, [USEFUL])
        [record] = [one for one in caplog.records if "trying again" in one.message]
        assert (record.stage, record.attempt) == ("judge", 1) and "status 500, internal error" in record.message
