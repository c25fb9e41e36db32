"""Metrics of judged chunks against pytrec_eval on random runs, and by hand."""

import json
import random
from typing import Any

import pytest
import pytrec_eval

from evals.collect.observations import Observation, Unscored
from evals.golden.case import Case
from evals.golden.evidence import Relevance, resolve
from evals.metrics.ranking import bpref, condensed_ndcg, judged
from retrievers.records import Chunk
from tests.support.observed import make_case, observe, results
from tests.support.scored import results_of, scored


def of_list(measure: Any, ranked: Any, relevance: Relevance, k: int = 0) -> float:
    """Apply a measure to ranked ids."""
    observation = observe(results(*ranked), relevance.grades, irrelevant=relevance.irrelevant)
    return float(measure(results_of([observation]), k)[0])


JUDGED = Relevance(grades={"a": 3, "b": 1}, irrelevant=frozenset("xy"))


def random_judgements(seed: int) -> list[tuple[list[str], Relevance]]:
    """Lists of 0 to 15 of 30 chunks, of which some are relevant, some judged not relevant, the others not judged."""
    rng = random.Random(seed)
    pool, made = [f"d{number:02d}" for number in range(30)], []
    for _ in range(60):
        known = rng.sample(pool, rng.randint(1, 25))
        relevant = {chunk: rng.randint(1, 3) for chunk in known[: rng.randint(1, len(known))]}
        relevance = Relevance(grades=relevant, irrelevant=frozenset(known) - relevant.keys())
        made.append((rng.sample(pool, rng.randint(0, 15)), relevance))
    return made


def oracle(ranked: list[str], relevance: Relevance, measure: str) -> float:
    """What pytrec_eval says of a list; 0 of an empty one, which a TREC file cannot hold."""
    grades = {**relevance.grades, **dict.fromkeys(relevance.irrelevant, 0)}
    run = {"q": {chunk: 1.0 / rank for rank, chunk in enumerate(ranked, 1)}}
    scores: dict[str, Any] = pytrec_eval.RelevanceEvaluator({"q": grades}, {measure}).evaluate(run if ranked else {})
    return float(scores["q"][measure.replace(".", "_")]) if scores else 0.0


@pytest.mark.parametrize("seed", range(5))
def test_bpref_equals_pytrec_eval(seed: int) -> None:
    for ranked, relevance in random_judgements(seed):
        assert of_list(bpref, ranked, relevance) == pytest.approx(oracle(ranked, relevance, "bpref"), abs=1e-12)


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_condensed_ndcg_is_that_of_pytrec_eval_on_a_run_without_unjudged_chunks(k: int) -> None:
    for ranked, relevance in random_judgements(7):
        condensed = [chunk for chunk in ranked if chunk in relevance.grades or chunk in relevance.irrelevant]
        expected = oracle(condensed, relevance, f"ndcg_cut.{k}")
        assert of_list(condensed_ndcg, ranked, relevance, k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("ranked", "k", "share"), [("a?x!", 4, 0.5), ("a?x!", 1, 1.0), ("?a", 1, 0.0), ("ax", 10, 1.0), ("", 5, 1.0)]
)
def test_the_share_that_is_judged(ranked: str, k: int, share: float) -> None:
    assert of_list(judged, ranked, JUDGED, k) == share


def test_unjudged_chunks_change_neither_bpref_nor_condensed_ndcg() -> None:
    for measure in (bpref, condensed_ndcg):
        last, middle, first = (of_list(measure, ranked, JUDGED, 5) for ranked in ("xab", "?x?a??b", "abx"))
        assert last == pytest.approx(middle) and middle < first == pytest.approx(1.0)


def scores(name: str, *observations: Observation) -> list[Any]:
    return scored(name, observations)


@pytest.mark.parametrize("name", ["ranking/judged_at_5", "ranking/condensed_ndcg_at_5", "ranking/bpref"])
def test_without_a_chunk_judged_not_relevant_they_have_no_value(name: str) -> None:
    bare = observe(results("a", "b"), {"a": 1})
    reason = "the golden data judge no chunk of these queries not relevant (grade 0)"
    assert scores(name, bare, bare) == [Unscored(reason=reason)] * 2
    assert None not in scores(name, bare, observe(results("a", "x"), {"a": 1}, irrelevant=["x"]))


def test_evidence_of_grade_0_is_judged_and_not_relevant() -> None:
    texts = {"right": "Ask for the rate with the hz verb.", "wrong": "Robots have arms, and some have legs as well."}
    chunks = [Chunk(chunk_id=key, point_id=key, text=text, source_url="/p") for key, text in texts.items()]
    evidence = [{"source_url": "/p", "quote": text, "grade": 2 * (key == "right")} for key, text in texts.items()]
    case = Case.model_validate(json.loads(json.dumps({"id": "q", "query": "how fast?", "evidence": evidence})))
    relevance = resolve([case], chunks, {})["q"]
    assert relevance == Relevance(grades={"right": 2}, items=(frozenset(["right"]),), irrelevant=frozenset(["wrong"]))
    both = case.model_copy(update={"evidence": [*case.evidence, case.evidence[0].model_copy(update={"grade": 0})]})
    assert resolve([both], chunks, {})["q"] == relevance, "relevant by one judgement is relevant"


def test_a_case_of_grade_0_alone_is_out_of_scope_or_unlabelled() -> None:
    refused = [{"source_url": "/p", "quote": "Robots have arms.", "grade": 0}]
    out = Case.model_validate({"id": "q", "query": "why?", "evidence": refused, "in_scope": False})
    assert out.relevant_evidence == []
    assert Case.model_validate({"id": "q", "query": "why?", "evidence": refused}).is_unlabelled
    assert make_case().relevant_evidence == make_case().evidence
