"""Headroom of a reranker: nDCG if the candidates of a depth were in the best possible order."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from evals.collect.observations import Observation, Score, Unscored
from evals.metrics.base import Context, QueryMetric, each
from evals.metrics.declaration import LABELS
from evals.metrics.ranking import ndcg

DEPTHS = (10, 20, 50, 100)
CUT = 10


def as_found(observation: Observation) -> tuple[str, ...]:
    """Return the ids of the candidates in the order that a reranker was given them, a repeated one counted once."""
    ids, ranks = observation.candidates.chunk_ids, observation.candidates.column("original_rank")
    order = range(len(ids)) if np.isnan(ranks).any() else np.argsort(ranks, kind="stable").tolist()
    return tuple(dict.fromkeys(ids[index] for index in order))


def best_ndcg(pool: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return nDCG@10 of chunks in the order of their grades."""
    return ndcg(sorted(pool, key=lambda chunk_id: -grades.get(chunk_id, 0)), grades, CUT)


def oracle_ndcg(observation: Observation, _: Context, *, depth: int) -> Score:
    """Return nDCG@10 of the first `depth` candidates, ordered by their grades, 0 to 1.

    The ideal is over all relevant chunks, found or not, so that it is 1 only where the best ten are among the
    candidates; no reranker of this depth reaches more. With binary grades and at most ten relevant chunks it rises
    with recall alone.
    """
    reason = observation.candidates.incomplete or observation.relevance.incomplete
    if reason:
        return Unscored(reason=reason)
    return best_ndcg(as_found(observation)[:depth], observation.relevance.grades)


METRICS: tuple[QueryMetric, ...] = tuple(
    QueryMetric(
        name=f"candidates/oracle_ndcg_at_{CUT}_of_{depth}",
        scope="in_scope",
        interval="mean",
        about=f"ndcg_at_{CUT} if the first {depth} candidates were ordered perfectly: the most that a reranker can win",
        source="trec_eval 9, `ndcg_cut`",
        unit="score",
        headline="never",
        needs=LABELS,
        score=each(partial(oracle_ndcg, depth=depth)),
        of="candidates",
        depth=depth,
    )
    for depth in DEPTHS
)
