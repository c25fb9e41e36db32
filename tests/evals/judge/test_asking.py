"""From prompts to verdicts, behind both protocols and the real clients: what is asked, how often, for how much.

Faults of the network are in `tests/faults/test_faults.py`, what is a verdict and what is none in `test_chat.py`.
"""

import asyncio
import json
import logging
import math
import random
import re
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evals.collect.observations import Failure, Observation, Unscored
from evals.errors import JudgeError
from evals.judge.asking import FAILURES_IN_A_ROW
from evals.judge.budget import Usage
from evals.judge.store import VerdictStore
from evals.judge.tasks import PRECISION, RECALL, RELEVANCE, grade, tasks
from evals.judge.verdicts import ChunkVerdict, Judging, sentences
from evals.sampling.order import judging_order
from retrievers.embedding.tokens import count_tokens
from tests.support.chat_server import ChatFault, ChatRequest, ChatServer, OpenAIChatServer, Output, fails, says, tokens
from tests.support.judged import (
    ALL,
    ORACLE,
    TEXTS,
    USEFUL,
    USELESS,
    Known,
    Said,
    ask,
    engine,
    judge_of,
    observe,
    oracle,
    settings,
    verdicts,
)
from tests.support.judging import Oracle
from tests.support.loopback import Reply
from tests.support.results import observation

FIRST = {"calls": {1}}


class Asked(NamedTuple):
    said: list[Said]
    verdicts: list[int | str]
    usage: Usage
    fatal: JudgeError | None
    sent: list[ChatRequest]


def asked(
    server: ChatServer, *batches: list[str], fault: ChatFault | str | None = None, when: Any = None, **changes: Any
) -> Asked:
    before = len(server.chats)
    with engine(server, **changes) as judge, server.faulty(fault, **when or {}) if fault else nullcontext():
        said = ask(judge, *batches)
    return Asked(said, verdicts(said), judge.account.usage, judge.fatal, server.chats[before:])


def test_a_question_is_bought_once_in_a_run_and_in_all_runs_on_a_store(server: ChatServer, file: Path) -> None:
    first = asked(server, [USEFUL, USELESS] * 5, [USELESS, USEFUL], store=file)
    assert first.verdicts == [1, 0] * 5 + [0, 1]
    assert (first.usage.calls, first.usage.hits, len(first.sent)) == (2, 0, 2)
    again = asked(server, [USEFUL, USELESS], store=file)
    assert (again.verdicts, again.usage, again.sent) == ([1, 0], Usage(hits=2), [])
    failed = asked(server, ["prose"] * 3, ["prose"], fault="prose", store=file)
    assert failed.verdicts == ["Malformed"] * 4 and (len(failed.sent), failed.usage.failed) == (2, 1)
    assert asked(server, ["prose"], store=file).verdicts == [0], "a failure is not stored"


def test_two_runs_that_begin_together_on_a_store_buy_nothing_twice(server: ChatServer, file: Path) -> None:
    server.latency = 0.02
    with ThreadPoolExecutor(2) as pool:
        both = [*pool.map(lambda _: asked(server, [USEFUL, *TEXTS[:40]], store=file, max_concurrency=4), range(2))]
    assert [run.verdicts for run in both] == [[1] + [0] * 40] * 2
    assert len(server.chats) == sum(run.usage.calls for run in both) == sum(run.usage.hits for run in both) == 41


def test_no_more_are_asked_at_once_than_allowed_and_the_first_alone(server: ChatServer) -> None:
    server.latency = 0.02
    run = asked(server, TEXTS[:40], max_concurrency=4)
    assert run.verdicts == [0] * 40 and len(run.sent) == 40 and 2 <= server.peak <= 4
    refused = asked(server, TEXTS[:40], fault="401")
    assert len(refused.sent) == 1 and refused.verdicts[1:] == ["unscored"] * 39


def test_its_files_are_their_owners_alone_and_hold_json(server: ChatServer, file: Path) -> None:
    asked(server, [USEFUL], store=file)
    modes = {own.name: stat.S_IMODE(own.stat().st_mode) for own in file.parent.iterdir()}
    assert len(modes) >= 3 and set(modes.values()) == {0o600}, modes
    with closing(sqlite3.connect(file)) as database:
        [(answer, kind)] = database.execute("SELECT answer, kind FROM verdicts").fetchall()
    assert json.loads(answer)["verdict"] == 1 and kind == "ContextPrecisionOutput"


@pytest.mark.parametrize("answer", ['{"reason": "", "verdict": 7}', '{"reason": ""', b"\xff\x00", 5], ids=str)
def test_a_row_that_is_no_verdict_is_bought_again(server: ChatServer, file: Path, answer: object) -> None:
    asked(server, [USEFUL], store=file)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE verdicts SET answer = ?", (answer,))
    run = asked(server, [USEFUL], store=file)
    assert (run.verdicts, len(run.sent)) == ([1], 1)


def test_one_that_is_full_ends_judging_with_what_was_paid_for(server: ChatServer, file: Path) -> None:
    with closing(VerdictStore(file)) as store:
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        run = asked(server, TEXTS[:300], store=store, max_concurrency=2)
    bought = run.verdicts.count(0)
    assert bought == len(run.sent) < 300 and run.verdicts.count("unscored") == 300 - bought
    assert re.match(f"the verdict store {file} cannot be used .*make room", run.usage.stopped)


@pytest.mark.parametrize("content", [b"not a database at all, but a text of some length" * 20, None])
def test_a_file_of_something_else_stays_as_it_is(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "mine"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(JudgeError, match=r"cannot be used .* or name another file with judge\.cache_path"):
        VerdictStore(file)
    assert content is None or file.read_bytes() == content


def priced(server: ChatServer, read: float = 1.0, written: float = 1.0) -> dict[str, Any]:
    return {"prices": {f"{settings(server).model}": {"input": read, "output": written}}}


def writes(least: int, most: int) -> ChatFault:
    draw = random.Random(0)
    return says(lambda _: Output(text=json.dumps({"reason": "x" * draw.randint(least, most), "verdict": 0})))


def test_usage_is_what_the_server_counted_of_answers_of_any_kind(server: ChatServer) -> None:
    run = asked(server, [USEFUL, USELESS], fault="verdict 7", when={"calls": {2}}, **priced(server, 2.0, 8.0))
    read, usage = sum(tokens(chat.prompt) for chat in run.sent), run.usage
    assert (usage.calls, usage.tokens_in) == (3, read) and usage.tokens_out > 30
    assert usage.usd == pytest.approx((read * 2 + usage.tokens_out * 8) / 1e6)


def test_sixteen_at_once_spend_it_up_to_less_than_one_call_and_never_more(server: ChatServer) -> None:
    server.latency = 0.1
    run = asked(server, TEXTS[:60], fault=writes(6_000, 7_900), budget={"usd": 0.05}, **priced(server))
    assert server.peak > 1 and 50_000 - 6_000 < run.usage.tokens_in + run.usage.tokens_out <= 50_000
    assert run.verdicts.count(0) == len(run.sent) == 60 - run.verdicts.count("unscored")
    assert "does not hold another call" in run.usage.stopped


def test_after_an_answer_over_its_limit_no_call_starts_before_the_reserve_is_what_was_seen(server: ChatServer) -> None:
    server.latency, long = 0.05, writes(96_000, 96_000)
    limits: dict[str, Any] = {"max_output_tokens": 100, **priced(server)}
    run = asked(server, TEXTS[:60], fault=long, budget={"usd": 0.04}, **limits)
    assert len(run.sent) == 1 and (run.usage.usd or 0) <= 0.04
    limits |= {"budget": {"usd": 0.5}, "max_concurrency": 4}
    run = asked(server, TEXTS[:300], fault=long, when={"calls": range(30, 1000)}, **limits)
    # 29 of about a thousand tokens, 18 of 25,000 as 0.5 USD holds, and those in flight beyond it.
    assert len(run.sent) < 29 + 18 + 4 and (run.usage.usd or 0) < 0.5 + 4 * 0.026


class Miscounting(OpenAIChatServer):
    def __init__(self, oracle: Oracle, count: Any) -> None:
        super().__init__(oracle)
        self._count = count

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        body = json.loads(super().said(asked, output).body)
        body["usage"] |= {"prompt_tokens": self._count, "completion_tokens": self._count}
        return Reply.json(body)


def test_counts_that_no_server_can_mean_are_estimated_from_the_texts() -> None:
    for count in (-5, 10**12, 1.5, math.nan, None, {"a": 1}):
        with Miscounting(ORACLE, count) as server:
            run = asked(server, [USEFUL, USELESS], **priced(server))
        read = sum(count_tokens(chat.prompt) for chat in run.sent)
        assert (run.verdicts, run.usage.tokens_in, run.usage.unanswered) == ([1, 0], read, 0)
        assert 0 < run.usage.tokens_out < 100


def test_a_request_without_an_answer_is_held_against_it_and_a_refused_one_costs_nothing(server: ChatServer) -> None:
    limits: dict[str, Any] = {"budget": {"usd": 0.02}, **priced(server)}
    run = asked(server, [USEFUL], fault="torn", later=True, **limits)
    assert run.verdicts == ["unscored"] and 2 <= len(run.sent) == run.usage.unanswered < 8
    assert run.usage.tokens_in + run.usage.tokens_out == 2
    assert f", {len(run.sent)} requests without an answer at their most" in run.usage.stopped
    for fault in ("500", "429"):
        run = asked(server, [USEFUL], fault=fault, when={"calls": range(1, 3)}, **limits)
        assert (run.verdicts, run.usage.unanswered) == ([1], 0)


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("cut", "cut off at judge.max_output_tokens"),
        ("refusal", "I'm sorry, but I can't help"),
        (says(lambda _: Output(text="", filtered=True)), "the model refused to answer"),
        ("verdict 7", "verdict is 7, expected one of 0, 1"),
    ],
    ids=["cut", "refusal", "filtered", "verdict 7"],
)
def test_what_is_no_verdict_is_repaired_once_then_fails(server: ChatServer, fault: ChatFault | str, cause: str) -> None:
    run = asked(server, [USEFUL], fault=fault, when=FIRST)
    first, again = (chat.prompt for chat in run.sent)
    assert run.verdicts == [1] and again.startswith(first) and "Your last answer could not be used: " in again
    run = asked(server, [USEFUL], fault=fault)
    [failure] = run.said
    assert isinstance(failure, Failure) and failure.failed.startswith("Malformed: ")
    assert cause in failure.failed.replace("\\'", "'")
    assert (len(run.sent), run.usage.failed, run.fatal) == (2, 1, None)


def test_a_server_without_json_mode_is_found_out_by_one_request(server: ChatServer) -> None:
    def of_prose_alone(server: ChatServer, asked: ChatRequest, right: Output) -> Reply:
        return server.error(400, "no response_format", {}) if asked.response_format else server.said(asked, right)

    run = asked(server, [USEFUL, *TEXTS[:9]], fault=of_prose_alone)
    assert run.verdicts == [1] + [0] * 9
    assert [bool(chat.response_format) for chat in run.sent] == [True] + [False] * 10


@pytest.mark.parametrize(("fault", "before"), [("refusal", 0), ("refusal", 20), ("401", 10)])
def test_a_judge_that_gives_no_more_verdicts_is_soon_asked_no_more(server: ChatServer, fault: str, before: int) -> None:
    run = asked(server, TEXTS[:100], fault=fault, when={"calls": range(before + 1, 1000)}, max_concurrency=4)
    assert run.verdicts.count(0) == before and run.fatal is None
    assert before + FAILURES_IN_A_ROW <= len(run.sent) <= before + FAILURES_IN_A_ROW + 8
    assert "failed 32 times in a row, at last: " in run.usage.stopped


def test_failures_among_answers_end_nothing(server: ChatServer) -> None:
    half, refused = {"calls": random.Random(1).sample(range(400), 200)}, fails(400, "bad request")
    run = asked(server, TEXTS[:100], fault=refused, when=half, later=True, max_concurrency=2)
    assert 100 == run.verdicts.count(0) + run.usage.failed and len(run.sent) < 200
    assert run.usage.stopped == "" and 10 < run.usage.failed < 80
    too_long = fails(400, "This model's maximum context length is 8192 tokens")
    run = asked(server, TEXTS[:10], fault=too_long, when=FIRST)
    assert (len(run.sent), run.verdicts.count(0), run.fatal, run.usage.stopped) == (10, 9, None, "")


def test_faults_of_all_kinds_are_attempts_together_logged_and_repaired(server: ChatServer, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "evals"), server.faulty("prose", {2}):
        assert asked(server, [USEFUL], fault="500", when=FIRST, later=True).verdicts == [1]
    told = [record.message[:16] for record in caplog.records if "trying again" in record.message]
    assert told == ["attempt 1 failed", "attempt 2 failed"] and "status 500, internal error" in caplog.text
    with server.faulty("slow"):
        run = asked(server, [USEFUL], fault="500", when={"calls": {1, 2, 3}}, later=True, timeout_s=0.1)
    assert (run.verdicts, len(run.sent)) == (["Timeout"], 4)


def test_a_rate_limit_is_waited_for_which_is_no_attempt(server: ChatServer) -> None:
    busy, later = fails(429, "rate limited", **{"Retry-After": "0.02"}), {"calls": range(2, 40)}
    run = asked(server, TEXTS[:2], fault=busy, when=later, max_concurrency=1)
    assert (run.verdicts, len(run.sent)) == ([0, 0], 40)


# The judge of a run: what it asks, what it says, what it costs, and its plan

RUN = [
    observe("pose", ["topic", "forward"]),
    observe("talk", ["topic", "action", "soup"]),
    observe("soup", []),
    observe("soup", ["soup"], reference_answer=None, id="silent"),
    observation("outside", observe("pose", ["soup"]).selection, 1),
]
CALLS = (2 + 1 + 2 + 2) + (3 + 1 + 2 + 2) + 2
"""Of each query that returned something: a call a chunk, one for recall, two for relevance, two for entities; without
a reference answer the two for relevance alone."""
MANY = [observe("pose", ["topic", "forward"], query=f"How {n}?", id=f"q{n}") for n in range(40)]
BROKEN = Failure(failed="Timeout: no answer in time")


def judged(server: ChatServer, *observations: Observation, metrics: Any = ALL, **settings: Any) -> Judging:
    with judge_of(server, **settings) as judge:
        return judge.judge(metrics, observations or RUN)


def useful(said: Judging) -> dict[tuple[str, str], int | str]:
    return {
        key: found.verdict if isinstance(found, ChunkVerdict) else type(found).__name__
        for key, found in said.verdicts.items()
    }


def test_all_that_the_metrics_need_is_asked_once_and_kept(server: ChatServer, file: Path) -> None:
    told: list[tuple[int, int]] = []
    with judge_of(server, told=lambda done, total, usage: told.append((done, total))) as judge:
        said = judge.judge([PRECISION, "ranking/mrr_at_10"], RUN)
    assert len(server.chats) == 5 and said.scores == {} and said.claims == {}, "only what is wanted"
    assert told == [(n, 5) for n in range(1, 6)]
    server.requests.clear()
    first, second = (judged(server, store=file) for _ in range(2))
    assert len(server.chats) == first.usage.calls == CALLS
    assert useful(first) == {
        ("pose", "topic"): 0, ("pose", "forward"): 1,
        ("talk", "topic"): 1, ("talk", "action"): 1, ("talk", "soup"): 0,
    }  # fmt: skip
    assert first.scores[RECALL, "pose", ("topic", "forward")] == 0.5
    assert first.scores[RELEVANCE, "talk", ("topic", "action", "soup")] == 1.0
    assert [claim.attributed for claim in first.claims["talk", ("topic", "action", "soup")]] == [1, 1, 0]
    assert first.model == settings(server).model and first.incomplete == "" and first.again is None
    assert (second.usage.calls, second.usage.hits) == (0, CALLS)
    assert (second.verdicts, second.scores, second.claims) == (first.verdicts, first.scores, first.claims)
    judged(server, observe("pose", ["forward", "topic"]), store=file)
    assert len(server.chats) == CALLS + 1 + 2 + 1  # recall, both ratings, entities of the joined texts; no chunk


def test_a_budget_ends_between_queries_in_judging_order(server: ChatServer) -> None:
    said = judged(server, *RUN[:2], metrics=[PRECISION], budget={"calls": 3}, max_concurrency=1)
    first, other = judging_order((o.case for o in RUN[:2]), 0)
    unjudged = {case for (case, _), verdict in useful(said).items() if verdict == "Unscored"}
    assert unjudged == {other} != {first}


def test_judging_again_is_bought_once_too_and_a_revoked_key_leaves_the_first(server: ChatServer, file: Path) -> None:
    judged(server, store=file)
    server.requests.clear()
    server.oracle = oracle(false_useless=1.0)
    with judge_of(server, store=file, rejudge=30) as judge:
        assert len(judge.plan(ALL, RUN, RUN, seed=0)["judged again"]) == 5, "the chunks: nothing else is compared"
        both = judge.again(judge.judge(ALL, RUN), ALL, RUN, seed=0)
    assert both.again is not None and both.usage.hits == CALLS and both.usage.calls == len(server.chats) == 5
    with judge_of(server, store=file, rejudge=30) as judge:
        kept = judge.again(judge.judge(ALL, RUN), ALL, RUN, seed=0)
    assert kept.again and useful(kept.again) == useful(both.again)
    assert (kept.usage.calls, kept.usage.hits, len(server.chats)) == (0, CALLS + 5, 5)
    assert useful(both)["pose", "forward"] == 1 and set(useful(both.again).values()) == {0}
    assert useful(judged(server, store=file)) == useful(both)
    with judge_of(server, rejudge=10) as judge:
        first = judge.judge([RECALL, RELEVANCE], MANY)
        with server.faulty("401"):
            both = judge.again(first, ALL, MANY, seed=0)
    assert both.scores == first.scores and both.again is not None
    assert len({case for case, _ in both.again.verdicts}) == 10
    assert all(isinstance(one, Failure | Unscored) for one in both.again.verdicts.values())


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("reason", [BROKEN, Unscored(reason="spent", missing=True)], ids=["failed", "spent"])
def test_a_question_without_an_answer_says_why_where_ragas_averages(metric: str, reason: Failure | Unscored) -> None:
    [task] = tasks([metric], [observe("pose", ["forward"])])
    complete = Known(oracle())
    asyncio.run(grade(task, complete))
    for number in range(1, len(complete.prompts) + 1):
        failing = Known(oracle(), dict.fromkeys(range(number, 20), reason))
        assert asyncio.run(grade(task, failing)) == (reason, ())
    broken = Known(oracle(), dict.fromkeys(range(1, 20), ValueError("of ragas")))
    value, _ = asyncio.run(grade(task, broken))
    swallowed = Failure(failed="NotFinite: ragas returned nan")
    assert value == (swallowed if metric == RELEVANCE else Failure(failed="ValueError: of ragas"))


def test_sentences_end_at_no_stop_before_a_small_letter() -> None:
    parts = ["It costs 3.5 m.", "Open it!", "She said so, e.g. here.", "no stop"]
    assert sentences(f"{' '.join(parts[:-1])}\n{parts[-1]}") == parts
