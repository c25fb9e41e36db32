"""Ranking metrics by the definitions of trec_eval, over the returned chunks and over the candidates.

A measure is a function of results and a depth k, over all rows at once. It reads chunk ids in rank order; a repeated id
counts at its first place only. A query that has relevant chunks and got no result scores 0. Sources: trec_eval 9
(NIST), as pytrec_eval computes it; ragas 0.4.3 for its metrics on ids.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from evals.collect.observations import Unscored
from evals.metrics.declaration import Context, Scorer
from evals.metrics.results import Results, Values
from evals.stats.intervals import Bools, Floats, Integers

TOO_FEW = Unscored(reason="fewer than three relevant chunks")


@dataclass(frozen=True, kw_only=True, eq=False)
class GradedLists:
    """Results with no more than most measures read, such as those of a saved report.

    Attributes:
        grades: The grade of the chunk at each rank, without repeated ids; shape (rows, at least 1).
        relevant: Number of relevant chunks of each row's query, found or not; shape (rows,).
        ideal: The grades of these chunks, descending; shape (rows, grades).
    """

    grades: Integers
    relevant: Integers
    ideal: Integers

    @property
    def ranked(self) -> Self:
        """The results themselves: no id is repeated."""
        return self


Ranked = Results | GradedLists


def hit_rate(r: Ranked, k: int) -> Floats:
    """Return 1 if any of the first k is relevant, else 0 (trec_eval `success`)."""
    return (_hits(r, k) > 0).astype(float)


def precision(r: Ranked, k: int) -> Floats:
    """Return the number of relevant chunks among the first k, over k even if fewer are returned (trec_eval `P`)."""
    return _hits(r, k) / k


def recall(r: Ranked, k: int) -> Floats:
    """Return the share of the relevant chunks that are among the first k (trec_eval `recall`), 0 to 1."""
    return _hits(r, k) / np.maximum(r.relevant, 1)


def reciprocal_rank(r: Ranked, k: int) -> Floats:
    """Return 1 / rank of the first relevant chunk, 0 below the first k (trec_eval `recip_rank`, run cut at k)."""
    return np.asarray((_relevant(r, k) / _ranks(r, k)).max(axis=1))


def average_precision(r: Ranked, k: int) -> Floats:
    """Return the mean precision at the ranks of the relevant chunks, 0 below the first k (trec_eval `map_cut`)."""
    relevant = _relevant(r, k)
    precisions = np.where(relevant, np.cumsum(relevant, axis=1) / _ranks(r, k), 0.0)
    return np.asarray(precisions.sum(axis=1) / np.maximum(r.relevant, 1))


def ndcg(r: Ranked, k: int) -> Floats:
    """Return Σ grade / log2(rank + 1) of the first k, divided by the sum of the ideal order (trec_eval `ndcg_cut`)."""
    # Without relevant chunks the ideal is 0, and so is the sum: the quotient is 0.
    ideal = np.where(r.relevant > 0, _discounted(r.ideal[:, :k]), 1.0)
    return _discounted(r.ranked.grades[:, :k]) / ideal


def evidence_recall(r: Results, k: int | None = None) -> Floats:
    """Return the share of evidence items with a chunk among the first k, 0 to 1; NaN for a query without items.

    The share does not depend on how pages are cut into chunks.
    """
    ranked = r.ranked
    counts = np.asarray([len(relevance.items) for relevance in r.lists.relevance], dtype=np.int64)
    held = ranked.once("evidence", lambda: ranked.laid_out(r.lists.evidence, 0))
    return ranked.share_covered(held, counts[r.list_of], k)


def three_most_expected_in_five(r: Results, _: Context) -> Values:
    """Return 1 if three chunks of the highest grades are among the first five, else 0.

    Let t be the third highest grade. All chunks graded above t must be there, and at least three graded t or above.
    A query with fewer than three relevant chunks has no score.
    """
    first, third = r.ranked.grades[:, :5], r.ideal[:, [2]]
    has_all_above = (first > third).sum(axis=1) == (r.ideal > third).sum(axis=1)
    has_three = ((first >= third) & (first > 0)).sum(axis=1) >= 3
    return Values.of((has_all_above & has_three).astype(float), (r.relevant < 3, TOO_FEW))


def id_precision(r: Results, _: Context) -> Floats:
    """Return relevant returned ids / returned ids, 0 to 1; 0 where nothing was returned."""
    return _hits(r) / np.maximum(r.ranked.lengths, 1)


def id_recall(r: Results, _: Context) -> Floats:
    """Return relevant returned ids / relevant ids, 0 to 1."""
    return _hits(r) / np.maximum(r.relevant, 1)


def _relevant(r: Ranked, k: int | None) -> Bools:
    return np.asarray(r.ranked.grades[:, :k] > 0)


def _hits(r: Ranked, k: int | None = None) -> Integers:
    return np.asarray(_relevant(r, k).sum(axis=1))


def _ranks(r: Ranked, k: int) -> Integers:
    return np.arange(1, min(k, r.ranked.grades.shape[1]) + 1)


def _discounted(grades: Integers) -> Floats:
    return grades @ (1 / np.log2(np.arange(2, grades.shape[1] + 2)))


# Measures of the returned chunks (`ranking/`) and of the candidates (`candidates/`), at any depth.
OF_GRADES: Mapping[str, Callable[[Ranked, int], Floats]] = {
    "hit_rate": hit_rate,
    "precision": precision,
    "recall": recall,
    "mrr": reciprocal_rank,
    "map": average_precision,
    "ndcg": ndcg,
}
MEASURES: Mapping[str, Callable[[Results, int], Floats]] = {**OF_GRADES, "evidence_recall": evidence_recall}
SCORES: Mapping[str, Scorer] = {
    "ragas/id_context_precision": id_precision,
    "ragas/id_context_recall": id_recall,
    "ranking/expected_top3_in_5": three_most_expected_in_five,
}
