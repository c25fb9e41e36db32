"""LLM-graded metrics through a server and the real client, beside ragas' own classes on the same lists."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Failure, Observation, Observed, Score, Summary, Unscored
from evals.judge.budget import Usage
from evals.judge.tasks import PRECISION, RECALL, RELEVANCE
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics import METRICS
from evals.metrics.declaration import Context, summarise
from evals.sampling.order import judging_order
from tests.support.chat_server import ChatServer, CohereChatServer
from tests.support.judged import ALL, by_ragas, judge_of, judging, observe, oracle, random_observations
from tests.support.openai_server import OpenAIChatServer
from tests.support.results import observation
from tests.support.scored import metric_of, results_of, scored

SPENT = "the budget of 2 calls is spent"
MANY = [*random_observations(24, seed=0)]
EMPTY = observe("talk", [])
ERRING = {"false_useful": 0.3, "false_useless": 0.3}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(CohereChatServer, id="cohere"),
        pytest.param(OpenAIChatServer, id="openai", marks=pytest.mark.slow),
    ],
)
def server(request: pytest.FixtureRequest) -> Iterator[ChatServer]:
    kind: type[ChatServer] = request.param
    with kind(oracle(**ERRING)) as running:
        yield running


@pytest.fixture(scope="module")
def said(server: ChatServer) -> Judging:
    """Verdicts of the judge on many selections."""
    with judge_of(server) as judge:
        return judge.judge(ALL, [*MANY, EMPTY])


def scores(metric: str, observations: Sequence[Observation], said: Judging | None) -> list[Score]:
    return scored(metric, observations, context(said))


def context(said: Judging | None) -> Context:
    return Context(required=(), sources=None, relevant_texts={}, seed=0, judging=said)


def verdicts(*given: int | Failure | Unscored) -> Judging:
    """The verdicts on the chunks of one selection, in rank order."""
    names = ("topic", "forward", "inverse", "action", "soup")
    found = [ChunkVerdict(verdict=one, reason="") if isinstance(one, int) else one for one in given]
    return judging(verdicts={("pose", name): one for name, one in zip(names, found, strict=False)})


def of_verdicts(*given: int | Failure | Unscored) -> Score:
    names = ("topic", "forward", "inverse", "action", "soup")[: len(given)]
    [score] = scores(PRECISION, [observe("pose", names)], verdicts(*given))
    return score


@pytest.mark.parametrize("metric", ALL)
def test_values_equal_those_of_ragas_on_the_same_lists(metric: str, said: Judging) -> None:
    expected = [by_ragas(metric, one, oracle(**ERRING)) for one in MANY]
    assert scores(metric, MANY, said) == pytest.approx(expected, abs=1e-9)
    assert len(set(expected)) > 1


@pytest.mark.parametrize("metric", ALL)
def test_an_empty_result_is_worth_nothing_and_costs_nothing(metric: str, server: ChatServer) -> None:
    server.requests.clear()
    with judge_of(server) as judge:
        nothing = judge.judge([metric], [EMPTY])
    assert scores(metric, [EMPTY], nothing) == [0.0]
    assert server.chats == [] and nothing.usage.calls == 0


def test_a_case_without_a_reference_is_unscored_where_one_is_needed(server: ChatServer) -> None:
    one = observe("pose", ["forward"], reference_answer=None)
    with judge_of(server) as judge:
        found = judge.judge(ALL, [one])
    [relevance] = scores(RELEVANCE, [one], found)
    assert isinstance(relevance, float)
    for metric in set(ALL) - {RELEVANCE}:
        assert scores(metric, [one], found) == [Unscored(reason="the case has no reference answer")]


@pytest.mark.parametrize("metric", ALL)
def test_a_verdict_that_fails_makes_its_query_fail_and_is_no_zero(metric: str, server: ChatServer) -> None:
    two = [observe("pose", ["forward"]), observe("talk", ["topic"])]
    with judge_of(server) as judge, server.faulty("verdict 7" if metric == RELEVANCE else "prose"):
        found = scores(metric, two, judge.judge([metric], two))
    with judge_of(server) as judge:
        sound = scores(metric, two, judge.judge([metric], two))
    assert all(isinstance(one, Failure) for one in found) and all(isinstance(one, float) for one in sound)
    summary = summarise(metric, [found[0], sound[1]], "mean")
    assert (summary.n, summary.n_failed, summary.usable) == (1, 1, False)
    assert summary.bound_low == sound[1] / 2 and summary.bound_high == (sound[1] + 1) / 2  # type: ignore[operator]


def test_precision_without_a_verdict_on_every_chunk_has_no_value() -> None:
    late, spent = Failure(type="Timeout", message="m"), Unscored(reason=SPENT, missing=True)
    assert of_verdicts(1, late) == late
    assert of_verdicts(1, spent, 0) == spent
    assert scores(PRECISION, [observe("pose", ["topic", "soup"])], verdicts(1)) == [Unscored(reason="not judged")]


@pytest.mark.parametrize("metric", [PRECISION, RECALL])
def test_when_judging_ends_early_no_empty_result_behind_counts(metric: str) -> None:
    """Else the mean would be of what was judged and of all that is empty, and sink with every query not judged."""
    cases = [observe("pose", [], id=case_id).case for case_id in "abcdef"]
    first, empty_before, second, empty_behind, judged_all_the_same, last = judging_order(cases, 0)
    run = [
        observe("pose", ["forward"], id=first), observe("pose", [], id=empty_before),
        observe("pose", ["topic"], id=second), observe("pose", [], id=empty_behind),
        observe("pose", ["soup"], id=judged_all_the_same), observe("pose", [], id=last),
    ]  # fmt: skip
    spent = Unscored(reason=SPENT, missing=True)
    yes = ChunkVerdict(verdict=1, reason="")
    ended = judging(
        verdicts={
            (first, "forward"): yes,
            (second, "topic"): spent,
            (judged_all_the_same, "soup"): yes,
        },
        scores={
            (RECALL, first, ("forward",)): 1.0,
            (RECALL, second, ("topic",)): spent,
            (RECALL, judged_all_the_same, ("soup",)): 1.0,
        },
        usage=Usage(calls=2, stopped=SPENT),
    )
    found = scores(metric, run, ended)
    assert found == [pytest.approx(1), 0.0, spent, spent, pytest.approx(1), spent]
    summary = summarise(metric, found, "mean")
    assert (summary.n, summary.n_unscored, summary.n_missing) == (3, 3, 3)
    assert (summary.bound_low, summary.bound_high) == pytest.approx((2 / 6, 5 / 6))


def test_without_a_judge_nothing_is_scored() -> None:
    reason = "there is no judge (judge.model)"
    for metric in ALL:
        assert scores(metric, [EMPTY, MANY[0]], None) == [Unscored(reason=reason)] * 2
    for name in (name for name in METRICS if name.startswith("cost/judge_")):
        assert cost(name, None) == Summary(metric=name, value=None, note=reason)


def test_out_of_scope_queries_are_not_judged() -> None:
    outside = observation("outside", MANY[0].candidates, 1)
    for metric in ALL:
        values = metric_of(metric).values(results_of([outside, MANY[0]]), context(judging()))
        assert values.issue is not None and values.issue[0] == -1, "of another scope there is no reason either"
        assert np.isnan(values.values).all() and isinstance(values[1], Unscored)


def cost(name: str, said: Judging | None) -> Summary:
    how: Any = METRICS[name]
    summary: Summary = how.summarise(Observed(observations=()), context(said))
    return summary


def test_costs_are_those_of_the_whole_run() -> None:
    paid = judging(usage=Usage(calls=7, hits=3, tokens_in=1000, tokens_out=50, usd=0.25))
    values = {name: cost(f"cost/judge_{name}", paid).value for name in ("calls", "cache_hits", "tokens", "usd")}
    assert values == {"calls": 7, "cache_hits": 3, "tokens": 1050, "usd": 0.25}
    unpriced = cost("cost/judge_usd", judging())
    assert unpriced.value is None and unpriced.note == "no price for cohere:command in judge.prices"
