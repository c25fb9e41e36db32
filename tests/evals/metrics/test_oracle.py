"""Headroom of a reranker, against pytrec_eval and by hand."""

from dataclasses import replace

import numpy as np
import pytest
import pytrec_eval

from evals.collect.observations import Observation, Score, Unscored
from evals.golden.evidence import Relevance
from evals.metrics.ranking import ORACLE_DEPTHS, as_found
from tests.evals.metrics.test_ranking import random_run, relevant
from tests.support.candidates import candidates_of
from tests.support.observed import make_context, observe, results
from tests.support.scored import results_of, scored

CONTEXT = make_context()


def oracle_ndcg(observation: Observation, _: object, *, depth: int) -> Score:
    return scored(f"candidates/oracle_ndcg_at_10_of_{depth}", [observation])[0]


def found_ids(observation: Observation) -> tuple[str, ...]:
    """The ids of the candidates in the order that a reranker was given them, a repeated one counted once."""
    r = as_found(results_of([observation]).candidates).ranked
    return tuple(r.lists.pool.chunks.chunk_id(code) for code in r.codes[0].tolist() if code >= 0)


@pytest.mark.parametrize("depth", ORACLE_DEPTHS)
def test_equals_pytrec_eval_on_candidates_ordered_by_their_grades(depth: int) -> None:
    run, qrels = random_run(seed=31)
    perfect = {
        query: {chunk_id: float(qrels[query].get(chunk_id, 0)) for chunk_id in ids[:depth]}
        for query, ids in run.items()
        if ids
    }
    expected = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(perfect)
    observations = [observe((), relevant(qrels[query]), candidates=results(*ids)) for query, ids in run.items()]
    found = scored(f"candidates/oracle_ndcg_at_10_of_{depth}", observations)
    assert found == pytest.approx([expected.get(query, {}).get("ndcg_cut_10", 0.0) for query in run], abs=1e-12)


def test_it_rises_with_the_depth_and_is_bounded_by_what_is_found() -> None:
    """One of two relevant chunks is the eleventh, the other is not there: 1 / (1 + 1 / log2(3))."""
    found = observe(candidates=results(*[f"x{n}" for n in range(10)], "a"), grades={"a": 1, "gone": 1})
    assert oracle_ndcg(found, CONTEXT, depth=10) == 0.0
    assert oracle_ndcg(found, CONTEXT, depth=20) == pytest.approx(1 / (1 + 1 / np.log2(3)))


def test_a_reranker_is_measured_by_the_order_that_it_was_given() -> None:
    chunks = results("a", "b", "c")
    moved = [replace(hit, original_rank=rank) for hit, rank in zip(chunks, (3, 1, 2), strict=True)]
    assert found_ids(observe(candidates=moved)) == ("b", "c", "a")
    assert found_ids(observe(candidates=chunks)) == ("a", "b", "c")
    assert found_ids(observe(candidates=results("a", "a", "b"))) == ("a", "b")


def test_what_may_be_missing_is_not_scored() -> None:
    known = observe(results("a"), {"a": 1})
    alone = replace(known, candidates=candidates_of(results("a"), incomplete="its result alone"))
    assert oracle_ndcg(alone, CONTEXT, depth=10) == Unscored(reason="its result alone")
    unlisted = replace(known, relevance=Relevance(grades={"a": 1}, incomplete="not listed"))
    assert oracle_ndcg(unlisted, CONTEXT, depth=10) == Unscored(reason="not listed")
