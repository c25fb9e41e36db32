"""The judge's verdicts, as records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evals.collect.observations import Failure, Score, Unscored
from evals.judge.ask.budget import Usage

# Chunk ids of a selection in rank order.
Selected = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkVerdict:
    """Verdict on a chunk.

    Attributes:
        verdict: 1 if it was useful for arriving at the reference answer, else 0.
        reason: The judge's reason.
    """

    verdict: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A statement of the reference answer, as the judge sees it.

    Attributes:
        statement: The statement.
        attributed: 1 if what was returned supports it, else 0.
        reason: The judge's reason.
    """

    statement: str
    attributed: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Judging:
    """All that the judge said in a run.

    Attributes:
        model: `provider:name`.
        verdicts: (case id, chunk id) to the verdict on the chunk, or why there is none.
        scores: (metric, case id, selection) to the score of a metric that is asked about whole selections.
        claims: (case id, selection) to the statements of the reference answer.
        drawn: Ids of the queries of the sample that was judged; None where all were.
        usage: Cost of this model, with the second pass.
        again: Verdicts of the second pass on some queries; None without one.
        below: Of a cascade, the cheaper judge's verdicts, whose scores correct the means of these; else None.
    """

    model: str
    verdicts: Mapping[tuple[str, str], ChunkVerdict | Failure | Unscored]
    scores: Mapping[tuple[str, str, Selected], Score]
    claims: Mapping[tuple[str, Selected], tuple[Claim, ...]]
    drawn: frozenset[str] | None = None
    usage: Usage = field(default_factory=Usage)
    again: "Judging | None" = None
    below: "Judging | None" = None

    @property
    def tiers(self) -> "tuple[Judging, ...]":
        """The judges of a cascade, the cheapest first, this one last."""
        return (*(self.below.tiers if self.below else ()), self)

    @property
    def whole_usage(self) -> Usage:
        """Cost of all judges of a cascade together."""
        return Usage.joined([tier.usage for tier in self.tiers])

    def with_more(self, other: "Judging") -> "Judging":
        """Return these verdicts and those of a later round, with the usage of both together, which is the later's."""
        return replace(
            other,
            verdicts={**self.verdicts, **other.verdicts},
            scores={**self.scores, **other.scores},
            claims={**self.claims, **other.claims},
        )

    @property
    def incomplete(self) -> str:
        """Reason why something was not judged, empty when everything was."""
        return self.whole_usage.stopped
