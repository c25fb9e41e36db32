"""Engines that share a verdict store, and what they make of rows that are no verdicts."""

import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evals.judge.store import VerdictStore
from tests.support.chat_faults import When
from tests.support.chat_server import ChatServer
from tests.support.judges import TEXTS, ask, engine, verdicts
from tests.support.one_question import USEFUL, USELESS

pytestmark = pytest.mark.usefixtures("at_once")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.sqlite"


def test_two_that_begin_together_buy_nothing_twice(server: ChatServer, file: Path) -> None:
    server.latency = 0.02

    def judge(_: int) -> tuple[list[int | str], int, int]:
        with engine(server, file, max_concurrency=4) as made:
            said = verdicts(ask(made, [USEFUL, *TEXTS[:40]]))
        return said, made.account.usage.calls, made.account.usage.hits

    with ThreadPoolExecutor(2) as pool:
        (one, calls, hits), (other, others, other_hits) = pool.map(judge, range(2))
    assert one == other == [1] + [0] * 40
    assert len(server.chats) == calls + others == 41
    assert hits + other_hits == 41


def test_what_one_could_not_buy_the_other_buys(server: ChatServer, file: Path) -> None:
    with VerdictStore(file) as store:
        with engine(server, store, budget={"calls": 3}) as made:
            assert verdicts(ask(made, TEXTS[:9])).count("unscored") == 6
        with engine(server, file) as made, server.faulty("prose", When(calls={1, 2})):
            assert verdicts(ask(made, TEXTS[:9])).count("Malformed") == 1
        with engine(server, file) as made:
            assert verdicts(ask(made, TEXTS[:9])) == [0] * 9
    assert len(server.chats) == 3 + 2 + 5 + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('{"reason": "", "verdict": 7}', "verdict is 7, expected one of 0, 1"),
        ('{"reason": ""', "ValidationError, got '{"),
        ("", "ValidationError, got ''"),
        (b"\xff\x00", "ValidationError"),
        (5, "ValidationError, got '5'"),
    ],
    ids=str,
)
def test_a_row_that_is_no_verdict_is_named_and_bought_again(
    server: ChatServer, file: Path, answer: object, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with engine(server, file) as made:
        ask(made, [USEFUL, USELESS])
    with sqlite3.connect(file) as database:
        database.execute("UPDATE verdicts SET answer = ?", (answer,))
    database.close()
    with caplog.at_level(logging.WARNING), engine(server, file) as made:
        assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
    [record] = caplog.records
    assert said in record.message and str(file) in record.message
    with engine(server, file) as made:
        assert verdicts(ask(made, [USEFUL, USELESS])) == [1, 0]
    assert len(server.chats) == 4 and made.account.usage.calls == 0
