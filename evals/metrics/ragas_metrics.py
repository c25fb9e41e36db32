"""The context metrics of ragas that need no judge, by ragas' own classes, with our denominators.

ragas leaves empty results out of its means (or fails on them); here an empty result of an in-scope query scores 0.
Out-of-scope queries have no reference and are not part of these metrics. Source: ragas 0.4.3, `ragas.metrics`.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from evals.metrics.base import Context, QueryMetric
from evals.records import Failure, Observation, Score, Unscored

if TYPE_CHECKING:
    from ragas.dataset_schema import SingleTurnSample

log = logging.getLogger(__name__)
OF_THE_RETURNED = "IDBasedContextPrecision"
"""The one metric that asks of each returned chunk whether it is relevant, and of no other."""


def score_with_ragas(
    class_name: str, observations: Sequence[Observation], texts: Mapping[str, str] | None
) -> list[Score]:
    """Score observations with a class of `ragas.metrics`, empty results as 0.

    Args:
        class_name: Such as `IDBasedContextPrecision`.
        observations: In-scope queries.
        texts: Chunk id to text of every relevant chunk; reference contexts are these texts. None if they are not known.
    """
    metric = _ragas_metric(class_name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # its first score reads a file of its own and leaves it open
        return asyncio.run(_score_all(metric, observations, texts))


async def _score_all(metric: Any, observations: Sequence[Observation], texts: Mapping[str, str] | None) -> list[Score]:
    return [await _score(metric, observation, texts) for observation in observations]


async def _score(metric: Any, observation: Observation, texts: Mapping[str, str] | None) -> Score:
    needs_texts = "reference_contexts" in metric.required_columns["SINGLE_TURN"]
    if needs_texts and texts is None:
        return Unscored(reason="the texts of the relevant chunks are not known")
    if observation.relevance.incomplete and type(metric).__name__ != OF_THE_RETURNED:
        return Unscored(reason=observation.relevance.incomplete)
    if not observation.selection:
        return 0.0
    texts = texts or {}
    missing = [chunk_id for chunk_id in observation.relevance.grades if chunk_id not in texts]
    if needs_texts and missing:
        return Unscored(reason=f"the text of relevant chunk {missing[0]!r} is not in the collection")
    try:
        score = float(await metric.single_turn_ascore(_sample(observation, texts)))
    except Exception as error:  # a metric that fails is shown as failed, beside the mean of the others
        log.error("%s failed: %s", metric.name, error, extra={"query_id": observation.case.id, "stage": "score"})
        return Failure(type=type(error).__name__, message=str(error))
    return score if isfinite(score) else Failure(type="NotFinite", message=f"ragas returned {score}")


def _sample(observation: Observation, texts: Mapping[str, str]) -> "SingleTurnSample":
    from ragas.dataset_schema import SingleTurnSample

    relevant = sorted(observation.relevance.grades)
    return SingleTurnSample(
        user_input=observation.case.query,
        retrieved_context_ids=list(observation.ranked_ids),
        reference_context_ids=relevant,
        retrieved_contexts=[found.chunk.text for found in observation.selection],
        reference_contexts=[texts[chunk_id] for chunk_id in relevant if chunk_id in texts],
    )


def _ragas_metric(class_name: str) -> Any:
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # read once, at import
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from ragas import metrics

        return getattr(metrics, class_name)()


def _scorer(class_name: str) -> Callable[[Sequence[Observation], Context], list[Score]]:
    return lambda observations, context: score_with_ragas(class_name, observations, context.relevant_texts)


METRICS: tuple[QueryMetric, ...] = tuple(
    QueryMetric(name=name, scope="in_scope", interval="mean", about=about, score=_scorer(class_name))
    for name, class_name, about in (
        ("ragas/id_context_precision", "IDBasedContextPrecision", "share of the returned chunks that is relevant"),
        ("ragas/id_context_recall", "IDBasedContextRecall", "share of the relevant chunks that was returned"),
        (
            "ragas/nonllm_context_precision",
            "NonLLMContextPrecisionWithReference",
            "average precision over the returned, relevant by string similarity",
        ),
        (
            "ragas/nonllm_context_recall",
            "NonLLMContextRecall",
            "share of the relevant texts that a returned text resembles",
        ),
    )
)
