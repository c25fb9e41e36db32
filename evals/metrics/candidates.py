"""Ranking metrics of the candidates: what the search found to the candidate depth, before threshold, grouping and cut.

They are the retriever's own figures, the same at every `top_k` and threshold; definitions as in `metrics/ranking.py`.
"""

from functools import partial

from evals.collect.observations import Observation, Score, Unscored
from evals.metrics.base import Context, QueryMetric, each
from evals.metrics.ranking import MEASURES, Measure, interval_of, score


def _found(observation: Observation, _: Context, *, measure: Measure, k: int) -> Score:
    if observation.candidates.incomplete:
        return Unscored(reason=observation.candidates.incomplete)
    return score(observation.candidate_ids, observation.relevance, measure, k)


METRICS: tuple[QueryMetric, ...] = tuple(
    QueryMetric(
        name=f"candidates/{name}_at_{k}",
        scope="in_scope",
        interval=interval_of(name, k),
        about=f"{MEASURES[name][1].format(k=k)}; of the candidates",
        score=each(partial(_found, measure=MEASURES[name][0], k=k)),
        of="candidates",
        depth=k,
    )
    for name, k in (("ndcg", 10), ("mrr", 10), ("recall", 10), ("recall", 100), ("hit_rate", 100))
)
