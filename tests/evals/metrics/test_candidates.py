"""Metrics of the candidates against pytrec_eval, whatever was returned of them."""

from dataclasses import replace
from statistics import fmean

import pytest
import pytrec_eval

from evals.collect.observations import Unscored
from evals.golden.evidence import Relevance
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric, summarise
from tests.evals.metrics.test_ranking import random_run, relevant
from tests.support.candidates import candidates_of
from tests.support.observed import make_context, observe, results
from tests.support.scored import scored

ORACLES = {
    "candidates/ndcg_at_10": ("ndcg_cut", 10, 10),
    "candidates/mrr_at_10": ("recip_rank", None, 10),
    "candidates/recall_at_10": ("recall", 10, 100),
    "candidates/recall_at_100": ("recall", 100, 100),
    "candidates/hit_rate_at_100": ("success", 100, 100),
}


def metric(name: str) -> QueryMetric:
    found = METRICS[name]
    assert isinstance(found, QueryMetric)
    return found


def test_there_is_an_oracle_for_each() -> None:
    assert [name for name in METRICS if name.startswith("candidates/") and "oracle" not in name] == list(ORACLES)


@pytest.mark.parametrize("returned", [0, 1, 5])
@pytest.mark.parametrize("name", ORACLES)
def test_equal_pytrec_eval_over_all_candidates(name: str, returned: int) -> None:
    run, qrels = random_run(seed=23)
    measure, k, cut = ORACLES[name]
    run_file = {q: {i: float(-place) for place, i in enumerate(ids[:cut])} for q, ids in run.items() if ids}
    wanted = f"{measure}.{k}" if k else measure
    expected = pytrec_eval.RelevanceEvaluator(qrels, {wanted}).evaluate(run_file)
    observations = [
        observe(results(*ids)[:returned], relevant(qrels[query]), candidates=results(*ids))
        for query, ids in run.items()
    ]
    one = metric(name)
    found = scored(one, observations, make_context())
    key = wanted.replace(".", "_")
    assert found == pytest.approx([expected.get(query, {}).get(key, 0.0) for query in run], abs=1e-12)
    assert summarise(name, found, one.interval).value == pytest.approx(fmean(v for v in found if isinstance(v, float)))


@pytest.mark.parametrize("name", ORACLES)
def test_what_comes_twice_counts_once(name: str) -> None:
    one = metric(name)
    once = observe(candidates=results("x", "a"), grades={"a": 1})
    twice = observe(candidates=results("x", "x", "a", "a"), grades={"a": 1})
    assert scored(one, [twice], make_context()) == scored(one, [once], make_context())


@pytest.mark.parametrize("name", ORACLES)
def test_a_retriever_without_candidates_has_no_score_and_says_why(name: str) -> None:
    known = observe(results("a"), {"a": 1})
    alone = replace(known, candidates=candidates_of(results("a"), incomplete="its result alone"))
    assert scored(name, [alone], make_context()) == [Unscored(reason="its result alone")]


def test_where_relevant_chunks_may_be_unknown_only_what_does_not_count_them_is_scored() -> None:
    unlisted = replace(observe(results("a")), relevance=Relevance(grades={"a": 1}, incomplete="not listed"))
    found = {name: scored(name, [unlisted], make_context())[0] for name in ORACLES}
    assert {name for name, score in found.items() if score == 1.0} == {
        "candidates/mrr_at_10", "candidates/hit_rate_at_100",
    }  # fmt: skip
