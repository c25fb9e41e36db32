"""Does the retriever know when to return nothing."""

from dataclasses import replace

import pytest

from evals.collect.observations import Observation, Observed, Summary, Unscored
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric, summarise, within
from evals.metrics.scope import auroc, max_out_of_scope_score
from evals.stats import intervals as stats
from tests.support.candidates import candidates_of
from tests.support.observed import make_case, make_context, observe, results
from tests.support.scored import scored, scorer

enough_results, relevant_above_half = scorer("scope/enough_results"), scorer("scope/relevant_above_half")


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
    scores = scored(metric, within(observed.observations, metric.scope), make_context())
    return summarise(name, scores, metric.interval)


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


@pytest.mark.parametrize(("returned", "enough"), [(0, 0.0), (2, 0.0), (3, 1.0), (4, 1.0)])
def test_a_result_is_enough_from_the_least_number_that_the_case_asks_for(returned: int, enough: float) -> None:
    found = observe(results(*"abcd"[:returned]), {"a": 1}, case=make_case(min_results=3))
    assert enough_results(found, make_context()) == enough


@pytest.mark.parametrize(
    ("scores", "grades", "above"),
    [
        ([0.51, 0.4], {"a": 1}, 1.0),
        ([0.5, 0.4], {"a": 1}, 0.0),
        ([0.9, 0.4], {"b": 1}, 0.0),
        ([0.9, 0.6], {"b": 1}, 1.0),
        ([0.9, 0.6], {"c": 1}, 0.0),
    ],
)
def test_a_relevant_chunk_above_half(scores: list[float], grades: dict[str, int], above: float) -> None:
    assert relevant_above_half(observe(results("a", "b", scores=scores), grades), make_context()) == above


def test_without_cosines_no_chunk_is_above_half() -> None:
    found = observe(results("a"), {"a": 1})
    bare = replace(found, candidates=candidates_of(found.candidates, no_cosine="it gives no scores"))
    assert relevant_above_half(bare, make_context()) == Unscored(reason="the retriever gives no cosine similarity")


def test_answering_and_abstaining_are_complements() -> None:
    assert summary("scope/abstention").value == 1 - (summary("scope/false_answer").value or 0)


def test_auroc_has_newcombes_interval() -> None:
    found, expected = auroc(RUN, make_context()), stats.auroc_interval(4.5 / 6, 3, 2)
    assert (found.ci_low, found.ci_high) == (expected.low, expected.high)


def test_a_search_that_found_nothing_counts_as_score_0() -> None:
    observed = Observed(
        observations=(
            asked(in_scope=True, best=0.4, returned=True),
            asked(in_scope=False, best=None, returned=False),
        )
    )
    assert auroc(observed, make_context()).value == 1.0
    assert max_out_of_scope_score(observed, make_context()).value == 0.0


def test_scores_are_read_before_the_threshold() -> None:
    """Nothing was returned for either, and yet the score tells them apart."""
    observed = Observed(
        observations=(
            asked(in_scope=True, best=0.25, returned=False),
            asked(in_scope=False, best=0.2, returned=False),
        )
    )
    assert auroc(observed, make_context()).value == 1.0
    assert max_out_of_scope_score(observed, make_context()).value == 0.2


def test_a_maximum_has_no_interval_and_says_so() -> None:
    found = max_out_of_scope_score(RUN, make_context())
    assert (found.ci_low, found.ci_high, found.note) == (None, None, "a maximum has no interval")


def test_one_query_on_a_side_has_an_area_but_no_interval() -> None:
    observed = Observed(observations=RUN.observations[2:4])
    found = auroc(observed, make_context())
    assert (found.value, found.ci_low, found.n) == (0.0, None, 2)
    assert "not computable" in found.note


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
