"""The id-based context metrics of ragas, by ragas' own classes, with our denominators.

ragas leaves empty results out of its means (or fails on them); here an empty result of an in-scope query scores 0.
Out-of-scope queries have no reference and are not part of these metrics. Source: ragas 0.4.3, `ragas.metrics`.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.metrics import prefixes
from evals.metrics.base import Context, QueryMetric

if TYPE_CHECKING:
    from ragas.dataset_schema import SingleTurnSample

log = logging.getLogger(__name__)
# The only metric that reads the relevance of each returned chunk and of no other chunk.
OF_THE_RETURNED = "IDBasedContextPrecision"


def score_with_ragas(class_name: str, observations: Sequence[Observation]) -> list[Score]:
    """Score observations with a class of `ragas.metrics`, empty results as 0.

    Args:
        class_name: Such as `IDBasedContextPrecision`.
        observations: In-scope queries.
    """
    metric = _ragas_metric(class_name)
    with warnings.catch_warnings():
        # ragas' first score reads a file and leaves it open.
        warnings.simplefilter("ignore", ResourceWarning)
        return asyncio.run(_score_all(metric, observations))


async def _score_all(metric: Any, observations: Sequence[Observation]) -> list[Score]:
    return [await _score(metric, observation) for observation in observations]


async def _score(metric: Any, observation: Observation) -> Score:
    if observation.relevance.incomplete and type(metric).__name__ != OF_THE_RETURNED:
        return Unscored(reason=observation.relevance.incomplete)
    if not observation.selection:
        return 0.0
    try:
        score = float(await metric.single_turn_ascore(_sample(observation)))
    except Exception as error:  # a metric that fails is shown as failed, beside the mean of the others
        log.error("%s failed: %s", metric.name, error, extra={"query_id": observation.case.id, "stage": "score"})
        return Failure(type=type(error).__name__, message=str(error))
    return score if isfinite(score) else Failure(type="NotFinite", message=f"ragas returned {score}")


def _sample(observation: Observation) -> "SingleTurnSample":
    from ragas.dataset_schema import SingleTurnSample

    return SingleTurnSample(
        retrieved_context_ids=list(observation.ranked_ids), reference_context_ids=sorted(observation.relevance.grades)
    )


def _ragas_metric(class_name: str) -> Any:
    # Read once, at import.
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from ragas import metrics

        return getattr(metrics, class_name)()


def _scorer(class_name: str) -> Callable[[Sequence[Observation], Context], list[Score]]:
    return lambda observations, _: score_with_ragas(class_name, observations)


METRICS: tuple[QueryMetric, ...] = tuple(
    QueryMetric(
        name=name,
        scope="in_scope",
        interval="mean",
        about=about,
        source=f"ragas 0.4.3, `{class_name}`",
        score=_scorer(class_name),
        over_prefixes=over_prefixes,
    )
    for name, class_name, about, over_prefixes in (
        (
            "ragas/id_context_precision",
            "IDBasedContextPrecision",
            "share of the returned chunks that is relevant",
            prefixes.id_precision,
        ),
        (
            "ragas/id_context_recall",
            "IDBasedContextRecall",
            "share of the relevant chunks that was returned",
            prefixes.id_recall,
        ),
    )
)
