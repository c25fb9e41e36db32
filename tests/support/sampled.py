"""A finished run of which a random sample of the queries was judged, put together by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.collect.observations import Observed, Score
from evals.grid.measure import Measured
from evals.grid.sampled import sampled_summary
from evals.judge.tasks import PRECISION
from evals.metrics import METRICS
from evals.metrics.criteria import judge
from evals.metrics.declaration import QueryMetric
from evals.sampling.order import NOT_DRAWN
from tests.support.results import hit, observation, report_of, result, verdict

JUDGED: Sequence[Score] = (1.0, 0.5, 0.25, 0.0, 1.0, 0.75) * 4
"""Scores of the first queries; the others were not drawn."""
LABELS: Sequence[float] = (1.0, 0.5, 0.5, 0.0, 1.0, 0.5) * 4 + (1.0, 0.5, 0.0) * 12


def sampled_result(
    judged: Sequence[Score] = JUDGED,
    labels: Sequence[float] = LABELS,
    criteria: Mapping[str, str] | None = None,
    types: Sequence[str] = ("factual", "keyword"),
) -> Measured:
    """Return a run of as many queries as there are labels, whose types take turns."""
    metric: Any = METRICS[PRECISION]
    assert isinstance(metric, QueryMetric)
    ids = [f"q{place}" for place in range(len(labels))]
    scores = [*judged, *[NOT_DRAWN] * (len(labels) - len(judged))]
    summary = sampled_summary(metric, scores, labels, "labels/context_precision")
    cases = [
        observation(name, [hit(1, 0.9, "x")], 1, {"x": 1}, query_type=types[place % len(types)])
        for place, name in enumerate(ids)
    ]
    return result(
        observed=Observed(observations=tuple(cases)),
        scores={PRECISION: dict(zip(ids, scores, strict=True))},
        proxies={PRECISION: dict(zip(ids, labels, strict=True))},
        summaries=(summary,),
        gates=judge(criteria or {}, [summary]),
        validation=report_of([verdict(name, "SUCCESS") for name in ids]),
    )
