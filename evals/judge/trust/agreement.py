"""Agreement of a judge's verdicts with the golden labels, and with its own when asked again. Pure and seeded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evals.collect.observations import Failure
from evals.judge.trust.estimate import Estimate, by_query, share
from evals.judge.trust.kappa import estimate_kappa

Binary = Literal[0, 1]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledVerdict:
    """A judge's verdict on one chunk, and what the golden data says of it.

    Attributes:
        verdict: 1 when the judge finds the chunk useful, or why there is no verdict.
        label: 1 when the chunk is relevant by the golden data.
        reason: The judge's.
    """

    query_id: str
    chunk_id: str
    verdict: Binary | Failure
    label: Binary
    reason: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.verdict, Failure):
            check_binary("verdict", self.verdict, self.query_id, self.chunk_id)
        check_binary("label", self.label, self.query_id, self.chunk_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejudged:
    """Two verdicts on the same chunk; a failure in either leaves nothing to compare."""

    query_id: str
    chunk_id: str
    first: Binary | Failure
    second: Binary | Failure

    def __post_init__(self) -> None:
        for name, verdict in (("first verdict", self.first), ("second verdict", self.second)):
            if not isinstance(verdict, Failure):
                check_binary(name, verdict, self.query_id, self.chunk_id)

    @property
    def failed(self) -> bool:
        """True if either verdict is missing."""
        return isinstance(self.first, Failure) or isinstance(self.second, Failure)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Verdicts against labels.

    Attributes:
        n_queries: Over how many queries; `n_verdicts`, over how many verdicts.
        accuracy: Share of the verdicts that equal the label.
        kappa: Cohen's: agreement beyond chance, −1 to 1.
        false_useful: Share of verdict 1 among label 0.
        false_useless: Share of verdict 0 among label 1.
        disagreements: Differences of verdict and label, the most telling first: the queries with the most, as one
            look may settle those together; within a query chunks labelled 1 first (the quote is there to be read),
            then in the order given.
    """

    n_queries: int
    n_verdicts: int
    accuracy: Estimate
    kappa: Estimate
    false_useful: Estimate
    false_useless: Estimate
    disagreements: tuple[LabelledVerdict, ...]


def check_binary(name: str, value: object, query_id: str, chunk_id: str) -> None:
    """Refuse values other than 0 and 1.

    Raises:
        ValueError: Naming query and chunk.
    """
    if value not in (0, 1):
        raise ValueError(f"query {query_id!r}, chunk {chunk_id!r}: the {name} must be 0 or 1, got {value!r}")


def agree(rows: Sequence[LabelledVerdict], seed: int) -> Agreement:
    """Compare verdicts with labels; every interval resamples queries.

    Args:
        rows: Rows in rank order within a query. A chunk that occurs twice counts once.
        seed: Seed of the resampling.

    Raises:
        ValueError: A chunk is there twice with different verdicts or labels.
    """
    distinct = _once(rows)
    table = by_query((row.query_id for row in distinct), [_cells(row) for row in distinct], columns=6)
    hit, over, missed, rejected, lost_1, lost_0 = table.T
    useful, useless = hit + over, missed + rejected
    nothing = "no verdict on a labelled chunk"
    accuracy = share(hit + rejected, useful + useless, lost_1 + lost_0, seed, empty=nothing)
    return Agreement(
        n_queries=accuracy.n_queries,
        n_verdicts=accuracy.n,
        accuracy=accuracy,
        kappa=estimate_kappa(table[:, :4], table[:, 4:], seed),
        false_useful=share(over, over + rejected, lost_0, seed, empty="no verdict on a chunk labelled 0"),
        false_useless=share(missed, hit + missed, lost_1, seed, empty="no verdict on a chunk labelled 1"),
        disagreements=_disagreements(distinct),
    )


def self_agreement(rows: Sequence[Rejudged], seed: int) -> Estimate:
    """Estimate the share of verdicts that repeat when given again, 0 to 1, with its interval by query.

    Args:
        rows: One for each query and chunk; a repeated one counts once.
        seed: Seed of the resampling.
    """
    # Reversed, so that the first of repeated rows stays.
    distinct = list({(row.query_id, row.chunk_id): row for row in reversed(rows)}.values())
    cells = [
        (float(not row.failed and row.first == row.second), float(not row.failed), float(row.failed))
        for row in distinct
    ]
    same, both, failed = by_query((row.query_id for row in distinct), cells, columns=3).T
    return share(same, both, failed, seed, empty="no chunk was judged twice")


def _once(rows: Sequence[LabelledVerdict]) -> list[LabelledVerdict]:
    rows_by_key: dict[tuple[str, str], LabelledVerdict] = {}
    for row in rows:
        first = rows_by_key.setdefault((row.query_id, row.chunk_id), row)
        if (first.verdict, first.label) != (row.verdict, row.label):
            raise ValueError(
                f"query {row.query_id!r}, chunk {row.chunk_id!r} is there twice: with verdict {first.verdict!r} and "
                f"label {first.label!r}, and with verdict {row.verdict!r} and label {row.label!r}"
            )
    return list(rows_by_key.values())


def _cells(row: LabelledVerdict) -> list[float]:
    """Return the column of a row: verdict and label 1 1, 1 0, 0 1, 0 0; failed with label 1, failed with label 0."""
    column = 5 - row.label if isinstance(row.verdict, Failure) else 3 - 2 * row.verdict - row.label
    return [float(cell) for cell in np.arange(6) == column]


def _disagreements(rows: Sequence[LabelledVerdict]) -> tuple[LabelledVerdict, ...]:
    differing = [row for row in rows if not isinstance(row.verdict, Failure) and row.verdict != row.label]
    counts = Counter(row.query_id for row in differing)
    return tuple(sorted(differing, key=lambda row: (-counts[row.query_id], row.query_id, -row.label)))
