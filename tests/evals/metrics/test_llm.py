"""LLM-graded metrics beside ragas' own classes on the same lists, and what goes with them and costs nothing."""

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from evals.collect.observations import Failure, Observation, Observed, Score, Summary, Unscored
from evals.judge.budget import Usage
from evals.judge.tasks import PRECISION, RECALL, RELEVANCE
from evals.judge.verdicts import ChunkVerdict, Judging, average_precision
from evals.metrics import METRICS
from evals.metrics.declaration import NO_VALUE, Context, QueryMetric, RunMetric, summarise
from evals.metrics.proxies import NO_REFERENCE, PRECISION_PROXY, RECALL_PROXY, RELEVANCE_PROXY, foretelling
from evals.sampling.order import NOT_DRAWN, judging_order
from tests.support.chat_server import ChatServer
from tests.support.judged import ALL, CHUNKS, PROTOCOLS, QUERIES, by_ragas, judge_of, judging, observe, oracle
from tests.support.observed import make_case, make_chunk, metric_of, results, results_of, scored
from tests.support.observed import observe as observed
from tests.support.results import observation

DRAW = random.Random(0)
MANY = [observe(DRAW.choice([*QUERIES]), DRAW.choices([*CHUNKS], k=DRAW.randint(1, 6))) for _ in range(24)]
"""Selections of one to six chunks, with repeats."""
EMPTY = observe("talk", [])
UNANSWERED = observe("pose", ["forward"], reference_answer=None)
ERRING = {"false_useful": 0.3, "false_useless": 0.3}
NO_JUDGE = "there is no judge (judge.model)"
SPENT = Unscored(reason="the budget of 2 calls is spent", missing=True)
YES = ChunkVerdict(verdict=1, reason="")


@pytest.fixture(scope="module", params=PROTOCOLS)
def server(request: pytest.FixtureRequest) -> Iterator[ChatServer]:
    kind: type[ChatServer] = request.param
    with kind(oracle(**ERRING)) as running:
        yield running


def context(said: Judging | None) -> Context:
    return Context(required=(), sources=None, relevant_texts={}, seed=0, judging=said)


def scores(metric: str, observations: Sequence[Observation], said: Judging | None) -> list[Score]:
    return scored(metric, observations, context(said))


@pytest.mark.parametrize("metric", ALL)
def test_values_are_those_of_ragas_and_an_empty_result_costs_nothing(metric: str, server: ChatServer) -> None:
    expected = [by_ragas(metric, one, oracle(**ERRING)) for one in MANY]
    with judge_of(server) as judge:
        found = scores(metric, [*MANY, EMPTY], judge.judge([metric], [*MANY, EMPTY]))
        server.requests.clear()
        nothing = judge.judge([metric], [EMPTY])
    assert found == [*(pytest.approx(score, abs=1e-9) for score in expected), 0.0]
    assert len(set(expected)) > 1
    assert scores(metric, [EMPTY], nothing) == [0.0] and server.chats == []


@pytest.mark.parametrize("metric", ALL)
def test_a_verdict_that_fails_makes_its_query_fail_and_is_no_zero(metric: str, server: ChatServer) -> None:
    asked = [observe("pose", ["forward"]), observe("talk", ["topic"]), UNANSWERED]
    with judge_of(server) as judge, server.faulty("verdict 7" if metric == RELEVANCE else "prose"):
        *failed, unanswered = scores(metric, asked, judge.judge([metric], asked))
    with judge_of(server) as judge:
        *sound, known = scores(metric, asked, judge.judge([metric], asked))
    assert all(isinstance(one, Failure) for one in failed) and all(isinstance(one, float) for one in sound)
    if metric == RELEVANCE:
        assert isinstance(unanswered, Failure) and isinstance(known, float), "it needs no reference"
    else:
        assert unanswered == known == Unscored(reason="the case has no reference answer")
    summary = summarise(metric_of(metric), [failed[0], sound[1]])
    assert (summary.n, summary.n_failed, summary.usable) == (1, 1, False)
    assert summary.bound_low == sound[1] / 2 and summary.bound_high == (sound[1] + 1) / 2  # type: ignore[operator]


@pytest.mark.parametrize("metric", [PRECISION, RECALL])
def test_when_judging_ends_early_no_empty_result_behind_counts(metric: str) -> None:
    cases = [observe("pose", [], id=case_id).case for case_id in "abcdef"]
    first, empty_before, second, empty_behind, judged_all_the_same, last = judging_order(cases, 0)
    returned = {first: ["forward"], second: ["forward", "topic"], judged_all_the_same: ["soup"]}
    order = (first, empty_before, second, empty_behind, judged_all_the_same, last)
    run = [observe("pose", returned.get(key, []), id=key) for key in order]
    ended = judging(
        verdicts={(key, one): SPENT if one == "topic" else YES for key, many in returned.items() for one in many},
        scores={(RECALL, key, tuple(many)): SPENT if key == second else 1.0 for key, many in returned.items()},
        usage=Usage(calls=2, stopped=SPENT.reason),
    )
    found = scores(metric, run, ended)
    assert found == [pytest.approx(1), 0.0, SPENT, SPENT, pytest.approx(1), SPENT]
    graded = metric_of(metric)
    assert foretelling(graded, ended) is graded.proxy, "the other queries would have another measure"
    summary = summarise(graded, found)
    assert (summary.n, summary.n_unscored, summary.n_missing) == (3, 3, 3)
    assert (summary.bound_low, summary.bound_high) == pytest.approx((2 / 6, 5 / 6))


@pytest.mark.parametrize("metric", ALL)
def test_what_no_judge_was_asked_about_is_not_scored(metric: str) -> None:
    assert scores(metric, [EMPTY, MANY[0]], None) == [Unscored(reason=NO_JUDGE)] * 2
    assert scores(metric, [EMPTY], judging(drawn=frozenset())) == [NOT_DRAWN]
    outside = observation("outside", MANY[0].candidates, 1)
    values = metric_of(metric).values(results_of([outside, MANY[0]]), context(judging()))
    assert values.issue[0] == -1, "of another scope there is no reason either"
    assert np.isnan(values.values).all() and isinstance(values[1], Unscored)


def test_costs_are_those_of_the_whole_run() -> None:
    def figure(name: str, said: Judging | None) -> Summary:
        metric = METRICS[name]
        assert isinstance(metric, RunMetric)
        return metric.summarise(Observed(observations=()), context(said))

    paid = judging(usage=Usage(calls=7, hits=3, tokens_in=1000, tokens_out=50, usd=0.25))
    expected = {"calls": 7, "cache_hits": 3, "tokens": 1050, "usd": 0.25}
    assert {name: figure(f"cost/judge_{name}", paid).value for name in expected} == expected
    written = [METRICS[f"cost/judge_{name}"].written(value) for name, value in expected.items()]
    assert written == ["7", "3", "1,050", "0.2500"]
    unpriced = figure("cost/judge_usd", judging())
    assert unpriced.value is None and unpriced.note == "no price for cohere:command in judge.prices"
    for name in METRICS:
        if name.startswith(("judge/", "cost/judge_")) or name.endswith("corrected"):
            assert (figure(name, None).value, figure(name, None).note) == (None, NO_JUDGE)


# Six distinct words, so that a useful chunk holds at least two of them.
ANSWER = "Motors turn slowly; motors stop at night."
# "Motors turn slowly" has 3 words, "they stop at night" 4: "two" holds 2 of the first, "four" 1 of it.
SENTENCES = "Motors turn slowly. They stop at night."
TEXTS = {"two": "Slowly, MOTORS warm.", "one": "No night train.", "none": "Wire.", "four": "They turn at night, stop."}


def asked(*ids: str, answer: str | None = ANSWER, labels: dict[str, int] | None = None) -> Observation:
    case = make_case(relevant_ids=labels or {}, reference_answer=answer)
    return observed(results(*(make_chunk(key, TEXTS[key]) for key in ids)), labels or {}, case=case)


def useful(*verdicts: int) -> float:
    return float(average_precision(np.array([verdicts]))[0])


LABELLED = asked("two", labels={"two": 1})


@pytest.mark.parametrize(
    ("proxy", "observations", "expected"),
    [
        # A chunk is useful from a third of the answer's words on.
        (PRECISION_PROXY, [asked("two", "none")], [useful(1, 0)]),
        (PRECISION_PROXY, [asked("one", "four", "none", "two")], [useful(0, 1, 0, 1)]),
        (PRECISION_PROXY, [asked("one", "none")], [0.0]),
        (PRECISION_PROXY, [asked()], [0.0]),
        # Labels decide where there are any.
        (PRECISION_PROXY, [asked("two", "none", labels={"none": 1}), asked("two")], [useful(0, 1), useful(1)]),
        (PRECISION_PROXY, [asked("two", answer=None)], [NO_REFERENCE]),
        # Without labels it is the share of the answer's sentences of which the result holds enough words.
        (RECALL_PROXY, [asked("two", answer=SENTENCES)], [0.0]),
        (RECALL_PROXY, [asked("two", "four", answer=SENTENCES)], [1.0]),
        (RECALL_PROXY, [asked("four", answer=SENTENCES)], [0.5]),
        (RECALL_PROXY, [asked(answer=SENTENCES)], [0.0]),
        # One scale for all queries.
        (RECALL_PROXY, [LABELLED], [1.0]),
        (RECALL_PROXY, [LABELLED, asked("two")], [0.0, 0.0]),
        # What needs a reference is not asked about queries without.
        (RECALL_PROXY, [LABELLED, asked("two", answer=None)], [1.0, NO_REFERENCE]),
        (RELEVANCE_PROXY, [LABELLED, asked("two", labels={"four": 1}, answer=None)], [1.0, 0.0]),
        (RELEVANCE_PROXY, [asked("two"), asked("two", answer=None)], [NO_VALUE, NO_VALUE]),
    ],
)
def test_scores_by_hand(proxy: QueryMetric, observations: list[Observation], expected: list[Score]) -> None:
    assert scored(proxy, observations) == expected
