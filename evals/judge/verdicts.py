"""The verdicts of a judge as records, and the average precision that follows from them. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evals.collect.observations import Failure, Score, Unscored
from evals.judge.budget import Usage
from evals.stats.intervals import Floats

# Chunk ids of a selection in rank order.
Selected = tuple[str, ...]
NOT_JUDGED = Unscored(reason="not judged")
# The end of a sentence: a full stop that no small letter follows, or the end of a line.
END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\W_a-z])|\s*\n\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkVerdict:
    """Verdict on a chunk.

    Attributes:
        verdict: 1 if the chunk was useful for arriving at the reference answer, else 0.
        reason: The judge's reason.
    """

    verdict: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A statement of the reference answer, as the judge sees it.

    Attributes:
        statement: The statement.
        attributed: 1 if the returned chunks support the statement, else 0.
        reason: The judge's reason.
    """

    statement: str
    attributed: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Judging:
    """All verdicts of a judge in a run.

    Attributes:
        model: `provider:name`.
        verdicts: (case id, chunk id) to the verdict on the chunk, or why there is none.
        scores: (metric, case id, selection) to the score of a metric that is asked about whole selections.
        claims: (case id, selection) to the statements of the reference answer.
        drawn: Ids of the queries in the judged sample; None if all queries were judged.
        usage: Cost of this model, with the second pass.
        again: Verdicts of the second pass on some queries; None without a second pass.
        below: With `judge.second`, the verdicts of the cheaper judge, which correct the means of this judge; else None.
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
        """The verdicts of the cheaper judge, if there is one, and of this judge."""
        return (self.below, self) if self.below else (self,)

    @property
    def whole_usage(self) -> Usage:
        """Cost of all judges together."""
        return Usage.joined([tier.usage for tier in self.tiers])

    @property
    def incomplete(self) -> str:
        """Reason why not everything was judged; empty if everything was."""
        return self.whole_usage.stopped

    def with_more(self, later: "Judging") -> "Judging":
        """Return the verdicts of this and a later round. The usage of the later round is that of both."""
        names = ("verdicts", "scores", "claims")
        merged: dict[str, Any] = {name: {**getattr(self, name), **getattr(later, name)} for name in names}
        return replace(later, **merged)


def average_precision(verdicts: Floats) -> Floats:
    """Return ragas' average precision of each row of verdicts, 0 to 1 (a perfect one is 1 − 1e-10); 0 for an empty row.

    Σ over ranks k of (useful among the first k / k) · verdict k, divided by (useful chunks + 1e-10). Source: ragas
    0.4.3, `ContextPrecision`.

    Args:
        verdicts: 1 or 0 in rank order, NaN beyond the end of a row; shape (rows, ranks).
    """
    useful = verdicts == 1
    precisions = np.cumsum(useful, axis=1) / np.arange(1, verdicts.shape[1] + 1)
    return np.asarray((precisions * useful).sum(axis=1) / (useful.sum(axis=1) + 1e-10))


def sentences(reference: str) -> list[str]:
    """Split a reference answer into sentences."""
    return [sentence for sentence in END.split(reference.strip()) if sentence]
