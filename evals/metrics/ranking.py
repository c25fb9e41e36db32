"""Ranking metrics by the definitions of trec_eval, of what was returned and of the candidates.

A measure is a function of results and a depth k, over all rows at once. It reads chunk ids in rank order, a repeated
one at its first place. A query that has relevant chunks and got no result scores 0. Sources: trec_eval 9 (NIST), as
pytrec_eval computes it; ragas 0.4.3 for its metrics on ids.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from evals.collect.observations import Unscored
from evals.collect.pool import Bools, Floats, Integers
from evals.metrics.declaration import Context, Scorer
from evals.metrics.results import Results, Values

TOO_FEW = Unscored(reason="fewer than three relevant chunks")


@dataclass(frozen=True, kw_only=True, eq=False)
class GradedLists:
    """Results of which no more is known than most measures read, such as those of a saved report.

    Attributes:
        grades: The grade of the chunk at each rank, each id at its first place alone; shape (rows, at least 1).
        relevant: Number of relevant chunks of each row's query, found or not.
        ideal: Their grades, descending; shape (rows, grades).
    """

    grades: Integers
    relevant: Integers
    ideal: Integers

    @property
    def ranked(self) -> Self:
        """Itself: no id is repeated."""
        return self


Ranked = Results | GradedLists


def hit_rate(r: Ranked, k: int) -> Floats:
    """Return 1 if any of the first k is relevant, else 0 (trec_eval `success`)."""
    return (_hits(r, k) > 0).astype(float)


def precision(r: Ranked, k: int) -> Floats:
    """Return the number of relevant among the first k over k, also where fewer are returned (trec_eval `P`)."""
    return _hits(r, k) / k


def recall(r: Ranked, k: int) -> Floats:
    """Return the share of all relevant that is among the first k (trec_eval `recall`), 0 to 1."""
    return _hits(r, k) / np.maximum(r.relevant, 1)


def reciprocal_rank(r: Ranked, k: int) -> Floats:
    """Return 1 / rank of the first relevant among the first k, else 0 (trec_eval `recip_rank`, run cut at k)."""
    return np.asarray((_relevant(r, k) / _ranks(r, k)).max(axis=1))


def average_precision(r: Ranked, k: int) -> Floats:
    """Return the mean precision at the ranks of all relevant, 0 for those below the first k (trec_eval `map_cut`)."""
    relevant = _relevant(r, k)
    precisions = np.where(relevant, np.cumsum(relevant, axis=1) / _ranks(r, k), 0.0)
    return np.asarray(precisions.sum(axis=1) / np.maximum(r.relevant, 1))


def ndcg(r: Ranked, k: int) -> Floats:
    """Return Σ grade / log2(rank + 1) over the first k, over that of the ideal order (trec_eval `ndcg_cut`), 0 to 1."""
    return _discounted(r.ranked.grades[:, :k]) / _ideal(r, k)


def evidence_recall(r: Results, k: int | None = None) -> Floats:
    """Return the share of evidence items with a chunk among the first k, for any chunking, 0 to 1; NaN for no item."""
    ranked = r.ranked
    counts = np.asarray([len(relevance.items) for relevance in r.lists.relevance], dtype=np.int64)
    held = ranked.once("evidence", lambda: ranked.laid_out(r.lists.evidence, 0))
    return ranked.share_covered(held, counts[r.list_of], k)


def three_most_expected_in_five(r: Results, _: Context) -> Values:
    """Return 1 if three of the highest graded are among the first five, else 0. Needs at least three relevant.

    With t the third highest grade: everything graded above t must be there, and with those graded t at least three.
    """
    first, third = r.ranked.grades[:, :5], r.ideal[:, [2]]
    above = (first > third).sum(axis=1) == (r.ideal > third).sum(axis=1)
    level = ((first >= third) & (first > 0)).sum(axis=1) >= 3
    return Values.of((above & level).astype(float), (r.relevant < 3, TOO_FEW))


def id_precision(r: Results, _: Context) -> Floats:
    """Return relevant returned ids / returned ids, 0 to 1; 0 where nothing was returned."""
    return _hits(r) / np.maximum(r.ranked.lengths, 1)


def id_recall(r: Results, _: Context) -> Floats:
    """Return relevant returned ids / relevant ids, 0 to 1."""
    return _hits(r) / np.maximum(r.relevant, 1)


def _relevant(r: Ranked, k: int | None) -> Bools:
    relevant: Bools = r.ranked.grades[:, :k] > 0
    return relevant


def _hits(r: Ranked, k: int | None = None) -> Integers:
    return np.asarray(_relevant(r, k).sum(axis=1))


def _ranks(r: Ranked, k: int) -> Integers:
    return np.arange(1, min(k, r.ranked.grades.shape[1]) + 1)


def _discounted(grades: Integers) -> Floats:
    return grades @ (1 / np.log2(np.arange(2, grades.shape[1] + 2)))


def _ideal(r: Ranked, k: int) -> Floats:
    return np.maximum(_discounted(r.ideal[:, :k]), np.where(r.relevant > 0, 0.0, 1.0))


# Of what was returned (`ranking/`) and of the candidates (`candidates/`), at any depth.
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
