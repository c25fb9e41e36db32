"""Does the retriever know when to return nothing; and what a result costs to read."""

from dataclasses import replace

import pytest

from evals.collect.observations import Observation, Observed, Summary
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric, summarise
from retrievers.embedding.tokens import count_tokens
from tests.support.candidates import candidates_of
from tests.support.observed import make_case, make_chunk, make_context, observe, results
from tests.support.scored import scored, scorer


def asked(*, in_scope: bool, best: float | None, returned: bool) -> Observation:
    """A query whose best candidate has that score, None for no candidate at all."""
    candidates = () if best is None else results("a", "b", scores=[best, best / 2])
    case = make_case(in_scope=in_scope)
    return observe(candidates if returned else (), {"a": 1} if in_scope else {}, candidates=candidates, case=case)


RUN = Observed(
    observations=(
        asked(in_scope=True, best=0.9, returned=True),
        asked(in_scope=True, best=0.6, returned=True),
        asked(in_scope=True, best=0.2, returned=False),
        asked(in_scope=False, best=0.5, returned=True),
        asked(in_scope=False, best=0.2, returned=False),
    )
)


def summary(name: str, observed: Observed = RUN) -> Summary:
    metric = METRICS[name]
    if not isinstance(metric, QueryMetric):
        return metric.summarise(observed, make_context())
    return summarise(name, scored(name, observed.observations), metric.interval)


@pytest.mark.parametrize(
    ("name", "value", "n"),
    [
        ("scope/abstention", 1 / 2, 2),
        ("scope/false_answer", 1 / 2, 2),
        ("scope/false_abstention", 1 / 3, 3),
        ("scope/enough_results", 2 / 3, 3),
        ("scope/relevant_above_half", 2 / 3, 3),
        ("scope/auroc", (1 + 1 + 1 + 1 + 0 + 0.5) / 6, 5),
        ("scope/max_out_of_scope_score", 0.5, 2),
    ],
)
def test_hand_computed(name: str, value: float, n: int) -> None:
    found = summary(name)
    assert found.value == pytest.approx(value)
    assert found.n == n


@pytest.mark.parametrize("name", [name for name in METRICS if name.startswith("scope/")])
def test_without_its_queries_a_metric_has_no_value_but_a_reason(name: str) -> None:
    wanted = name in ("scope/false_abstention", "scope/enough_results", "scope/relevant_above_half")
    observed = Observed(observations=tuple(o for o in RUN.observations if o.case.in_scope != wanted))
    found = summary(name, observed)
    assert (found.value, found.n) == (None, 0)
    assert found.note in ("no query of this kind", "needs in-scope and out-of-scope queries")


@pytest.mark.parametrize("best", [0.5, None])
@pytest.mark.parametrize("name", ["scope/auroc", "scope/max_out_of_scope_score"])
def test_a_retriever_without_cosines_has_no_figure_even_where_it_found_nothing(name: str, best: float | None) -> None:
    asked_of_it = [asked(in_scope=inside, best=best, returned=False) for inside in (True, False)]
    without = [replace(o, candidates=candidates_of(o.candidates, no_cosine="it gives no scores")) for o in asked_of_it]
    assert [o.top_score for o in without] == [None, None]
    found = summary(name, Observed(observations=tuple(without)))
    assert (found.value, found.n, found.note) == (None, 0, "it gives no scores")
    assert found.n_unscored == (2 if name == "scope/auroc" else 1)
    assert summary("scope/abstention", Observed(observations=tuple(without))).value == 1.0


def test_a_result_costs_the_tokens_that_are_recorded_or_else_counted() -> None:
    text, cost = "A topic carries messages.", scorer("cost/context_tokens")
    assert cost(observe(results(make_chunk("a", chunk_token_count=12), make_chunk("b", chunk_token_count=30)))) == 42
    returned = results(make_chunk("a", text), make_chunk("b", chunk_token_count=30))
    assert cost(observe(returned)) == 30 + count_tokens(text) > 34
