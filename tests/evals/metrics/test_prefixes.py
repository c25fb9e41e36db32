"""Metrics over all prefixes at once, against the metrics selection by selection and against pytrec_eval."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from evals.collect.observations import Observation, Observed, Unscored
from evals.grid.relevance_arrays import BITS, is_plain, of_candidates, of_selections
from evals.grid.selections import Found, Selections, select_all
from evals.metrics import METRICS
from evals.metrics.arrays import Prefixes, RelevanceArrays
from evals.metrics.base import QueryMetric
from evals.metrics.prefixes import at
from evals.metrics.ranking import DEPTHS
from evals.metrics.ranking import MEASURES as MEASURE_BY_NAME
from tests.support.candidates import candidates_of
from tests.support.observed import make_case, make_chunk, make_context, observe, results

LONGEST = 14
POOL = [f"c{number}" for number in range(40)]


def observations(count: int = 60) -> list[Observation]:
    """Random results and judgements: from none to 14 candidates, from one to 20 relevant, all or none of them found."""
    rng = random.Random(5)
    made = []
    for number in range(count):
        grades = {chunk: rng.randint(1, 3) for chunk in rng.sample(POOL, rng.randint(1, 20))}
        pool = POOL if number % 7 else [f"x{place}" for place in range(20)]
        chunks = [
            make_chunk(chunk, chunk_token_count=rng.randint(1, 50) if rng.random() < 0.8 else None)
            for chunk in rng.sample(pool, rng.randint(0, LONGEST))
        ]
        items = [frozenset(rng.sample(sorted(grades), rng.randint(1, len(grades)))) for _ in range(rng.randint(1, 5))]
        case = make_case(f"q{number}", in_scope=True, min_results=rng.randint(1, 5))
        refused = {chunk for chunk in POOL if chunk not in grades and rng.random() < number % 5 / 5}
        scores = sorted((rng.random() for _ in chunks), reverse=True)
        made.append(observe(results(*chunks, scores=scores), grades, items=items, irrelevant=refused, case=case))
    return made


def whole(known: Sequence[Observation]) -> Selections:
    """Every candidate of every query, in order."""
    scores = np.full((len(known), LONGEST), -np.inf)
    for row, o in enumerate(known):
        scores[row, : len(o.candidates)] = [c.score for c in o.candidates]
    return select_all(Found(scores=scores), [0.0], range(1, LONGEST + 1))


def prepared(known: Sequence[Observation]) -> RelevanceArrays:
    observed = Observed(observations=tuple(known))
    return of_selections(observed, whole(known), of_candidates(observed))


QUERY_METRICS = {name: metric for name, metric in METRICS.items() if isinstance(metric, QueryMetric)}
PREFIXES: Mapping[str, Prefixes] = {
    name: metric.over_prefixes
    for name, metric in QUERY_METRICS.items()
    if metric.over_prefixes and metric.of == "returned"
}


def test_metrics_of_ranks_and_counts_are_computed_over_prefixes_and_those_of_texts_are_not() -> None:
    assert {name.partition("/")[0] for name in PREFIXES} == {"ranking", "scope", "cost", "ragas"}
    assert {name for name in PREFIXES if name.startswith("ragas/")} == {
        "ragas/id_context_precision",
        "ragas/id_context_recall",
    }
    assert all(metric.over_prefixes for name, metric in QUERY_METRICS.items() if name.startswith("ranking/"))


@pytest.mark.parametrize("name", PREFIXES)
def test_equals_the_metric_on_every_prefix_to_the_last_bit(name: str) -> None:
    known = observations()
    found = PREFIXES[name](prepared(known))
    metric = METRICS[name]
    assert isinstance(metric, QueryMetric)
    cut = [[replace(o, selection=o.candidates.at(range(n))) for n in range(len(o.selection) + 1)] for o in known]
    # All at once: that some query has a chunk judged not relevant may matter to all.
    scores = iter(metric.score([o for of_query in cut for o in of_query], make_context()))
    for row, of_query in enumerate(cut):
        expected = [next(scores) for _ in of_query]
        scored = [math.nan if isinstance(value, Unscored) else value for value in expected]
        assert np.array_equal(found[row, : len(of_query)], np.asarray(scored, dtype=float), equal_nan=True)


def test_a_metric_of_cosines_has_no_value_where_the_retriever_gives_none() -> None:
    known = observations(4)
    bare = [replace(o, candidates=candidates_of(o.candidates, no_cosine="no scores")) for o in known[:2]]
    found = PREFIXES["scope/relevant_above_half"](prepared([*bare, *known[2:]]))
    assert np.isnan(found).all(axis=1).tolist() == [True, True, False, False]


def test_evidence_is_counted_however_many_items_there_are() -> None:
    """Items are bits of an integer, and more than it holds are counted in several."""
    rng = random.Random(3)
    known = []
    for number in range(20):
        chunks = rng.sample(POOL, LONGEST)
        items = [frozenset(rng.sample(POOL, rng.randint(1, 3))) for _ in range(2 * BITS + 5)]
        known.append(observe(results(*chunks), {POOL[0]: 1}, items=items, case=make_case(f"q{number}")))
    counted = prepared(known).items_found
    for row, o in enumerate(known):
        expected = [sum(bool(item & {*o.ranked_ids[:n]}) for item in o.relevance.items) for n in range(LONGEST + 1)]
        assert counted[row].tolist() == expected


@pytest.mark.parametrize("name", ["ndcg", "mrr", "recall", "hit_rate"])
@pytest.mark.parametrize("k", [3, 10, 100])
def test_candidates_are_measured_at_the_end_of_their_list(name: str, k: int) -> None:
    known = observations()
    measure = MEASURE_BY_NAME[name].of_list
    expected = [measure(o.candidate_ids, o.relevance.grades, k) for o in known]
    found = at(MEASURE_BY_NAME[name].over_prefixes, k)(of_candidates(Observed(observations=tuple(known))))
    assert found[:, -1].tolist() == expected


MEASURES: Mapping[str, tuple[str, str]] = {
    **{f"ranking/ndcg_at_{k}": (f"ndcg_cut.{k}", f"ndcg_cut_{k}") for k in DEPTHS},
    **{f"ranking/recall_at_{k}": (f"recall.{k}", f"recall_{k}") for k in DEPTHS},
    **{f"ranking/precision_at_{k}": (f"P.{k}", f"P_{k}") for k in DEPTHS},
    **{f"ranking/map_at_{k}": (f"map_cut.{k}", f"map_cut_{k}") for k in DEPTHS},
    **{f"ranking/hit_rate_at_{k}": (f"success.{k}", f"success_{k}") for k in DEPTHS},
}


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("length", [0, 1, 4, LONGEST])
def test_equals_pytrec_eval(name: str, length: int) -> None:
    known = observations()
    asked, answered = MEASURES[name]
    run = {o.case.id: {c.chunk.chunk_id: 1.0 / c.rank for c in o.selection[:length]} for o in known}
    grades = {o.case.id: dict(o.relevance.grades) for o in known}
    scores: Mapping[str, Any] = pytrec_eval.RelevanceEvaluator(grades, {asked}).evaluate(run)
    expected = [scores.get(o.case.id, {}).get(answered, 0.0) for o in known]
    found = PREFIXES[name](prepared(known))
    lengths = [min(length, len(o.selection)) for o in known]
    assert found[np.arange(len(known)), lengths] == pytest.approx(expected, abs=1e-12)


def test_reciprocal_rank_equals_pytrec_eval() -> None:
    known = observations()
    run = {o.case.id: {c.chunk.chunk_id: 1.0 / c.rank for c in o.selection[:10]} for o in known}
    grades = {o.case.id: dict(o.relevance.grades) for o in known}
    scores: Mapping[str, Any] = pytrec_eval.RelevanceEvaluator(grades, {"recip_rank"}).evaluate(run)
    found = PREFIXES["ranking/mrr_at_10"](prepared(known))
    expected = [scores.get(o.case.id, {}).get("recip_rank", 0.0) for o in known]
    assert found[:, -1] == pytest.approx(expected, abs=1e-12)


def test_what_arrays_do_not_say_is_found_out() -> None:
    once, twice = observe(results("a", "b"), {"a": 1}), observe(results("a", "b", "a"), {"a": 1})
    unlisted = replace(once, relevance=replace(once.relevance, incomplete="chunks cannot be listed"))
    observed = [Observed(observations=(one,)) for one in (once, twice, unlisted)]
    assert list(map(is_plain, observed)) == [True, False, False]
