"""The order in which queries are judged. Every beginning of it is a random sample. Pure."""

import hashlib
from collections.abc import Collection, Iterable
from math import ceil

from evals.cases.case import Case
from evals.collect.observations import Observation, Unscored
from evals.config.judge import Sample
from evals.stats.best import planned_looks
from evals.stats.intervals import FEWEST

NOT_DRAWN = Unscored(reason="not in the sample that is judged (judge.sample)")
"""Score of a query outside of the random sample. It is not missing: the mean stands for this query as well."""


def judging_order(cases: Iterable[Case], seed: int) -> list[str]:
    """Return the ids of the in-scope cases in random order.

    A beginning of the order is a simple random sample: every set of as many queries is equally likely. The order
    depends on the ids and the seed alone, so that all cells of a grid, and all runs on the same golden data, judge the
    same queries. An added query takes its place among the others and does not move them.

    Args:
        cases: The golden queries; a repeated one counts once.
        seed: Seed of the order.
    """
    return sorted({case.id for case in cases if case.in_scope}, key=lambda case_id: uniform(seed, "case", case_id))


def sample_size(sample: Sample, queries: int) -> int:
    """Return the number of queries to judge: for `auto`, those of the first look; for a share, at least ten.

    Args:
        sample: The setting `judge.sample`.
        queries: Number of all queries.
    """
    if sample == "all":
        return queries
    if sample == "auto":
        return planned_looks(queries)[0]
    # The share 0.1 of 230 must not become 24 by rounding errors. Fewer than ten queries have no interval.
    return min(queries, sample if isinstance(sample, int) else max(FEWEST, ceil(sample * queries - 1e-9)))


def among(case_ids: Collection[str], observations: Iterable[Observation]) -> list[Observation]:
    """Keep the observations whose case is in `case_ids`, in their order."""
    drawn = set(case_ids)
    return [observation for observation in observations if observation.case.id in drawn]


def uniform(seed: int, kind: str, name: str) -> float:
    """Return a pseudo-random number, 0 to below 1, that depends on the arguments alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{kind}\0{name}".encode()).digest()[:8], "big") / 2**64
