"""Recall of the index: the share of the exactly nearest chunks that a search found which may miss some."""

from functools import partial

from evals.collect.observations import Observation, Score, Unscored
from evals.metrics.base import Context, QueryMetric, each

DEPTHS = (5, 100)
ENOUGH = 0.95
"""A mean below this is the index's fault before it is the model's."""


def ann_recall(observation: Observation, _: Context, *, k: int) -> Score:
    """Return the share of the k nearest chunks, by exact search, that the approximate one has in its first k, 0 to 1.

    A chunk that is as near as the k-th one counts as found (see `evals.collect.index_recall`). Whether a chunk is
    relevant plays no part. Unscored where the two searches were not compared: no vectors are searched for, or fewer
    than k.
    """
    recall = observation.candidates.ann_recall.get(k)
    return Unscored(reason=f"no search for {k} vectors was compared with an exact one") if recall is None else recall


METRICS: tuple[QueryMetric, ...] = tuple(
    QueryMetric(
        name=f"index/ann_recall_at_{k}",
        scope="all",
        interval="mean",
        about=f"of the {k} exactly nearest, those that the approximate search found",
        source="ann-benchmarks, `k-nn` (recall)",
        headline="always" if k == DEPTHS[0] else "never",
        needs=frozenset({"index"}),
        score=each(partial(ann_recall, k=k)),
        of="candidates",
        depth=k,
    )
    for k in DEPTHS
)
