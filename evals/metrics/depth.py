"""Metrics that read more places than a list has: shown only when requested by name. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.metrics.base import Metric, QueryMetric
from retrievers.config import RetrieverConfig


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Lengths of the lists: `top_k` for returned chunks, the depth for candidates."""

    returned: int
    candidates: int

    def is_exceeded_by(self, metric: Metric) -> bool:
        """Return True if a metric reads further."""
        if not isinstance(metric, QueryMetric) or metric.depth is None:
            return False
        return metric.depth > (self.returned if metric.of == "returned" else self.candidates)


def reach(config: RetrieverConfig, top_ks: Sequence[int] = (), depths: Sequence[int] = ()) -> Reach:
    """Return the reach of a retriever, or of the cells of a sweep: the longest result, the shallowest candidates.

    Args:
        config: The retriever, whose settings hold where the sweep names none.
        top_ks: Values of `top_k` that are swept.
        depths: Values of `candidates` that are swept.
    """
    return Reach(returned=max(top_ks or (config.top_k,)), candidates=min(depths or (config.candidates,)))
