"""Ranking metrics of the candidates: all results to the candidate depth, before threshold, grouping and cut.

They are the retriever's own figures, the same at every `top_k` and threshold; definitions as in `metrics/ranking.py`.
"""

from functools import partial

from evals.collect.observations import Observation, Score, Unscored
from evals.metrics import prefixes
from evals.metrics.base import Context, QueryMetric, each
from evals.metrics.declaration import LABELS, Headline
from evals.metrics.ranking import MEASURES, Measure, interval_of, score


def _found(observation: Observation, _: Context, *, measure: Measure, k: int) -> Score:
    if observation.candidates.incomplete:
        return Unscored(reason=observation.candidates.incomplete)
    return score(observation.candidate_ids, observation.relevance, measure, k)


def _metric(name: str, k: int, headline: Headline = "never") -> QueryMetric:
    measure = MEASURES[name]
    return QueryMetric(
        name=f"candidates/{name}_at_{k}",
        scope="in_scope",
        interval=interval_of(name, k),
        about=f"{measure.about.format(k=k)}; of the candidates",
        source=f"trec_eval 9, `{measure.source}`",
        unit=measure.unit,
        headline=headline,
        needs=LABELS,
        score=each(partial(_found, measure=measure.of_list, k=k)),
        of="candidates",
        depth=k,
        over_prefixes=prefixes.at(measure.over_prefixes, k),
    )


METRICS: tuple[QueryMetric, ...] = (
    _metric("ndcg", 10, "always"),
    _metric("mrr", 10),
    _metric("recall", 10),
    _metric("recall", 100, "always"),
    _metric("hit_rate", 100),
)
