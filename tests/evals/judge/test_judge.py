"""The judge of a run, behind both protocols: what it asks, what it says, what it costs, and its plan.

`tests/evals/metrics/test_llm.py` has its values beside those of ragas' own classes.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evals.collect.observations import Failure, Observation, Unscored
from evals.judge.plan import SECONDS_PER_CALL, JudgePlan, stopped
from evals.judge.tasks import PRECISION, RECALL, RELEVANCE, Graded, grade, tasks
from evals.judge.verdicts import ChunkVerdict, Judging, sentences
from evals.sampling.order import judging_order
from tests.support.chat_server import ChatServer
from tests.support.judged import ALL, Known, judge_of, observe, oracle, settings
from tests.support.results import observation

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
BROKEN = Failure(type="Timeout", message="no answer in time")


@pytest.fixture(autouse=True)
def knowing(request: pytest.FixtureRequest) -> None:
    if "server" in request.fixturenames:
        request.getfixturevalue("server").oracle = oracle()


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


def test_judging_again_is_bought_once_as_well_and_a_key_revoked_before_it_leaves_the_first(
    server: ChatServer, file: Path
) -> None:
    judged(server, store=file)
    server.requests.clear()
    server.oracle = oracle(false_useless=1.0)
    with judge_of(server, store=file, rejudge=30) as judge:
        both = judge.again(judge.judge(ALL, RUN), ALL, RUN, seed=0)
    assert both.again is not None and both.usage.calls == both.usage.hits == len(server.chats) == CALLS
    with judge_of(server, store=file, rejudge=30) as judge:
        kept = judge.again(judge.judge(ALL, RUN), ALL, RUN, seed=0)
    assert kept.again and useful(kept.again) == useful(both.again)
    assert (kept.usage.calls, kept.usage.hits, len(server.chats)) == (0, 2 * CALLS, CALLS)
    assert useful(both)["pose", "forward"] == 1 and set(useful(both.again).values()) == {0}
    assert useful(judged(server, store=file)) == useful(both)
    with judge_of(server, rejudge=10) as judge:
        first = judge.judge([RECALL, RELEVANCE], MANY)
        with server.faulty("401"):
            both = judge.again(first, ALL, MANY, seed=0)
    assert both.scores == first.scores and both.again is not None
    assert len({case for case, _ in both.again.verdicts}) == 10
    assert all(isinstance(one, Failure | Unscored) for one in both.again.verdicts.values())


# Its questions


def test_questions_come_query_by_query_in_an_order_of_the_seed_and_each_once() -> None:
    cases = [observe("pose", ["topic", "topic"], id=f"case {number}") for number in range(40)]
    orders = [[task.case_id for task in tasks([PRECISION], [*cases, *cases], seed)] for seed in (0, 1)]
    assert len(orders[0]) == 40 and orders[0] != [o.case.id for o in cases] != orders[1] != orders[0]
    half = [task.case_id for task in tasks([PRECISION], cases[::2], 0)]
    assert half == [case_id for case_id in orders[0] if case_id in half]


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("reason", [BROKEN, Unscored(reason="spent", missing=True)], ids=["failed", "spent"])
def test_a_question_without_an_answer_says_why_also_where_ragas_averages_the_others(
    metric: str, reason: Failure | Unscored
) -> None:
    [task] = tasks([metric], [observe("pose", ["forward"])])
    complete = Known(oracle())
    asyncio.run(grade(task, complete))
    for number in range(1, len(complete.prompts) + 1):
        failing = Known(oracle(), dict.fromkeys(range(number, 20), reason))
        assert asyncio.run(grade(task, failing)) == Graded(value=reason)
    broken = Known(oracle(), dict.fromkeys(range(1, 20), ValueError("of ragas")))
    value = asyncio.run(grade(task, broken)).value
    swallowed = Failure(type="NotFinite", message="ragas returned nan")
    assert value == (swallowed if metric == RELEVANCE else Failure(type="ValueError", message="of ragas"))


def test_sentences_end_at_no_number_and_no_abbreviation() -> None:
    parts = ["It costs 3.5 m.", "1. Open it!", "Dr. Smith said so, e.g. here.", "no stop"]
    assert sentences(f"{' '.join(parts[:-1])}\n{parts[-1]}") == parts


# The plan; `tests/evals/run/test_judged.py` has the command's, which counts what the run asks

PLANNED = [*RUN, observe("talk", ["topic"]), observe("pose", ["forward", "twin"], id="other")]
PRICE = {"input": 2.0, "output": 8.0}


def planned(server: ChatServer, run: Any = PLANNED, metrics: Any = ALL, **settings: Any) -> JudgePlan:
    with judge_of(server, **settings) as judge:
        return judge.plan(metrics, run, run[:2], seed=0)


def test_price_and_time_are_those_of_the_settings_and_what_the_budget_leaves_out_is_said(server: ChatServer) -> None:
    unpriced, prices = planned(server), {f"{settings(server).model}": PRICE}
    whole, tokens = unpriced.total, unpriced.total.tokens_in + unpriced.total.tokens_out
    priced = planned(server, prices=prices)
    assert unpriced.usd is None
    assert priced.usd == pytest.approx((whole.tokens_in * 2 + whole.tokens_out * 8) / 1e6)
    for limits, seconds in (
        ({"max_concurrency": 4}, whole.calls * SECONDS_PER_CALL / 4),
        ({"requests_per_minute": 6}, whole.calls * 10),
        ({"requests_per_minute": 600, "tokens_per_minute": 60}, tokens),
    ):
        assert planned(server, **limits).seconds == pytest.approx(seconds)
    calls = 2 * whole.calls
    assert stopped(settings(server, budget={"calls": calls}).budget, [priced] * 2) == ""
    tight = settings(server, budget={"calls": 3, "usd": 0.001}, prices=prices).budget
    said = stopped(tight, [priced] * 2)
    assert said.startswith(f"the budget holds 3 calls of {calls}; the budget holds 0.001 USD of 0.1")
