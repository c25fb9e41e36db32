"""Metrics for golden data that do not judge every chunk: the share that is judged, and measures of judged chunks alone.

All others count an unjudged chunk as not relevant. Where the golden data judge no chunk "not relevant" (grade 0), a
chunk without a grade may be unjudged or not relevant, and these metrics are unscored.
"""

from collections.abc import Callable, Sequence
from functools import partial

from evals.collect.observations import Observation, Score, Unscored
from evals.golden.evidence import Relevance
from evals.metrics import judged_prefixes
from evals.metrics.base import Context, QueryMetric, Scorer
from evals.metrics.declaration import LABELS
from evals.metrics.prefixes import at
from evals.metrics.ranking import DEPTHS, ndcg

NO_GRADE_0 = Unscored(reason="the golden data judge no chunk of these queries not relevant (grade 0)")
Measure = Callable[[Sequence[str], Relevance], float]


def judged(ranked: Sequence[str], relevance: Relevance, k: int) -> float:
    """Return the share of the first k that is judged (ir_measures `Judged@k`); 1 where nothing was returned.

    Args:
        ranked: Distinct ids in rank order.
        relevance: Judgements of the query.
        k: Depth; of fewer chunks it is the share of these.
    """
    first = ranked[:k]
    return sum(_is_judged(chunk_id, relevance) for chunk_id in first) / len(first) if first else 1.0


def condensed_ndcg(ranked: Sequence[str], relevance: Relevance, k: int) -> float:
    """Return nDCG at k of the list without its unjudged chunks (Sakai 2007), 0 to 1.

    Args:
        ranked: Distinct ids in rank order.
        relevance: Judgements of the query.
        k: Depth in the condensed list.
    """
    return ndcg([chunk_id for chunk_id in ranked if _is_judged(chunk_id, relevance)], relevance.grades, k)


def bpref(ranked: Sequence[str], relevance: Relevance) -> float:
    """Return how rarely a chunk judged not relevant stands before a relevant one, 0 to 1 (trec_eval `bpref`).

    Σ over relevant chunks of the list of 1 − min(judged not relevant before it, R) / min(N, R), over R: with R relevant
    chunks and N judged not relevant. Unjudged chunks have no effect. Source: Buckley and Voorhees 2004.

    Args:
        ranked: Distinct ids in rank order.
        relevance: Judgements of the query.
    """
    relevant, total, before = len(relevance.grades), 0.0, 0
    most = min(len(relevance.irrelevant), relevant)
    for chunk_id in ranked:
        if chunk_id in relevance.grades:
            total += 1 - min(before, relevant) / most if before else 1.0
        before += chunk_id in relevance.irrelevant
    return total / relevant


def _is_judged(chunk_id: str, relevance: Relevance) -> bool:
    return chunk_id in relevance.grades or chunk_id in relevance.irrelevant


def _scorer(measure: Measure, *, all_relevant: bool) -> Scorer:
    """Return a scorer that is unscored where no query has a chunk that is judged not relevant.

    Args:
        measure: Of a list.
        all_relevant: True if all relevant chunks must be known.
    """

    def score(observation: Observation) -> Score:
        relevance = observation.relevance
        if all_relevant and relevance.incomplete:
            return Unscored(reason=relevance.incomplete)
        return measure(observation.ranked_ids, relevance)

    def scorer(observations: Sequence[Observation], _: Context) -> Sequence[Score]:
        if not any(observation.relevance.irrelevant for observation in observations):
            return [NO_GRADE_0] * len(observations)
        return [score(observation) for observation in observations]

    return scorer


METRICS: tuple[QueryMetric, ...] = (
    *(
        QueryMetric(
            name=f"ranking/judged_at_{k}",
            scope="in_scope",
            interval="proportion" if k == 1 else "mean",
            about=f"share of the first {k} that the golden data judge, relevant or not",
            source="ir_measures, `Judged`",
            direction="neither",
            headline="never",
            needs=LABELS,
            score=_scorer(partial(judged, k=k), all_relevant=False),
            depth=k,
            over_prefixes=at(judged_prefixes.judged, k),
            undefined=NO_GRADE_0.reason,
        )
        for k in DEPTHS
    ),
    *(
        QueryMetric(
            name=f"ranking/condensed_ndcg_at_{k}",
            scope="in_scope",
            interval="mean",
            about=f"nDCG at {k} of the judged chunks alone",
            source="Sakai 2007; trec_eval 9, `ndcg_cut`, of a run without unjudged documents",
            unit="score",
            headline="never",
            needs=LABELS,
            score=_scorer(partial(condensed_ndcg, k=k), all_relevant=True),
            depth=k,
            over_prefixes=at(judged_prefixes.condensed_ndcg, k),
            undefined=NO_GRADE_0.reason,
        )
        for k in DEPTHS
    ),
    QueryMetric(
        name="ranking/bpref",
        scope="in_scope",
        interval="mean",
        about="how rarely a chunk judged not relevant stands before a relevant one; unjudged ones have no effect",
        source="trec_eval 9, `bpref`",
        unit="score",
        headline="never",
        needs=LABELS,
        score=_scorer(bpref, all_relevant=True),
        over_prefixes=judged_prefixes.bpref,
        undefined=NO_GRADE_0.reason,
    ),
)
