"""What the judge said, as records."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evals.collect.observations import Failure, Score, Unscored
from evals.judge.ask.budget import Usage

Selected = tuple[str, ...]
"""Chunk ids of a selection in rank order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkVerdict:
    """Whether a chunk was useful for arriving at the reference answer (1 or 0), and the judge's reason."""

    verdict: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A statement of the reference answer, whether the selection supports it (1 or 0), and the judge's reason."""

    statement: str
    attributed: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Bisected:
    """Recall of selections that nobody was asked about, and how far that can be trusted.

    Attributes:
        implied: (case id, selection) to the recall of the shorter and the longer selection that agree on it.
        audited: Some of these, drawn at random and asked all the same: to what was said.
        selections: How many distinct selections there are in all.
    """

    implied: Mapping[tuple[str, Selected], float]
    audited: Mapping[tuple[str, Selected], Score]
    selections: int

    @property
    def saved(self) -> int:
        """Questions that were not asked."""
        return len(self.implied) - len(self.audited)

    @property
    def compared(self) -> list[bool]:
        """Whether what was said differs, for each selection of the audit that has an answer."""
        return [said != self.implied[key] for key, said in self.audited.items() if isinstance(said, float)]


@dataclass(frozen=True, kw_only=True)
class Judging:
    """All that the judge said in a run.

    Attributes:
        model: `provider:name`.
        verdicts: (case id, chunk id) to the verdict on the chunk, or why there is none.
        scores: (metric, case id, selection) to the score of a metric that is asked about whole selections.
        claims: (case id, selection) to the statements of the reference answer.
        supports: (case id, chunk id) to each sentence of the reference answer, and whether that chunk alone supports
            it; or why that is not known. Empty where nobody asks.
        bisected: Which recall was not asked for, under `judge.recall: bisect`; None where all was.
        usage: What it cost, the second pass included.
        again: What the judge said of some queries when asked a second time; None when it was not.
    """

    model: str
    verdicts: Mapping[tuple[str, str], ChunkVerdict | Failure | Unscored]
    scores: Mapping[tuple[str, str, Selected], Score]
    claims: Mapping[tuple[str, Selected], tuple[Claim, ...]]
    supports: Mapping[tuple[str, str], tuple[Claim, ...] | Failure | Unscored] = field(default_factory=dict)
    bisected: Bisected | None = None
    usage: Usage = field(default_factory=Usage)
    again: "Judging | None" = None

    @property
    def incomplete(self) -> str:
        """Why not everything was judged, empty when it was."""
        return self.usage.stopped
