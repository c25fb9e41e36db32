"""The judge of a run, behind both protocols."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.collect.observations import Failure, Observation, Unscored
from evals.errors import JudgeError
from evals.judge.budget import Usage
from evals.judge.judge import repeated
from evals.judge.tasks import PRECISION, RECALL, RELEVANCE
from evals.judge.verdicts import ChunkVerdict, Judging, context_precision
from evals.sampling.order import judging_order
from tests.support.chat_faults import When
from tests.support.chat_server import ChatServer
from tests.support.judged import ALL, by_ragas, judge_of, observe, oracle, random_observations
from tests.support.judges import keys, settings
from tests.support.results import observation

pytestmark = pytest.mark.usefixtures("at_once", "knowing")
RUN = [
    observe("pose", ["topic", "forward"]),
    observe("talk", ["topic", "action", "soup"]),
    observe("soup", []),
    observation("outside", observe("pose", ["soup"]).selection, 1),
]
CALLS = (2 + 1 + 2 + 2) + (3 + 1 + 2 + 2)
"""Of each query that returned something: a call a chunk, one for recall, two for relevance, two for entities."""


@pytest.fixture
def knowing(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "oracle", oracle())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "verdicts.sqlite"


def judged(server: ChatServer, *observations: Observation, metrics: Any = ALL, **settings: Any) -> Judging:
    with judge_of(server, **settings) as judge:
        return judge.judge(metrics, observations or RUN)


def useful(said: Judging) -> dict[tuple[str, str], int | str]:
    return {
        key: found.verdict if isinstance(found, ChunkVerdict) else type(found).__name__
        for key, found in said.verdicts.items()
    }


def test_all_that_the_metrics_need_is_asked_once(server: ChatServer) -> None:
    said = judged(server)
    assert len(server.chats) == said.usage.calls == CALLS
    assert useful(said) == {
        ("pose", "topic"): 0, ("pose", "forward"): 1,
        ("talk", "topic"): 1, ("talk", "action"): 1, ("talk", "soup"): 0,
    }  # fmt: skip
    assert said.scores[RECALL, "pose", ("topic", "forward")] == 0.5
    assert said.scores[RELEVANCE, "talk", ("topic", "action", "soup")] == 1.0
    assert [claim.attributed for claim in said.claims["talk", ("topic", "action", "soup")]] == [1, 1, 0]
    assert said.model == settings(server).model and said.incomplete == "" and said.again is None


def test_only_what_is_wanted_is_asked(server: ChatServer) -> None:
    said = judged(server, metrics=[PRECISION, "ranking/mrr_at_10"])
    assert len(server.chats) == 5 and said.scores == {} and said.claims == {}


def test_a_wrong_key_is_one_request_and_an_error_with_what_to_do(server: ChatServer, file: Path) -> None:
    refused = r"refuses every call: .*status 401, the API key was refused; check the var"
    with (
        judge_of(server, store=file, env=dict.fromkeys(keys(server), "wrong")) as judge,
        pytest.raises(JudgeError, match=refused),
    ):
        judge.judge(ALL, RUN)
    assert len(server.chats) == 1


def test_an_unknown_model_is_one_request(server: ChatServer) -> None:
    model = f"{settings(server).provider}:nope"
    with pytest.raises(JudgeError, match=r"status 404, no such model, or judge\.base_url is wrong \(model 'nope'"):
        judged(server, model=model)
    assert len(server.chats) == 1


def test_questions_in_many_are_all_told_about(server: ChatServer) -> None:
    told: list[tuple[int, int, Usage]] = []
    with judge_of(server, told=lambda done, total, usage: told.append((done, total, usage))) as judge:
        judge.judge([PRECISION, RECALL], RUN)
    assert [done for done, _, _ in told] == [*range(1, 8)]
    assert {total for _, total, _ in told} == {7} and told[-1][2].calls == 7


def test_a_failure_is_logged_once_with_its_query(server: ChatServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "evals"), server.faulty("prose", When(share=1.0)):
        said = judged(server, RUN[0], metrics=[PRECISION, RELEVANCE])
    assert useful(said) == {("pose", "topic"): "Failure", ("pose", "forward"): "Failure"}
    logged = [(getattr(one, "query_id", ""), getattr(one, "stage", "")) for one in caplog.records]
    assert logged == [("pose", "judge")] * 3
    assert "ragas/llm_context_precision of pose failed: Malformed: expected a JSON object" in caplog.text


def test_what_the_budget_does_not_hold_is_unscored_with_the_reason(server: ChatServer) -> None:
    said = judged(server, budget={"calls": 4}, max_concurrency=1)
    assert len(server.chats) == 4
    spent = Unscored(reason="the budget of 4 calls is spent", missing=True)
    assert said.incomplete == spent.reason
    useless = {"pose": "topic", "talk": "soup"}
    asked, other = (case_id for case_id in judging_order((o.case for o in RUN), 0) if case_id in useless)
    assert said.verdicts[other, useless[other]] == spent
    assert useful(said)[asked, useless[asked]] == 0


# The store


def test_verdicts_are_kept_for_the_next_run(server: ChatServer, file: Path) -> None:
    first, second = (judged(server, store=file) for _ in range(2))
    assert len(server.chats) == CALLS
    assert (second.usage.calls, second.usage.hits) == (0, CALLS)
    assert (second.verdicts, second.scores, second.claims) == (first.verdicts, first.scores, first.claims)


def test_a_second_selection_of_the_same_chunks_costs_what_is_new(server: ChatServer, file: Path) -> None:
    judged(server, store=file)
    server.requests.clear()
    judged(server, observe("pose", ["forward", "topic"]), store=file)
    assert len(server.chats) == 1 + 2 + 1  # recall, both ratings, the entities of the joined texts; no chunk


def test_refreshed_verdicts_take_the_place_of_the_old(server: ChatServer, file: Path) -> None:
    judged(server, store=file)
    server.oracle = oracle(false_useless=1.0)
    said = judged(server, store=file, refresh=True)
    assert set(useful(said).values()) == {0} and len(server.chats) == 2 * CALLS
    assert useful(judged(server, store=file)) == useful(said) and len(server.chats) == 2 * CALLS


def test_without_rejudging_nothing_is_asked_again(server: ChatServer) -> None:
    with judge_of(server) as judge:
        first = judge.judge(ALL, RUN)
        assert judge.again(first, ALL, RUN, seed=0) is first
    assert len(server.chats) == CALLS


def test_judging_again_goes_past_the_store_and_leaves_it_alone(server: ChatServer, file: Path) -> None:
    judged(server, store=file)
    server.requests.clear()
    server.oracle = oracle(false_useless=1.0)
    with judge_of(server, store=file, rejudge=30) as judge:
        both = judge.again(judge.judge(ALL, RUN), ALL, RUN, seed=0)
    assert len(server.chats) == CALLS and both.again is not None
    assert both.usage.calls == CALLS and both.usage.hits == CALLS
    assert useful(both)["pose", "forward"] == 1 and set(useful(both.again).values()) == {0}
    assert useful(judged(server, store=file)) == useful(both)


def test_a_key_revoked_before_the_second_pass_leaves_the_first(server: ChatServer) -> None:
    with judge_of(server, rejudge=30) as judge:
        first = judge.judge(ALL, RUN)
        with server.faulty("401"):
            both = judge.again(first, ALL, RUN, seed=0)
    assert both.verdicts == first.verdicts and "refuses every call" in both.incomplete
    assert both.again is not None and all(isinstance(one, Failure | Unscored) for one in both.again.verdicts.values())


def test_a_sample_of_the_queries_that_were_judged_is_repeated() -> None:
    many = [observe("pose", ["topic"], id=f"q{n}") for n in range(50)]
    chosen = [repeated([*many, *RUN[2:]], 10, seed) for seed in (0, 0, 1)]
    assert [o.case.id for o in chosen[0]] == [o.case.id for o in chosen[1]] != [o.case.id for o in chosen[2]]
    assert len(chosen[0]) == 10 and {o.case.id for o in chosen[0]} <= {o.case.id for o in many}
    places = [many.index(o) for o in chosen[0]]
    assert places == sorted(places)
    assert len(repeated([*many, *RUN[2:]], 99, 0)) == 50
    assert repeated(RUN[2:], 5, 0) == []


# Against ragas itself


def test_thirty_queries_by_four_metrics_are_what_ragas_own_classes_say_to_the_last_bit(server: ChatServer) -> None:
    thirty = enumerate(random_observations(30, seed=7))
    many = [replace(one, case=one.case.model_copy(update={"id": f"q{number}"})) for number, one in thirty]
    with judge_of(server) as judge:
        said = judge.judge(ALL, many)
    known = server.oracle
    for one in many:
        ids = one.selection.chunk_ids
        assert context_precision(one, said) == by_ragas(PRECISION, one, known)
        assert all(said.scores[metric, one.case.id, ids] == by_ragas(metric, one, known) for metric in ALL[1:])
