"""Ranking metrics by the definitions of trec_eval: pure functions of ranked ids, graded judgements and a depth.

Everywhere `ranked` holds distinct ids in rank order, `grades` the relevant ids with grades above 0, and k the depth.
A query that has relevant chunks and got no result scores 0. Source: trec_eval 9 (NIST), as pytrec_eval computes it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2
from typing import NamedTuple

from evals.collect.observations import Observation, Score, Unscored
from evals.golden.evidence import Relevance
from evals.metrics import prefixes
from evals.metrics.arrays import Floats, RelevanceArrays
from evals.metrics.base import Context, Kind, QueryMetric, each
from evals.metrics.declaration import LABELS, Unit

# The depths at which ranking metrics are computed.
DEPTHS = (1, 3, 5, 10)
Measure = Callable[[Sequence[str], Mapping[str, int], int], float]


def hit_rate(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Return 1 if any of the first k is relevant, else 0 (trec_eval `success`)."""
    return float(any(chunk_id in grades for chunk_id in ranked[:k]))


def precision(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Return the number of relevant among the first k over k, also where fewer are returned (trec_eval `P`)."""
    return sum(chunk_id in grades for chunk_id in ranked[:k]) / k


def recall(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Return the share of all relevant that is among the first k (trec_eval `recall`), 0 to 1."""
    return sum(chunk_id in grades for chunk_id in ranked[:k]) / len(grades)


def reciprocal_rank(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Return 1 / rank of the first relevant among the first k, else 0 (trec_eval `recip_rank`, run cut at k)."""
    return next((1 / rank for rank, chunk_id in enumerate(ranked[:k], 1) if chunk_id in grades), 0.0)


def average_precision(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Return the mean precision at the ranks of all relevant, 0 for those below the first k (trec_eval `map_cut`)."""
    hits, total = 0, 0.0
    for rank, chunk_id in enumerate(ranked[:k], 1):
        if chunk_id in grades:
            hits += 1
            total += hits / rank
    return total / len(grades)


def ndcg(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Return Σ grade / log2(rank + 1) over the first k, over that of the ideal order (trec_eval `ndcg_cut`), 0 to 1."""
    gain = _discounted([grades.get(chunk_id, 0) for chunk_id in ranked[:k]])
    return gain / _discounted(sorted(grades.values(), reverse=True)[:k])


def three_most_expected_in_five(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return 1 if three of the highest graded are among the first five, else 0. Needs at least three relevant.

    With t the third highest grade: everything graded above t must be there, and with those graded t at least three.
    """
    third = sorted(grades.values(), reverse=True)[2]
    first = set(ranked[:5])
    above = {chunk_id for chunk_id, grade in grades.items() if grade > third}
    level = {chunk_id for chunk_id, grade in grades.items() if grade >= third}
    return float(above <= first and len(level & first) >= 3)


def evidence_recall(ranked: Sequence[str], items: Sequence[frozenset[str]], k: int) -> float:
    """Return the share of evidence items with a chunk among the first k, for any chunking, 0 to 1."""
    first = set(ranked[:k])
    return sum(bool(item & first) for item in items) / len(items)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def score(ranked: Sequence[str], relevance: Relevance, measure: Measure, k: int) -> Score:
    """Apply a measure to a ranked list; unscored where it divides by relevant chunks that may be unknown."""
    if measure in _OVER_ALL_RELEVANT and relevance.incomplete:
        return Unscored(reason=relevance.incomplete)
    return measure(ranked, relevance.grades, k)


def interval_of(name: str, k: int) -> Kind:
    """Return the interval of a measure at a depth: that of a proportion where its values are 0 and 1 alone."""
    return "proportion" if name == "hit_rate" or (name, k) in (("precision", 1), ("mrr", 1)) else "mean"


def _returned(observation: Observation, _: Context, *, measure: Measure, k: int) -> Score:
    return score(observation.ranked_ids, observation.relevance, measure, k)


def _evidence(observation: Observation, _: Context, *, k: int) -> Score:
    return evidence_recall(observation.ranked_ids, observation.relevance.items, k)


def _top_three(observation: Observation, _: Context) -> Score:
    if observation.relevance.incomplete:
        return Unscored(reason=observation.relevance.incomplete)
    if len(observation.relevance.grades) < 3:
        return TOO_FEW
    return three_most_expected_in_five(observation.ranked_ids, observation.relevance.grades)


# Measures whose denominator counts all relevant chunks, so that all must be known.
_OVER_ALL_RELEVANT = (recall, average_precision, ndcg)


class RankingMeasure(NamedTuple):
    """A measure of a ranked list at a depth; `source` is its name in trec_eval."""

    of_list: Measure
    over_prefixes: Callable[[RelevanceArrays, int], Floats]
    source: str
    unit: Unit
    about: str


MEASURES: Mapping[str, RankingMeasure] = {
    "hit_rate": RankingMeasure(
        hit_rate, prefixes.hit_rate, "success", "share", "queries with a relevant chunk among the first {k}"
    ),
    "precision": RankingMeasure(
        precision, prefixes.precision, "P", "share", "relevant among the first {k}, divided by {k}"
    ),
    "recall": RankingMeasure(
        recall, prefixes.recall, "recall", "share", "share of the relevant chunks among the first {k}"
    ),
    "mrr": RankingMeasure(
        reciprocal_rank,
        prefixes.reciprocal_rank,
        "recip_rank",
        "score",
        "1 / rank of the first relevant chunk, within {k}",
    ),
    "map": RankingMeasure(
        average_precision,
        prefixes.average_precision,
        "map_cut",
        "score",
        "average precision within {k}, over all relevant chunks",
    ),
    "ndcg": RankingMeasure(
        ndcg, prefixes.ndcg, "ndcg_cut", "score", "graded gain of the first {k} over that of the ideal order"
    ),
}
TOO_FEW = Unscored(reason="fewer than three relevant chunks")

METRICS: tuple[QueryMetric, ...] = (
    *(
        QueryMetric(
            name=f"ranking/{name}_at_{k}",
            scope="in_scope",
            interval=interval_of(name, k),
            about=measure.about.format(k=k),
            source=f"trec_eval 9, `{measure.source}`",
            unit=measure.unit,
            headline="never" if name == "precision" else "at the deepest",
            needs=LABELS,
            score=each(partial(_returned, measure=measure.of_list, k=k)),
            depth=k,
            over_prefixes=prefixes.at(measure.over_prefixes, k),
        )
        for name, measure in MEASURES.items()
        for k in DEPTHS
    ),
    *(
        QueryMetric(
            name=f"ranking/evidence_recall_at_{k}",
            scope="in_scope",
            interval="mean",
            about=f"share of evidence items found among the first {k}",
            headline="at the deepest",
            needs=LABELS,
            score=each(partial(_evidence, k=k)),
            depth=k,
            over_prefixes=prefixes.at(prefixes.evidence_recall, k),
        )
        for k in DEPTHS
    ),
    QueryMetric(
        name="ranking/expected_top3_in_5",
        scope="in_scope",
        interval="proportion",
        about="queries with three of their highest graded chunks among the first five (of those that have three)",
        needs=LABELS,
        score=each(_top_three),
        depth=5,
        over_prefixes=prefixes.three_most_expected_in_five,
        undefined=TOO_FEW.reason,
    ),
)
