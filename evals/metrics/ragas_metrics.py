"""The id-based context metrics of ragas: its formulas on the ids of chunks, with our denominators.

ragas leaves empty results out of its means (or fails on them); here an empty result of an in-scope query scores 0.
Out-of-scope queries have no reference and are not part of these metrics. Values equal those of ragas' own classes,
which need its import of three seconds. Source: ragas 0.4.3, `ragas.metrics`, `_context_precision.py` and
`_context_recall.py`.
"""

from evals.collect.observations import Observation, Score, Unscored
from evals.metrics import prefixes
from evals.metrics.base import Context, QueryMetric, each
from evals.metrics.declaration import LABELS


def id_precision(observation: Observation, _: Context) -> Score:
    """Return relevant returned ids / returned ids, 0 to 1; 0 where nothing was returned."""
    ids = set(observation.ranked_ids)
    return len(ids & observation.relevance.grades.keys()) / len(ids) if ids else 0.0


def id_recall(observation: Observation, _: Context) -> Score:
    """Return relevant returned ids / relevant ids, 0 to 1; unscored where not all relevant ids are known."""
    relevance = observation.relevance
    if relevance.incomplete:
        return Unscored(reason=relevance.incomplete)
    return len(set(observation.ranked_ids) & relevance.grades.keys()) / len(relevance.grades)


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(
        name="ragas/id_context_precision",
        scope="in_scope",
        interval="mean",
        about="share of the returned chunks that is relevant",
        source="ragas 0.4.3, `IDBasedContextPrecision`",
        needs=LABELS,
        score=each(id_precision),
        over_prefixes=prefixes.id_precision,
    ),
    QueryMetric(
        name="ragas/id_context_recall",
        scope="in_scope",
        interval="mean",
        about="share of the relevant chunks that was returned",
        source="ragas 0.4.3, `IDBasedContextRecall`",
        needs=LABELS,
        score=each(id_recall),
        over_prefixes=prefixes.id_recall,
    ),
)
