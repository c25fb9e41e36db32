"""The context metrics of ragas that compare texts as strings, its formulas on similarities computed in bulk.

ragas compares every pair of a returned and a relevant text again in every sample, one awaited call a time. Here each
pair of a query is compared once, however many selections of its candidates are scored. Values equal those of ragas' own
classes; an empty result of an in-scope query scores 0. Source: ragas 0.4.3, `ragas.metrics`, `_context_precision.py`,
`_context_recall.py` and `_string.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation, Score, Unscored
from evals.judge.precision import average_precision
from evals.metrics.base import Context, QueryMetric
from evals.metrics.declaration import LABELS

# Normalised Levenshtein distance beyond which texts are not alike; precision takes exactly this, recall does not.
FARTHEST = 0.5
KEPT_QUERIES = 4096
Distances = NDArray[np.float64]
Measure = Callable[[Distances, int], float]
"""Computes a score from the distances of relevant to returned texts, and the number of relevant chunks."""


@lru_cache(maxsize=KEPT_QUERIES)  # both metrics ask for the same
def text_distances(relevant: tuple[str, ...], returned: tuple[str, ...]) -> Distances:
    """Return the distances of relevant texts to returned ones: Levenshtein distance / length of the longer.

    Args:
        relevant: Texts of the relevant chunks, at least one.
        returned: Distinct texts.

    Returns:
        Array of shape (relevant, returned), 0 to 1.
    """
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    return process.cdist(  # a distance beyond the cutoff is given as 1, which spares most of its computation
        relevant, returned, scorer=Levenshtein.normalized_distance, score_cutoff=FARTHEST, dtype=np.float64
    )


def precision(distances: Distances, _: int) -> float:
    """Return the average precision over the returned texts, relevant if like a relevant text, 0 to 1 - 1e-10."""
    return average_precision((distances <= FARTHEST).any(axis=0).astype(int).tolist())


def recall(distances: Distances, count: int) -> float:
    """Return the share of the `count` relevant texts that some returned text is like, 0 to 1."""
    return int((distances < FARTHEST).any(axis=1).sum()) / count


def _scorer(measure: Measure) -> Callable[[Sequence[Observation], Context], list[Score]]:
    def score(observations: Sequence[Observation], context: Context) -> list[Score]:
        # For each query the texts of all its selections, each with its column.
        returned: dict[str, dict[str, int]] = {}
        for observation in observations:
            columns = returned.setdefault(observation.case.id, {})
            for chunk in observation.selection.chunks:
                columns.setdefault(chunk.text, len(columns))
        return [_score(o, returned[o.case.id], context, measure) for o in observations]

    return score


def _score(observation: Observation, columns: Mapping[str, int], context: Context, measure: Measure) -> Score:
    texts = context.relevant_texts
    if texts is None:
        return Unscored(reason="the texts of the relevant chunks are not known")
    if observation.relevance.incomplete:
        return Unscored(reason=observation.relevance.incomplete)
    if not observation.selection:
        return 0.0
    relevant = tuple(texts[chunk_id] for chunk_id in sorted(observation.relevance.grades) if chunk_id in texts)
    if not relevant:
        return 0.0
    of_selection = [columns[chunk.text] for chunk in observation.selection.chunks]
    # No text is like a relevant chunk that the collection lacks; it counts nevertheless.
    return measure(text_distances(relevant, tuple(columns))[:, of_selection], len(observation.relevance.grades))


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(
        name="ragas/nonllm_context_precision",
        scope="in_scope",
        interval="mean",
        about="average precision over the returned, relevant by string similarity",
        source="ragas 0.4.3, `NonLLMContextPrecisionWithReference`",
        needs=LABELS,
        score=_scorer(precision),
    ),
    QueryMetric(
        name="ragas/nonllm_context_recall",
        scope="in_scope",
        interval="mean",
        about="share of the relevant texts that a returned text resembles",
        source="ragas 0.4.3, `NonLLMContextRecall`",
        needs=LABELS,
        score=_scorer(recall),
    ),
)
