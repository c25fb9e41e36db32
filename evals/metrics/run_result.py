"""A finished run. Frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evals.collect.observations import Gate, Observed, Score, Summary, ValidationReport
from evals.config.experiment import ExperimentConfig
from evals.judge.trust.trust import Trust
from evals.judge.verdicts import Judging


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Finished run: its observations and scores, from which its report is built.

    Attributes:
        config: The experiment; of a grid with the retriever of the cell that the run is of.
        scores: Metric to case id to score, for the metrics that score queries.
        proxies: Judged metric to case id to its proxy's score (see `QueryMetric.proxy`).
        tier_scores: Judged metric to its scores by each cheaper judge of a cascade, with its model, the cheapest first.
        notes: Notes for the reader of the figures.
        judging: Verdicts of the judge, None without a judge; `trust`, how far to trust it.
    """

    config: ExperimentConfig
    observed: Observed
    scores: Mapping[str, Mapping[str, Score]]
    summaries: Sequence[Summary]
    gates: Sequence[Gate]
    validation: ValidationReport
    notes: Sequence[str] = ()
    proxies: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)
    tier_scores: Mapping[str, Sequence[tuple[str, Mapping[str, Score]]]] = field(default_factory=dict)
    judging: Judging | None = None
    trust: Trust | None = None
