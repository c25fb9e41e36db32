"""The context metrics of ragas that compare texts as strings, its formulas on similarities computed in bulk.

ragas compares every pair of a returned and a relevant text again in every sample, one awaited call a time. Here each
pair of a query is compared once, however many selections of its candidates are scored. Values equal those of ragas' own
classes; an empty result of an in-scope query scores 0. Source: ragas 0.4.3, `ragas.metrics`, `_context_precision.py`,
`_context_recall.py` and `_string.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from evals.collect.observations import Observation, Score, Unscored
from evals.judge.precision import average_precision
from evals.metrics.base import Context, QueryMetric

# Normalised Levenshtein distance beyond which texts are not alike; precision takes exactly this, recall does not.
FARTHEST = 0.5
KEPT_QUERIES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """Likeness of returned texts to a query's relevant texts.

    Attributes:
        near: Text to 1 if its similarity to some relevant text is at least 0.5, else 0.
        covers: Text to the relevant texts to which its similarity is above 0.5: one bit each.
        count: Number of relevant texts, found in the collection or not.
    """

    near: Mapping[str, int]
    covers: Mapping[str, int]
    count: int


@lru_cache(maxsize=KEPT_QUERIES)  # both metrics ask for the same
def likeness(relevant: tuple[str, ...], returned: tuple[str, ...]) -> Likeness:
    """Compare every relevant text with every returned one: 1 − Levenshtein distance / length of the longer.

    Args:
        relevant: Texts of the relevant chunks, at least one.
        returned: Distinct texts.
    """
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    distances = process.cdist(  # a distance beyond the cutoff is given as 1, which spares most of its computation
        relevant, returned, scorer=Levenshtein.normalized_distance, score_cutoff=FARTHEST, dtype=np.float64
    )
    bits = [1 << number for number in range(len(relevant))]
    return Likeness(
        near=dict(zip(returned, (distances <= FARTHEST).any(axis=0).astype(int).tolist(), strict=True)),
        covers={
            text: sum(bit for bit, is_like in zip(bits, column, strict=True) if is_like)
            for text, column in zip(returned, (distances < FARTHEST).T.tolist(), strict=True)
        },
        count=len(relevant),
    )


def precision(texts: Sequence[str], likeness: Likeness) -> float:
    """Return the average precision over the returned texts, relevant if like a relevant text, 0 to 1 - 1e-10."""
    return average_precision([likeness.near[text] for text in texts])


def recall(texts: Sequence[str], likeness: Likeness) -> float:
    """Return the share of the relevant texts that some returned text is like, 0 to 1."""
    covered = 0
    for text in texts:
        covered |= likeness.covers[text]
    return covered.bit_count() / likeness.count


def _scorer(
    measure: Callable[[Sequence[str], Likeness], float],
) -> Callable[[Sequence[Observation], Context], list[Score]]:
    def score(observations: Sequence[Observation], context: Context) -> list[Score]:
        # For each query all texts of its selections, in order.
        returned: dict[str, dict[str, None]] = {}
        for observation in observations:
            texts = returned.setdefault(observation.case.id, {})
            texts.update(dict.fromkeys(chunk.text for chunk in observation.selection.chunks))
        return [_score(o, tuple(returned[o.case.id]), context, measure) for o in observations]

    return score


def _score(
    observation: Observation,
    returned: tuple[str, ...],
    context: Context,
    measure: Callable[[Sequence[str], Likeness], float],
) -> Score:
    texts = context.relevant_texts
    if texts is None:
        return Unscored(reason="the texts of the relevant chunks are not known")
    if observation.relevance.incomplete:
        return Unscored(reason=observation.relevance.incomplete)
    if not observation.selection:
        return 0.0
    relevant = [chunk_id for chunk_id in sorted(observation.relevance.grades) if chunk_id in texts]
    if not relevant:
        return 0.0
    result = likeness(tuple(texts[chunk_id] for chunk_id in relevant), returned)
    # No text is similar to a missing chunk.
    result = replace(result, count=len(observation.relevance.grades))
    return measure([chunk.text for chunk in observation.selection.chunks], result)


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(
        name="ragas/nonllm_context_precision",
        scope="in_scope",
        interval="mean",
        about="average precision over the returned, relevant by string similarity",
        source="ragas 0.4.3, `NonLLMContextPrecisionWithReference`",
        score=_scorer(precision),
    ),
    QueryMetric(
        name="ragas/nonllm_context_recall",
        scope="in_scope",
        interval="mean",
        about="share of the relevant texts that a returned text resembles",
        source="ragas 0.4.3, `NonLLMContextRecall`",
        score=_scorer(recall),
    ),
)
