"""Ranking metrics against ir_measures (trec_eval) on random runs, and against brute force."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations
from statistics import fmean

import pytest
from ir_measures import AP, RR, Measure, P, R, Success, iter_calc, nDCG

from evals.cases.relevance import Relevance
from evals.collect.observations import Observation, Unscored
from evals.metrics import METRICS
from evals.metrics.declaration import summarise
from tests.support.observed import candidates_of, make_case, metric_of, observe, results, scored


@cache
def random_run(seed: int, queries: int = 40) -> list[Observation]:
    """Queries with graded judgements: empty, short, long and repeating lists, gaps, relevant chunks never found.

    Ids sort in an order that has nothing to do with the rank, or is its reverse. What was returned is any part.
    """
    rng = random.Random(seed)
    observations = []
    for number in range(queries):
        ids = [f"d{n:03d}" for n in rng.sample(range(1000), 150)]
        judged = {i: rng.choice([0, 0, 1, 1, 2, 3]) for i in rng.sample(ids[:30], rng.randint(1, 25))}
        grades = {i: grade for i, grade in judged.items() if grade} | {rng.choice(ids): rng.randint(1, 4)}
        ranked = rng.sample(ids[: rng.choice([30, 150])], rng.choice([0, 1, 2, 3, 7, 10, 25, 30]))
        ranked = rng.choice([ranked, ranked, ids, sorted(ranked), sorted(ranked, reverse=True)])
        if rng.random() < 0.3:
            ranked = ranked + rng.sample(ranked, len(ranked) // 2)
            rng.shuffle(ranked)
        found = candidates_of(results(*ranked))
        kept = sorted(rng.sample(range(len(ranked)), rng.choice([0, len(ranked) // 2, len(ranked)])))
        items = [frozenset(rng.choices(ids, k=rng.randint(1, 3))) for _ in range(rng.choice([1, 4, 70, 130]))]
        relevance = Relevance(grades=grades, items=tuple(items), irrelevant=frozenset(judged) - grades.keys())
        observations.append(
            Observation(case=make_case(f"q{number}"), relevance=relevance, candidates=found, selection=found.at(kept))
        )
    return observations


def returned(o: Observation) -> list[str]:
    return list(dict.fromkeys(found.chunk.chunk_id for found in o.selection))


def candidates(o: Observation) -> list[str]:
    return list(dict.fromkeys(o.candidates.chunk_ids))


DEPTHS = (1, 3, 5, 10, 7, 40)
NAMES = {"hit_rate": Success, "precision": P, "recall": R, "mrr": RR, "map": AP, "ndcg": nDCG}
ORACLES: Mapping[str, tuple[Measure, Callable[[Observation], list[str]]]] = {
    **{f"ranking/{name}_at_{k}": (theirs @ k, returned) for name, theirs in NAMES.items() for k in DEPTHS},
    "candidates/ndcg_at_10": (nDCG @ 10, candidates),
    "candidates/mrr_at_10": (RR @ 10, candidates),
    "candidates/recall_at_10": (R @ 10, candidates),
    "candidates/recall_at_100": (R @ 100, candidates),
    "candidates/hit_rate_at_100": (Success @ 100, candidates),
}
OURS = {"ranking/expected_top3_in_5", *(f"ranking/evidence_recall_at_{k}" for k in DEPTHS)}
BY_LABELS = [name for name in METRICS if name.startswith(("ranking/", "candidates/"))]


def test_every_metric_by_labels_has_an_oracle_or_is_our_own() -> None:
    assert {*BY_LABELS} <= ORACLES.keys() | OURS, "name its oracle, or compare it with brute force and name it in OURS"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ORACLES)
def test_equals_ir_measures_and_the_mean_counts_empty_results(name: str, seed: int) -> None:
    (theirs, ranked), run = ORACLES[name], random_run(seed)
    found, lists = scored(name, run), {o.case.id: ranked(o) for o in run}
    expected = dict.fromkeys(lists, 0.0)  # of an empty list, which a TREC file cannot hold
    measured = iter_calc(
        [theirs],
        {o.case.id: {**dict.fromkeys(o.relevance.irrelevant, 0), **o.relevance.grades} for o in run},
        {q: {i: float(len(ids) - place) for place, i in enumerate(ids)} for q, ids in lists.items() if ids},
    )
    expected |= {one.query_id: one.value for one in measured if lists[one.query_id]}
    assert [] in lists.values() and len(set(expected.values())) > 1
    assert found == pytest.approx(list(expected.values()), abs=1e-12)
    assert summarise(metric_of(name), found).value == pytest.approx(fmean(expected.values()), abs=1e-12)


@pytest.mark.parametrize("k", DEPTHS)
def test_evidence_recall_counts_items_not_chunks(k: int) -> None:
    run = random_run(5)
    expected = [fmean(not item.isdisjoint(returned(o)[:k]) for item in o.relevance.items) for o in run]
    assert scored(f"ranking/evidence_recall_at_{k}", run) == pytest.approx(expected, abs=1e-12)


def three_in_five(ranked: Sequence[str], grades: Mapping[str, int]) -> float | Unscored:
    """Return 1 if three distinct chunks, a valid top three by grade, all lie in the first five.

    A triple is a valid top three if some order of all relevant chunks by falling grade begins with it.
    """
    orders = (order for order in permutations(grades) if all(grades[a] >= grades[b] for a, b in pairwise(order)))
    tops = {frozenset(order[:3]) for order in orders}
    if len(grades) < 3:
        return Unscored(reason="fewer than three relevant chunks")
    return float(any(top <= set(ranked[:5]) for top in tops))


def test_three_in_five_equals_brute_force() -> None:
    rng = random.Random(1)
    grades = [{i: rng.randint(1, 3) for i in rng.sample("abcdefgh", rng.randint(1, 6))} for _ in range(200)]
    ranked = [rng.sample("abcdefghx", rng.randint(0, 9)) for _ in grades]
    found = scored("ranking/expected_top3_in_5", [observe(results(*r), g) for r, g in zip(ranked, grades, strict=True)])
    assert found == [three_in_five(*pair) for pair in zip(ranked, grades, strict=True)]
    assert {0.0, 1.0} < set(found)


NEED_ALL = ("recall_at", "map", "ndcg", "expected_top3")


@pytest.mark.parametrize("name", BY_LABELS)
def test_what_divides_by_all_relevant_has_no_value_where_they_are_not_all_known(name: str) -> None:
    known = observe(results("a", "b", "c", "d"), {"a": 2, "b": 1, "d": 1}, irrelevant=["c"])
    unknown = replace(known, relevance=replace(known.relevance, incomplete="not listed"))
    complete, partial = scored(name, [known, unknown])
    assert partial == (Unscored(reason="not listed") if name.partition("/")[2].startswith(NEED_ALL) else complete)


@pytest.mark.parametrize("name", [name for name in BY_LABELS if name.startswith("candidates/")])
def test_a_retriever_without_candidates_has_no_score_of_them_and_says_why(name: str) -> None:
    known = observe(results("a"), {"a": 1})
    alone = replace(known, candidates=candidates_of(results("a"), incomplete="its result alone"))
    unlisted = replace(alone, relevance=replace(known.relevance, incomplete="not listed"))
    assert scored(name, [alone, unlisted, known]) == [*[Unscored(reason="its result alone")] * 2, 1.0]
