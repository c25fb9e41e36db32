"""A plan against the run that follows it, behind both protocols."""

from pathlib import Path
from typing import Any

import pytest

from evals.collect.observations import Observation
from evals.judge.plan import AGAIN, SECONDS_PER_CALL, JudgePlan, plan
from evals.judge.tasks import ENTITY_RECALL, PRECISION, RECALL, RELEVANCE
from evals.metrics import METRICS
from evals.sampling.order import among, judging_order, sample_size
from retrievers.embedding.tokens import count_tokens
from tests.support.chat_server import ChatServer
from tests.support.judged import ALL, judge_of, observe, oracle, random_observations
from tests.support.judges import settings
from tests.support.results import observation

pytestmark = pytest.mark.usefixtures("knowing")
RUN = [
    observe("pose", ["topic", "forward", "twin"]),
    observe("talk", ["topic", "action"]),
    observe("talk", ["topic"]),
    observe("soup", []),
    observe("soup", ["soup"], reference_answer=None, id="silent"),
    observation("outside", observe("pose", ["soup"]).selection, 1),
]


@pytest.fixture
def knowing(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "oracle", oracle())


def planned(server: ChatServer, run: list[Observation] | None = None, metrics: Any = ALL, **settings: Any) -> JudgePlan:
    given = RUN if run is None else run
    with judge_of(server, **settings) as judge:
        return plan(judge, metrics, given, given, seed=0)


def made(server: ChatServer, run: list[Observation] | None = None, metrics: Any = ALL, **settings: Any) -> int:
    """The requests that the run makes."""
    given = RUN if run is None else run
    server.requests.clear()
    with judge_of(server, **settings) as judge:
        judge.again(judge.judge(metrics, given), metrics, given, seed=0)
    return len(server.chats)


@pytest.mark.parametrize("metrics", [[PRECISION], [RECALL], [RELEVANCE], [ENTITY_RECALL], ALL, []], ids=len)
def test_a_run_makes_as_many_calls_as_were_planned(server: ChatServer, metrics: list[str]) -> None:
    found = planned(server, metrics=metrics)
    assert server.chats == []
    assert found.total.calls == made(server, metrics=metrics)
    assert [share.metric for share in found.shares] == [*metrics]


def test_so_it_does_on_any_selections(server: ChatServer) -> None:
    run = [*random_observations(15, seed=9)]
    assert planned(server, run).total.calls == made(server, run) > 40


def test_a_question_of_two_is_counted_once(server: ChatServer) -> None:
    """Two chunks say the same, and the entities of a reference are asked for once."""
    shares = {share.metric: share.questions for share in planned(server).shares}
    assert shares == {PRECISION: 2 + 2, RECALL: 3, RELEVANCE: 4 * 2, ENTITY_RECALL: 2 + 3}


def test_what_is_stored_is_counted_and_not_planned(server: ChatServer, tmp_path: Path) -> None:
    file = tmp_path / "verdicts.sqlite"
    made(server, RUN[:1], store=file)
    server.requests.clear()
    found = planned(server, store=file)
    assert server.chats == [] and found.total.cached == 2 + 1 + 2 + 2
    assert found.total.calls == found.total.questions - found.total.cached == made(server, store=file)
    rest = planned(server, store=file)
    assert (rest.total.calls, rest.total.tokens_in, rest.total.tokens_out, rest.seconds) == (0, 0, 0, 0)
    assert planned(server, store=file, refresh=True).total.calls == found.total.questions
    assert planned(server).total.calls == found.total.questions


@pytest.mark.slow
def test_a_second_pass_is_planned(server: ChatServer, tmp_path: Path) -> None:
    run = [*random_observations(8, seed=4)]
    run = [one for place, one in enumerate(run) if one.case.id not in {o.case.id for o in run[:place]}]
    for count in (1, 2, 30):
        again = {"rejudge": count, "store": tmp_path / f"{count}.sqlite"}
        found = planned(server, run, **again)
        assert found.shares[-1].metric == AGAIN and found.shares[-1].cached == 0
        assert found.total.calls == made(server, run, **again)
        stored = planned(server, run, **again)
        assert stored.total.calls == stored.shares[-1].calls == made(server, run, **again) > 0


@pytest.mark.parametrize("sample", ["all", 0.3, 5, 100])
@pytest.mark.slow
def test_a_sample_makes_as_many_calls_as_were_planned(server: ChatServer, sample: Any) -> None:
    run = [*random_observations(12, seed=3)]
    found = planned(server, run, sample=sample)
    with judge_of(server, sample=sample) as judge:
        order = judging_order((o.case for o in run), 0)
        judge.judge({name: METRICS[name] for name in ALL}, among(order[: found.drawn], run))
    assert found.total.calls == len(server.chats) == next(s.calls for s in found.samples if s.queries == found.drawn)
    assert found.drawn == sample_size(judge.config.sample, len(order))
    assert found.samples[-1].calls == planned(server, run).total.calls and not found.grows


def test_of_a_share_ten_queries_at_least_are_judged_which_is_said(server: ChatServer) -> None:
    run = [observe("pose", ["topic"], id=f"q{number}") for number in range(66)]
    found = planned(server, run, sample=0.1)
    assert (found.drawn, found.few) == (10, ", as many as an interval needs where 0.1 is fewer")
    assert planned(server, run, sample=0.2).few == ""


def test_an_automatic_sample_has_a_least_and_a_most(server: ChatServer) -> None:
    run = [observe("pose", ["topic"], id=f"q{number}") for number in range(40)]
    found = planned(server, run, sample="auto")
    assert (found.drawn, found.samples[-1].queries, found.grows) == (20, 40, True)


def test_tokens_are_those_of_the_prompts(server: ChatServer) -> None:
    found = planned(server, [RUN[1]], [PRECISION])
    made(server, [RUN[1]], [PRECISION])
    assert found.total.tokens_in == sum(count_tokens(chat.prompt) for chat in server.chats)


def test_the_length_of_answers_is_guessed_until_there_are_some(server: ChatServer, tmp_path: Path) -> None:
    file = tmp_path / "verdicts.sqlite"
    guessed = planned(server, store=file)
    assert not guessed.measured_answers and guessed.total.tokens_out == 150 * guessed.total.calls
    made(server, RUN[:1], store=file)
    measured = planned(server, store=file)
    assert measured.measured_answers and 0 < measured.total.tokens_out < 150 * measured.total.calls
    assert not planned(server).measured_answers


def test_the_price_is_that_of_the_table(server: ChatServer) -> None:
    assert planned(server).usd is None
    found = planned(server, prices={settings(server).model or "": {"input": 2.0, "output": 8.0}})
    assert found.usd == pytest.approx((found.total.tokens_in * 2 + found.total.tokens_out * 8) / 1e6)


def test_the_time_is_that_of_the_tightest_limit(server: ChatServer) -> None:
    calls = planned(server).total.calls
    tokens = planned(server).total.tokens_in + planned(server).total.tokens_out
    assert planned(server, max_concurrency=4).seconds == calls * SECONDS_PER_CALL / 4
    assert planned(server, requests_per_minute=6).seconds == calls * 10
    assert planned(server, requests_per_minute=600, tokens_per_minute=60).seconds == tokens


def test_what_the_budget_leaves_out_is_said(server: ChatServer) -> None:
    whole = planned(server).total
    assert planned(server, budget={"calls": whole.calls}).stopped == ""
    assert planned(server, budget={"calls": 3}).stopped == f"the budget holds 3 calls of {whole.calls}"
    prices = {settings(server).model or "": {"input": 1.0, "output": 1.0}}
    stopped = planned(server, budget={"calls": 2, "usd": 0.001}, prices=prices).stopped
    assert stopped.startswith("the budget holds 2 calls of ") and "the budget holds 0.001 USD of 0.0" in stopped
