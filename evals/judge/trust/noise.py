"""Agreement of a judge with itself, and the share of its noise in a metric's spread. Pure and seeded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.collect.observations import Failure, Score
from evals.judge.trust.agreement import Binary, check_binary
from evals.judge.trust.estimate import (
    NO_INTERVAL,
    Estimate,
    Floats,
    around,
    by_query,
    queries,
    resampled_totals,
    share,
    too_few_queries,
)
from evals.stats import intervals as stats
from evals.stats.intervals import SAME, Interval

# With fewer changed queries a bootstrap cannot estimate the size of changes: its intervals covered 70%.
FEWEST_CHANGED = 5

# Decimals to which scores are rounded before they are compared.
ROUNDED = 9


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


def noise_share(scores: Mapping[str, tuple[Score, Score]], seed: int) -> Estimate:
    """Estimate the share of a metric's variance across queries that is judge noise: 1 − ICC(1,1), 0 to 1.

    One-way random effects with two scores a query (Shrout & Fleiss 1979, case 1): with W the mean square within
    queries and B that between them, a single score has variance (B + W) / 2, of which W is noise: 2W / (B + W), at most
    1. No value when the scores do not vary at all.

    The interval is Student's on log(B / W), whose spread is taken from 9,999 samples of queries: unlike Shrout and
    Fleiss's it does not suppose normal scores. In simulations of 20 to 200 queries it covers 92% to 98% for shares of
    useful chunks; for average precision, where one changed verdict can move a score far, 83% to 97%, the less the rarer
    changes are. Theirs covers as little as 50%.

    Args:
        scores: Query id to its score in the first and the second pass.
        seed: Seed of the resampling.
    """
    pairs = [pair for _, pair in sorted(scores.items())]
    scored = np.array([p for p in pairs if all(isinstance(s, float | int) for s in p)], dtype=float).reshape(-1, 2)
    failed = sum(any(isinstance(score, Failure) for score in pair) for pair in pairs)
    unscored = len(pairs) - len(scored) - failed
    note = _uncomputable(scored)
    return Estimate(
        value=None if note else float(_share(_sums(scored).sum(axis=0))),
        interval=NO_INTERVAL if note else _interval(scored, seed),
        n=len(scored),
        n_queries=len(scored),
        n_unscored=unscored,
        n_failed=failed,
        note=note,
    )


def mean_squares(totals: Floats) -> tuple[Floats, Floats]:
    """Return the mean squares between and within queries of two scores each.

    Args:
        totals: Totals of `_sums`, (…, 4).
    """
    n, within, means, squares = np.moveaxis(totals, -1, 0)
    return 2 * np.maximum(squares - means**2 / n, 0) / (n - 1), within / n


def _sums(scored: Floats) -> Floats:
    """Return the parts of mean squares for each query: 1, the variance within, the mean and its square (queries, 4)."""
    # About the grand mean, so that squares do not cancel.
    means = scored.mean(axis=1) - scored.mean()
    return np.stack([np.ones(len(scored)), (scored[:, 0] - scored[:, 1]) ** 2 / 2, means, means**2], axis=1)


def _share(totals: Floats) -> Floats:
    between, within = mean_squares(totals)
    return np.minimum(1.0, 2 * within / (between + within))


def _uncomputable(scored: Floats) -> str:
    if len(scored) < 2:
        return "no query was scored twice" if not len(scored) else "a single query has no variance across queries"
    return "all scores are equal: there is no variance to divide" if np.ptp(scored) <= SAME else ""


def _interval(scored: Floats, seed: int) -> Interval:
    n = len(scored)
    changed = int((np.abs(scored[:, 0] - scored[:, 1]) > SAME).sum())
    apart = n - int(np.unique(scored.mean(axis=1).round(ROUNDED), return_counts=True)[1].max())
    if n < stats.FEWEST:
        return Interval(note=too_few_queries(n))
    if changed < FEWEST_CHANGED:
        return Interval(note=f"not computable: scores changed in only {queries(changed)}, {FEWEST_CHANGED} are needed")
    if apart < FEWEST_CHANGED:
        return Interval(note=f"not computable: only {queries(apart)} unlike the others, {FEWEST_CHANGED} are needed")
    sums = _sums(scored)
    between, within = mean_squares(resampled_totals(sums, seed))
    # A resample of unchanged queries alone has no ratio.
    defined = (between > SAME**2) & (within > SAME**2)
    # The logarithm makes the ratio of variances nearly normal.
    spread = float(np.log(between[defined] / within[defined]).std())
    first, other = mean_squares(sums.sum(axis=0))
    ends = around(float(np.log(first / other)), spread, n) if first > 0 else None
    if ends is None:
        return Interval(note="not computable: all means over the two passes are equal")
    low, high = (min(1.0, 2 / (1 + np.exp(end))) for end in reversed(ends))
    return Interval(low=float(low), high=float(high))
