"""Ranking metrics by the definitions of trec_eval, of what was returned and of the candidates.

A measure is a function of results and a depth k, over all rows at once. It reads chunk ids in rank order, a repeated
one at its first place. A query that has relevant chunks and got no result scores 0. Sources: trec_eval 9 (NIST), as
pytrec_eval computes it; ragas 0.4.3 for its metrics on ids; ir_measures for incomplete labels.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from evals.collect.observations import Unscored
from evals.collect.pool import Bools, Floats, Integers
from evals.metrics.declaration import LABELS, Context, Headline, QueryMetric
from evals.metrics.results import Results, Values

# The depths at which metrics are computed: of what was returned, of the candidates that a reranker gets.
DEPTHS, ORACLE_DEPTHS = (1, 3, 5, 10), (10, 20, 50, 100)
CUT = 10
TOO_FEW = Unscored(reason="fewer than three relevant chunks")
NO_GRADE_0 = Unscored(reason="the golden data judge no chunk of these queries not relevant (grade 0)")
Measure = Callable[[Results, int], Floats]


def hit_rate(r: Results, k: int) -> Floats:
    """Return 1 if any of the first k is relevant, else 0 (trec_eval `success`)."""
    return (_hits(r, k) > 0).astype(float)


def precision(r: Results, k: int) -> Floats:
    """Return the number of relevant among the first k over k, also where fewer are returned (trec_eval `P`)."""
    return _hits(r, k) / k


def recall(r: Results, k: int) -> Floats:
    """Return the share of all relevant that is among the first k (trec_eval `recall`), 0 to 1."""
    return _hits(r, k) / np.maximum(r.relevant, 1)


def reciprocal_rank(r: Results, k: int) -> Floats:
    """Return 1 / rank of the first relevant among the first k, else 0 (trec_eval `recip_rank`, run cut at k)."""
    return np.asarray((_relevant(r, k) / _ranks(r, k)).max(axis=1))


def average_precision(r: Results, k: int) -> Floats:
    """Return the mean precision at the ranks of all relevant, 0 for those below the first k (trec_eval `map_cut`)."""
    relevant = _relevant(r, k)
    precisions = np.where(relevant, np.cumsum(relevant, axis=1) / _ranks(r, k), 0.0)
    return np.asarray(precisions.sum(axis=1) / np.maximum(r.relevant, 1))


def ndcg(r: Results, k: int) -> Floats:
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


def judged(r: Results, k: int) -> Floats:
    """Return the share of the first k that is judged (ir_measures `Judged@k`), of fewer that of these; 1 for none."""
    lengths = np.minimum(r.ranked.lengths, k)
    counts = np.sum(_judged(r)[:, :k], axis=1)
    return np.where(lengths > 0, counts / np.maximum(lengths, 1), 1.0)


def condensed_ndcg(r: Results, k: int) -> Floats:
    """Return nDCG at k of the list without its unjudged chunks (Sakai 2007), 0 to 1."""
    known = _judged(r)
    order = np.argsort(~known, axis=1, kind="stable")[:, :k]
    condensed = np.take_along_axis(np.where(known, r.ranked.grades, 0), order, axis=1)
    return _discounted(condensed) / _ideal(r, k)


def bpref(r: Results, _: int) -> Floats:
    """Return how rarely a chunk judged not relevant stands before a relevant one, 0 to 1 (trec_eval `bpref`).

    Σ over relevant chunks of the list of 1 − min(judged not relevant before it, R) / min(N, R), over R: with R relevant
    chunks and N judged not relevant. Unjudged chunks have no effect. Source: Buckley and Voorhees 2004.
    """
    relevant = _relevant(r)
    refused = _judged(r) & ~relevant
    before: Integers = np.cumsum(refused, axis=1) - refused
    irrelevant = np.asarray([len(each.irrelevant) for each in r.lists.relevance], dtype=np.int64)[r.list_of]
    most = np.minimum(irrelevant, r.relevant)
    lost = np.minimum(before, r.relevant[:, None]) / np.maximum(most, 1)[:, None]
    return np.asarray(np.where(relevant, 1 - lost, 0.0).sum(axis=1) / np.maximum(r.relevant, 1))


def oracle_ndcg(r: Results, _: Context, *, depth: int) -> Floats:
    """Return nDCG@10 of the first `depth` candidates, ordered by their grades, 0 to 1.

    They are the first in the order that a reranker was given them. The ideal is over all relevant chunks, found or not,
    so that it is 1 only where the best ten are among the candidates; no reranker of this depth reaches more. With
    binary grades and at most ten relevant chunks it rises with recall alone.
    """
    grades = as_found(r).ranked.grades[:, :depth]
    return _discounted(-np.sort(-grades, axis=1)[:, :CUT]) / _ideal(r, CUT)


def as_found(r: Results) -> Results:
    """Return results in the order that a reranker was given them; as they are where there was none."""
    given = r.column("original_rank")
    reranked = np.asarray(r.found.any(axis=1) & ~(np.isnan(given) & r.found).any(axis=1))
    places = np.take_along_axis(r.places, np.argsort(given, axis=1, kind="stable"), axis=1)
    return Results(r.lists, r.list_of, np.where(reranked[:, None], places, r.places))


def _relevant(r: Results, k: int | None = None) -> Bools:
    relevant: Bools = r.ranked.grades[:, :k] > 0
    return relevant


def _hits(r: Results, k: int | None = None) -> Integers:
    return np.asarray(_relevant(r, k).sum(axis=1))


def _ranks(r: Results, k: int) -> Integers:
    return np.arange(1, min(k, r.places.shape[1]) + 1)


def _discounted(grades: Integers) -> Floats:
    return grades @ (1 / np.log2(np.arange(2, grades.shape[1] + 2)))


def _ideal(r: Results, k: int) -> Floats:
    return np.maximum(_discounted(r.ideal[:, :k]), np.where(r.relevant > 0, 0.0, 1.0))


def _judged(r: Results) -> Bools:
    return r.ranked.laid_out(r.lists.judged, False)


def _at(measure: Measure, k: int) -> Callable[[Results, Context], Floats]:
    return lambda r, _: measure(r, k)


def _where_refused(measure: Measure, k: int) -> Callable[[Results, Context], Values]:
    """Return a measure that reads which chunks are judged not relevant, unscored where the golden data judge none.

    A chunk without a grade may then be unjudged or not relevant.
    """
    return lambda r, _: Values.of(
        measure(r, k) if r.lists.pool.refuses else np.zeros(len(r)), (not r.lists.pool.refuses, NO_GRADE_0)
    )


# A measure, its name in trec_eval, its unit, a line about it, and whether it divides by all relevant chunks.
MEASURES: Mapping[str, tuple[Measure, str, str, str, bool]] = {
    "hit_rate": (hit_rate, "success", "share", "queries with a relevant chunk among the first {k}", False),
    "precision": (precision, "P", "share", "relevant among the first {k}, divided by {k}", False),
    "recall": (recall, "recall", "share", "share of the relevant chunks among the first {k}", True),
    "mrr": (reciprocal_rank, "recip_rank", "score", "1 / rank of the first relevant chunk, within {k}", False),
    "map": (average_precision, "map_cut", "score", "average precision within {k}, over all relevant chunks", True),
    "ndcg": (ndcg, "ndcg_cut", "score", "graded gain of the first {k} over that of the ideal order", True),
}


def _ranking(name: str, k: int, headline: Headline, *, candidates: bool = False) -> QueryMetric:
    measure, source, unit, about, all_relevant = MEASURES[name]
    return QueryMetric(
        name=f"{'candidates' if candidates else 'ranking'}/{name}_at_{k}", score=_at(measure, k),
        about=about.format(k=k) + ("; of the candidates" if candidates else ""), source=f"trec_eval 9, `{source}`",
        unit=unit, headline=headline, needs=LABELS, of="candidates" if candidates else "returned", depth=k,
        all_relevant=all_relevant,
    )  # fmt: skip


def _for_incomplete_labels() -> Iterator[QueryMetric]:
    """Yield the metrics for golden data that do not judge every chunk; all others count it as not relevant."""
    for k in DEPTHS:
        yield QueryMetric(
            name=f"ranking/judged_at_{k}", score=_where_refused(judged, k), depth=k, direction="neither",
            about=f"share of the first {k} that the golden data judge, relevant or not", source="ir_measures, `Judged`",
            headline="never", needs=LABELS,
        )  # fmt: skip
    for k in DEPTHS:
        yield QueryMetric(
            name=f"ranking/condensed_ndcg_at_{k}", score=_where_refused(condensed_ndcg, k), depth=k, unit="score",
            about=f"nDCG at {k} of the judged chunks alone", headline="never", needs=LABELS, all_relevant=True,
            source="Sakai 2007; trec_eval 9, `ndcg_cut`, of a run without unjudged documents",
        )  # fmt: skip
    yield QueryMetric(
        name="ranking/bpref", score=_where_refused(bpref, 0), unit="score", headline="never", needs=LABELS,
        about="how rarely a chunk judged not relevant stands before a relevant one; unjudged ones have no effect",
        source="trec_eval 9, `bpref`", all_relevant=True,
    )  # fmt: skip


OF_IDS = (
    QueryMetric(
        name="ragas/id_context_precision", about="share of the returned chunks that is relevant", score=id_precision,
        source="ragas 0.4.3, `IDBasedContextPrecision`", needs=LABELS,
    ),
    QueryMetric(
        name="ragas/id_context_recall", about="share of the relevant chunks that was returned", score=id_recall,
        source="ragas 0.4.3, `IDBasedContextRecall`", needs=LABELS, all_relevant=True,
    ),
)  # fmt: skip
METRICS = (
    *(_ranking(name, k, "never" if name == "precision" else "at the deepest") for name in MEASURES for k in DEPTHS),
    *(
        QueryMetric(
            name=f"ranking/evidence_recall_at_{k}", about=f"share of evidence items found among the first {k}",
            score=_at(evidence_recall, k), headline="at the deepest", needs=LABELS, depth=k,
        )
        for k in DEPTHS
    ),
    QueryMetric(
        name="ranking/expected_top3_in_5", score=three_most_expected_in_five, needs=LABELS, depth=5, all_relevant=True,
        about="queries with three of their highest graded chunks among the first five (of those that have three)",
    ),
    *_for_incomplete_labels(),
    _ranking("ndcg", 10, "always", candidates=True),
    _ranking("mrr", 10, "never", candidates=True),
    _ranking("recall", 10, "never", candidates=True),
    _ranking("recall", 100, "always", candidates=True),
    _ranking("hit_rate", 100, "never", candidates=True),
    *(
        QueryMetric(
            name=f"candidates/oracle_ndcg_at_{CUT}_of_{depth}", score=partial(oracle_ndcg, depth=depth), unit="score",
            about=f"ndcg_at_{CUT} if the first {depth} candidates were ordered perfectly: the most that a reranker "
            "can win", source="trec_eval 9, `ndcg_cut`", headline="never", needs=LABELS, of="candidates", depth=depth,
            all_relevant=True,
        )
        for depth in ORACLE_DEPTHS
    ),
)  # fmt: skip
