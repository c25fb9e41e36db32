"""Ranking metrics against pytrec_eval on random runs, and against definitions written out by brute force."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from statistics import fmean

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from evals.collect.observations import Score, Unscored
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric, summarise
from evals.metrics.ranking import DEPTHS, MEASURES
from tests.support.candidates import candidates_of
from tests.support.observed import make_context, observe, results
from tests.support.scored import on_list, scored, scorer

hit_rate, precision, recall, reciprocal_rank, average_precision, ndcg = (
    on_list(MEASURES[name].measure) for name in ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
)
top_three = scorer("ranking/expected_top3_in_5")
Measure = Callable[[Sequence[str], Mapping[str, int], int], float]
Run = dict[str, list[str]]
Qrels = dict[str, dict[str, int]]
ORACLES: Mapping[str, tuple[Measure, str]] = {
    "hit_rate": (hit_rate, "success"),
    "precision": (precision, "P"),
    "recall": (recall, "recall"),
    "map": (average_precision, "map_cut"),
    "ndcg": (ndcg, "ndcg_cut"),
}
CUTS = (1, 2, 3, 5, 10, 20)


def random_run(seed: int, queries: int = 40) -> tuple[Run, Qrels]:
    """Ranked ids and graded judgements: empty and short runs, gaps, ids judged 0 and below, relevant never retrieved.

    Ids sort in an order that has nothing to do with the rank, or is its reverse.
    """
    rng = random.Random(seed)
    run: Run = {}
    qrels: Qrels = {}
    for number in range(queries):
        ids = [f"d{n:03d}" for n in rng.sample(range(1000), 30)]
        qrels[f"q{number}"] = {i: rng.choice([-2, -1, 0, 1, 1, 2, 3]) for i in rng.sample(ids, rng.randint(1, 12))} | {
            rng.choice(ids): rng.randint(1, 4)
        }
        length = rng.choice([0, 0, 1, 2, 3, 4, 7, 10, 25])
        ranked = rng.sample(ids, length)
        run[f"q{number}"] = rng.choice([ranked, sorted(ranked), sorted(ranked, reverse=True)])
    return run, qrels


def relevant(judged: Mapping[str, int]) -> dict[str, int]:
    return {chunk_id: grade for chunk_id, grade in judged.items() if grade > 0}


def oracle(run: Run, qrels: Qrels, measures: set[str], cut: int | None = None) -> dict[str, dict[str, float]]:
    """Return pytrec_eval's values by query; empty results are left out of the run, as in a TREC file.

    It orders by score and breaks ties by id, so scores are made of ranks.
    """
    scored = {
        query: {chunk_id: float(len(ids) - place) for place, chunk_id in enumerate(ids[:cut])}
        for query, ids in run.items()
        if ids
    }
    found: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(scored)
    return found


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("seed", range(5))
def test_equals_pytrec_eval_on_random_runs(name: str, seed: int) -> None:
    measure, trec = ORACLES[name]
    run, qrels = random_run(seed)
    expected = oracle(run, qrels, {f"{trec}.{','.join(map(str, CUTS))}"})
    assert len(expected) < len(run), "the runs must hold empty results"
    for query, ids in run.items():
        for k in CUTS:
            found = measure(ids, relevant(qrels[query]), k)
            assert found == pytest.approx(expected.get(query, {}).get(f"{trec}_{k}", 0.0), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", CUTS)
def test_reciprocal_rank_equals_pytrec_eval_on_the_run_cut_at_k(seed: int, k: int) -> None:
    run, qrels = random_run(seed)
    expected = oracle(run, qrels, {"recip_rank"}, cut=k)
    for query, ids in run.items():
        found = reciprocal_rank(ids, relevant(qrels[query]), k)
        assert found == pytest.approx(expected.get(query, {}).get("recip_rank", 0.0), abs=1e-12)


@pytest.mark.parametrize("name", [*ORACLES, "mrr"])
@pytest.mark.parametrize("k", DEPTHS)
def test_the_mean_over_a_run_counts_missing_queries_as_0(name: str, k: int) -> None:
    run, qrels = random_run(17)
    if name == "mrr":
        per_query = {q: values["recip_rank"] for q, values in oracle(run, qrels, {"recip_rank"}, cut=k).items()}
    else:
        trec = ORACLES[name][1]
        per_query = {q: values[f"{trec}_{k}"] for q, values in oracle(run, qrels, {f"{trec}.{k}"}).items()}
    metric = METRICS[f"ranking/{name}_at_{k}"]
    assert isinstance(metric, QueryMetric)
    observations = [observe(results(*ids), relevant(qrels[query])) for query, ids in run.items()]
    summary = summarise(metric.name, scored(metric, observations, make_context()), metric.interval)
    assert summary.n == len(run) > len(per_query)
    assert summary.value == pytest.approx(fmean(per_query.get(query, 0.0) for query in run), abs=1e-12)


HAND: tuple[tuple[Measure, Sequence[str], Mapping[str, int], int, float], ...] = (
    (hit_rate, "xya", {"a": 1}, 3, 1.0),
    (hit_rate, "xya", {"a": 1}, 2, 0.0),
    (precision, "ab", {"a": 1, "b": 1}, 5, 0.4),
    (precision, "axb", {"a": 1, "b": 1}, 2, 0.5),
    (recall, "axb", {"a": 1, "b": 1, "c": 1, "d": 1}, 3, 0.5),
    (reciprocal_rank, "xya", {"a": 1}, 10, 1 / 3),
    (reciprocal_rank, "xya", {"a": 1}, 2, 0.0),
    (average_precision, "axb", {"a": 1, "b": 1, "c": 1}, 10, (1 + 2 / 3) / 3),
    (average_precision, "axb", {"a": 1, "b": 1, "c": 1}, 1, 1 / 3),
    (ndcg, "ab", {"a": 1, "b": 3}, 2, (1 + 3 / 1.584962500721156) / (3 + 1 / 1.584962500721156)),
    (ndcg, "a", {"a": 2, "b": 2}, 1, 1.0),
)


@pytest.mark.parametrize(("measure", "ranked", "grades", "k", "expected"), HAND)
def test_hand_computed(
    measure: Measure, ranked: Sequence[str], grades: Mapping[str, int], k: int, expected: float
) -> None:
    assert measure(list(ranked), grades, k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("measure", [hit_rate, precision, recall, reciprocal_rank, average_precision, ndcg])
@pytest.mark.parametrize("k", DEPTHS)
def test_an_empty_result_scores_0(measure: Measure, k: int) -> None:
    assert measure([], {"a": 1}, k) == 0.0


def test_a_chunk_that_came_twice_counts_once() -> None:
    """Otherwise `a` twice would be two of two relevant, and recall above 1."""
    observation = observe(results("a", "a", "b"), {"a": 1})
    scores = {}
    for name in ("precision_at_3", "recall_at_3", "map_at_3", "ndcg_at_3"):
        metric = METRICS[f"ranking/{name}"]
        assert isinstance(metric, QueryMetric)
        scores[name] = scored(metric, [observation], make_context())[0]
    assert scores == {"precision_at_3": 1 / 3, "recall_at_3": 1.0, "map_at_3": 1.0, "ndcg_at_3": 1.0}


RANKED = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10)
GRADES = st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(1, 4), min_size=1)


@given(RANKED, GRADES, st.sampled_from(CUTS))
def test_all_stay_within_0_and_1_and_deeper_never_loses(ranked: list[str], grades: dict[str, int], k: int) -> None:
    for measure in (hit_rate, precision, recall, reciprocal_rank, average_precision, ndcg):
        assert 0 <= measure(ranked, grades, k) <= 1 + 1e-12
    for measure in (hit_rate, recall, reciprocal_rank, average_precision):
        assert measure(ranked, grades, k) <= measure(ranked, grades, k + 1)


@given(GRADES, st.sampled_from(CUTS))
def test_the_ideal_order_is_perfect(grades: dict[str, int], k: int) -> None:
    ideal = sorted(grades, key=lambda chunk_id: -grades[chunk_id])
    assert ndcg(ideal, grades, k) == pytest.approx(1, abs=1e-12)
    assert average_precision(ideal, grades, len(grades)) == pytest.approx(1, abs=1e-12)


def brute_three_in_five(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return True if three distinct chunks, a valid top three by grade, all lie in the first five.

    A triple is a valid top three if some order of all relevant chunks by falling grade begins with it.
    """
    tops = {
        frozenset(order[:3])
        for order in permutations(grades)
        if all(grades[a] >= grades[b] for a, b in pairwise(order))
    }
    return float(any(top <= set(ranked[:5]) for top in tops))


@given(RANKED, st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 3), min_size=3, max_size=6))
def test_three_in_five_equals_brute_force(ranked: list[str], grades: dict[str, int]) -> None:
    assert top_three(observe(results(*ranked), grades)) == brute_three_in_five(ranked, grades)


@pytest.mark.parametrize(
    ("ranked", "grades", "expected"),
    [
        ("abc", {"a": 3, "b": 2, "c": 1}, 1.0),
        ("xaybc", {"a": 3, "b": 2, "c": 1}, 1.0),
        ("xyabzc", {"a": 3, "b": 2, "c": 1}, 0.0),  # the third is sixth
        ("bcd", {"a": 3, "b": 2, "c": 2, "d": 2}, 0.0),  # the highest graded is missing
        ("adc", {"a": 3, "b": 2, "c": 2, "d": 2}, 1.0),  # any two of the tied will do
        ("abc", {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, 1.0),
        ("", {"a": 1, "b": 1, "c": 1}, 0.0),
    ],
)
def test_three_in_five_hand_computed(ranked: str, grades: dict[str, int], expected: float) -> None:
    assert top_three(observe(results(*ranked), grades)) == expected


def test_expected_top3_counts_only_cases_with_three_relevant_chunks() -> None:
    metric = METRICS["ranking/expected_top3_in_5"]
    assert isinstance(metric, QueryMetric)
    three = {"a": 1, "b": 1, "c": 1}
    observations = [observe(results("a", "b", "c"), three), observe((), three), observe(results("a"), {"a": 1})]
    scores = scored(metric, observations, make_context())
    assert scores == [1.0, 0.0, Unscored(reason="fewer than three relevant chunks")]
    summary = summarise(metric.name, scores, metric.interval)
    assert (summary.value, summary.n, summary.n_unscored) == (0.5, 2, 1)


ITEMS = (frozenset("ab"), frozenset("c"), frozenset("bd"))


@pytest.mark.parametrize(("ranked", "k", "found"), [("", 5, 0), ("a", 1, 1), ("b", 1, 2), ("xcb", 3, 3)])
def test_evidence_recall_counts_items_not_chunks(ranked: str, k: int, found: int) -> None:
    assert evidence_recall(ranked, ITEMS, k) == found / 3


def evidence_recall(ranked: Sequence[str], items: Sequence[frozenset[str]], k: int) -> Score:
    grades = dict.fromkeys(sorted(frozenset[str]().union(*items)), 1)
    return scored(f"ranking/evidence_recall_at_{k}", [observe(results(*ranked), grades, items=items)])[0]


def test_evidence_recall_does_not_change_when_a_passage_is_cut_into_more_chunks() -> None:
    coarse = evidence_recall(["p1", "x"], [frozenset(["p1"]), frozenset(["p2"])], 5)
    fine = evidence_recall(["p1a", "p1b", "x"], [frozenset(["p1a", "p1b"]), frozenset(["p2"])], 5)
    assert coarse == fine == 0.5
    assert recall(["p1a", "x"], {"p1a": 1, "p1b": 1, "p2": 1}, 5) == 1 / 3


@pytest.mark.parametrize("name", [name for name in METRICS if name.startswith("ranking/")])
def test_metrics_with_wilsons_interval_score_0_or_1_only(name: str) -> None:
    metric = METRICS[name]
    assert isinstance(metric, QueryMetric)
    observations = [
        observe(results(*ids), relevant(qrels[query]), irrelevant=qrels[query].keys() - relevant(qrels[query]))
        for seed in range(3)
        for run, qrels in [random_run(seed)]
        for query, ids in run.items()
    ]
    values = {score for score in scored(metric, observations, make_context()) if isinstance(score, float)}
    if metric.interval == "proportion":
        assert values <= {0.0, 1.0}
    else:
        assert not values <= {0.0, 1.0}, "values of 0 and 1 have Wilson's interval"


NEED_ALL = {"recall", "map", "ndcg", "condensed_ndcg"}


@pytest.mark.parametrize("name", [name for name in METRICS if name.startswith("ranking/")])
def test_what_divides_by_all_relevant_has_no_value_where_they_are_not_all_known(name: str) -> None:
    known = observe(results("a", "b", "c", "d"), {"a": 2, "b": 1, "d": 1}, irrelevant=["c"])
    unknown = replace(known, relevance=replace(known.relevance, incomplete="not listed"))
    empty = replace(unknown, selection=candidates_of(()))
    metric = METRICS[name]
    assert isinstance(metric, QueryMetric)
    complete, partial, nothing = scored(metric, [known, unknown, empty], make_context())
    if name.removeprefix("ranking/").rpartition("_at_")[0] in NEED_ALL or name in (
        "ranking/expected_top3_in_5",
        "ranking/bpref",
    ):
        assert partial == nothing == Unscored(reason="not listed")
    else:
        assert (partial, nothing) == (complete, 1.0 if "judged" in name else 0.0)
