"""A finished run, with all that a report is made from. Frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.collect.observations import Gate, Observed, Score, Summary, ValidationReport
from evals.judge.trust.trust import Trust
from evals.judge.verdicts import Judging


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A finished run, ready to be reported.

    Attributes:
        scores: Metric to case id to score, for the metrics that score queries.
        facts: Fingerprints, versions, commit, seed, times: what makes runs comparable.
        notes: What a reader must know beside the figures.
        judging: What the judge said, None without a judge; `trust`, how far to trust it.
    """

    name: str
    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    observed: Observed
    scores: Mapping[str, Mapping[str, Score]]
    summaries: Sequence[Summary]
    gates: Sequence[Gate]
    validation: ValidationReport
    notes: Sequence[str] = ()
    judging: Judging | None = None
    trust: Trust | None = None

    @property
    def incomplete(self) -> str:
        """Reason why some of the figures are over a part of the queries; empty when none is."""
        changed = self.facts.get("collection_changed")
        unjudged = self.judging.incomplete if self.judging else ""
        return "; ".join(
            filter(None, (f"the collection changed during the run: {changed}" if changed else "", unjudged))
        )

    @property
    def passed(self) -> bool:
        """True if every criterion is met and nothing is missing."""
        return not self.incomplete and all(gate.passed for gate in self.gates)
