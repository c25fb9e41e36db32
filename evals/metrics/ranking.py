"""Ranking metrics by the definitions of trec_eval: pure functions of ranked ids, graded judgements and a depth.

Everywhere `ranked` holds distinct ids in rank order, `grades` the relevant ids with grades above 0, and k the depth.
A query that has relevant chunks and got no result scores 0. Source: trec_eval 9 (NIST), as pytrec_eval computes it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2

from evals.collect.observations import Observation, Score, Unscored
from evals.golden.evidence import Relevance
from evals.metrics.base import Context, Kind, QueryMetric, each

DEPTHS = (1, 3, 5, 10)
"""The depths at which ranking metrics are computed."""
Measure = Callable[[Sequence[str], Mapping[str, int], int], float]


def hit_rate(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """1 if any of the first k is relevant, else 0 (trec_eval `success`)."""
    return float(any(chunk_id in grades for chunk_id in ranked[:k]))


def precision(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Relevant among the first k, divided by k even where fewer were returned (trec_eval `P`), 0 to 1."""
    return sum(chunk_id in grades for chunk_id in ranked[:k]) / k


def recall(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Share of all relevant that is among the first k (trec_eval `recall`), 0 to 1."""
    return sum(chunk_id in grades for chunk_id in ranked[:k]) / len(grades)


def reciprocal_rank(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """1 / rank of the first relevant among the first k, else 0 (trec_eval `recip_rank` of the run cut at k), 0 to 1."""
    return next((1 / place for place, chunk_id in enumerate(ranked[:k], 1) if chunk_id in grades), 0.0)


def average_precision(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Mean over all relevant of the precision at their rank, 0 for those not in the first k (trec_eval `map_cut`)."""
    found, total = 0, 0.0
    for place, chunk_id in enumerate(ranked[:k], 1):
        if chunk_id in grades:
            found += 1
            total += found / place
    return total / len(grades)


def ndcg(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Σ grade / log2(rank + 1) over the first k, divided by that of the ideal order (trec_eval `ndcg_cut`), 0 to 1."""
    gain = _discounted([grades.get(chunk_id, 0) for chunk_id in ranked[:k]])
    return gain / _discounted(sorted(grades.values(), reverse=True)[:k])


def three_most_expected_in_five(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    """1 if three of the highest graded are among the first five, else 0. Needs at least three relevant.

    With t the third highest grade: everything graded above t must be there, and with those graded t at least three.
    """
    third = sorted(grades.values(), reverse=True)[2]
    first = set(ranked[:5])
    above = {chunk_id for chunk_id, grade in grades.items() if grade > third}
    level = {chunk_id for chunk_id, grade in grades.items() if grade >= third}
    return float(above <= first and len(level & first) >= 3)


def evidence_recall(ranked: Sequence[str], items: Sequence[frozenset[str]], k: int) -> float:
    """Share of evidence items of which some chunk is among the first k, whatever the chunking, 0 to 1."""
    first = set(ranked[:k])
    return sum(bool(item & first) for item in items) / len(items)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, 1))


def score(ranked: Sequence[str], relevance: Relevance, measure: Measure, k: int) -> Score:
    """The measure of a ranked list, unscored where it divides by relevant chunks that may be unknown."""
    if measure in _OVER_ALL_RELEVANT and relevance.incomplete:
        return Unscored(reason=relevance.incomplete)
    return measure(ranked, relevance.grades, k)


def interval_of(name: str, k: int) -> Kind:
    """The interval of a measure at a depth: that of a proportion where its values are 0 and 1 alone."""
    return "proportion" if name == "hit_rate" or (name, k) in (("precision", 1), ("mrr", 1)) else "mean"


def _returned(observation: Observation, _: Context, *, measure: Measure, k: int) -> Score:
    return score(observation.ranked_ids, observation.relevance, measure, k)


def _evidence(observation: Observation, _: Context, *, k: int) -> Score:
    return evidence_recall(observation.ranked_ids, observation.relevance.items, k)


def _top_three(observation: Observation, _: Context) -> Score:
    if observation.relevance.incomplete:
        return Unscored(reason=observation.relevance.incomplete)
    if len(observation.relevance.grades) < 3:
        return Unscored(reason="fewer than three relevant chunks")
    return three_most_expected_in_five(observation.ranked_ids, observation.relevance.grades)


_OVER_ALL_RELEVANT = (recall, average_precision, ndcg)
"""Measures that divide by what all relevant chunks would give, so that none of them may be unknown."""
MEASURES: Mapping[str, tuple[Measure, str]] = {
    "hit_rate": (hit_rate, "queries with a relevant chunk among the first {k}"),
    "precision": (precision, "relevant among the first {k}, divided by {k}"),
    "recall": (recall, "share of the relevant chunks among the first {k}"),
    "mrr": (reciprocal_rank, "1 / rank of the first relevant chunk, within {k}"),
    "map": (average_precision, "average precision within {k}, over all relevant chunks"),
    "ndcg": (ndcg, "graded gain of the first {k} over that of the ideal order"),
}

METRICS: tuple[QueryMetric, ...] = (
    *(
        QueryMetric(
            name=f"ranking/{name}_at_{k}",
            scope="in_scope",
            interval=interval_of(name, k),
            about=about.format(k=k),
            score=each(partial(_returned, measure=measure, k=k)),
            depth=k,
        )
        for name, (measure, about) in MEASURES.items()
        for k in DEPTHS
    ),
    *(
        QueryMetric(
            name=f"ranking/evidence_recall_at_{k}",
            scope="in_scope",
            interval="mean",
            about=f"share of evidence items found among the first {k}",
            score=each(partial(_evidence, k=k)),
            depth=k,
        )
        for k in DEPTHS
    ),
    QueryMetric(
        name="ranking/expected_top3_in_5",
        scope="in_scope",
        interval="proportion",
        about="queries with three of their highest graded chunks among the first five (of those that have three)",
        score=each(_top_three),
        depth=5,
    ),
)
