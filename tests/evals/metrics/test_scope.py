"""Does the retriever know when to return nothing; and what a result costs to read."""

from dataclasses import replace

import pytest

from evals.collect.observations import Observation, Observed, Summary
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric, summarise
from evals.stats.intervals import auroc_interval
from retrievers.embedding.tokens import count_tokens
from tests.support.observed import candidates_of, make_case, make_chunk, make_context, observe, results, scored, scorer

INSIDE = ("scope/false_abstention", "scope/enough_results", "scope/relevant_above_half")


def asked(*, in_scope: bool, best: float | None, returned: bool) -> Observation:
    """A query whose best candidate has that score, None for no candidate at all."""
    candidates = () if best is None else results("a", "b", scores=[best, best / 2])
    case = make_case(in_scope=in_scope)
    return observe(candidates if returned else (), {"a": 1} if in_scope else {}, candidates=candidates, case=case)


RUN = (
    asked(in_scope=True, best=0.9, returned=True),
    asked(in_scope=True, best=0.5, returned=True),
    asked(in_scope=True, best=0.2, returned=False),
    asked(in_scope=False, best=0.5, returned=True),
    asked(in_scope=False, best=0.2, returned=False),
)


def summary(name: str, *observations: Observation) -> Summary:
    metric = METRICS[name]
    if not isinstance(metric, QueryMetric):
        return metric.summarise(Observed(observations=observations), make_context())
    return summarise(metric, scored(name, observations))


@pytest.mark.parametrize(
    ("name", "value", "n"),
    [
        ("scope/abstention", 1 / 2, 2),
        ("scope/false_answer", 1 / 2, 2),
        ("scope/false_abstention", 1 / 3, 3),
        ("scope/enough_results", 2 / 3, 3),
        ("scope/relevant_above_half", 1 / 3, 3),
        ("scope/auroc", (1 + 1 + 0.5 + 1 + 0 + 0.5) / 6, 5),
        ("scope/max_out_of_scope_score", 0.5, 2),
    ],
)
def test_hand_computed_and_without_its_queries_a_reason(name: str, value: float, n: int) -> None:
    found = summary(name, *RUN)
    assert found.value == pytest.approx(value) and found.n == n
    without = summary(name, *(o for o in RUN if o.case.in_scope != (name in INSIDE)))
    assert (without.value, without.n) == (None, 0)
    assert without.note in ("no query of this kind", "needs in-scope and out-of-scope queries")


def test_the_auroc_has_the_interval_of_so_many_queries_of_each_scope() -> None:
    found, expected = summary("scope/auroc", *RUN), auroc_interval(4 / 6, 3, 2)
    assert (found.ci_low, found.ci_high) == pytest.approx((expected.low, expected.high))
    assert found.note == "3 in scope, 2 out of scope"


@pytest.mark.parametrize("best", [0.5, None])
@pytest.mark.parametrize("name", ["scope/auroc", "scope/max_out_of_scope_score"])
def test_a_retriever_without_cosines_has_no_figure_even_where_it_found_nothing(name: str, best: float | None) -> None:
    asked_of_it = [asked(in_scope=inside, best=best, returned=False) for inside in (True, False)]
    without = [replace(o, candidates=candidates_of(o.candidates, no_cosine="it gives no scores")) for o in asked_of_it]
    assert [o.top_score for o in without] == [None, None]
    found = summary(name, *without)
    assert (found.value, found.n, found.note) == (None, 0, "it gives no scores")
    assert found.n_unscored == (2 if name == "scope/auroc" else 1)
    assert summary("scope/abstention", *without).value == 1.0


def test_a_result_costs_the_tokens_that_are_recorded_or_else_counted() -> None:
    text, cost = "A topic carries messages.", scorer("cost/context_tokens")
    assert cost(observe(results(make_chunk("a", chunk_token_count=12), make_chunk("b", chunk_token_count=30)))) == 42
    returned = results(make_chunk("a", text), make_chunk("b", chunk_token_count=30))
    assert cost(observe(returned)) == 30 + count_tokens(text) > 34
