"""The order in which queries are judged, of which every beginning is a random sample. Pure."""

import hashlib
from collections.abc import Collection, Iterable
from math import ceil

from evals.collect.observations import Observation, Unscored
from evals.config.judged_sample import Sample
from evals.golden.case import Case

NOT_DRAWN = Unscored(reason="not in the sample that is judged (judge.sample)")
"""Score of a query that a random draw left out. It is not missing: the mean stands for the query as well."""
# Queries of the first round of `judge.sample: auto`, or a tenth of all where that is more.
FIRST_ROUND = 30


def judging_order(cases: Iterable[Case], seed: int) -> list[str]:
    """Return the ids of the in-scope cases in random order.

    Each query type is spread evenly over the order (systematic sampling from a random start), so that every beginning
    holds its share of each type, and every case is equally likely to be in it. The order depends on the cases and the
    seed alone: all cells of a grid, and all runs on the same golden data, judge the same queries.

    Args:
        cases: The golden queries, a repeated one counted once.
        seed: Seed of the order.
    """
    types: dict[str, list[str]] = {}
    for case in {case.id: case for case in cases if case.in_scope}.values():
        types.setdefault(case.query_type or "", []).append(case.id)
    turns = {case_id: uniform(seed, "case", case_id) for ids in types.values() for case_id in ids}
    places: dict[str, float] = {}
    for query_type, ids in types.items():
        start = uniform(seed, "query type", query_type)
        for rank, case_id in enumerate(sorted(ids, key=turns.__getitem__)):
            places[case_id] = (rank + start) / len(ids)
    return sorted(places, key=lambda case_id: (places[case_id], turns[case_id]))


def sample_size(sample: Sample, queries: int) -> int:
    """Return the number of queries to judge; for `auto`, that of the first round.

    Args:
        sample: The setting.
        queries: Number of queries there are.
    """
    if sample == "all":
        return queries
    if sample == "auto":
        return min(queries, max(FIRST_ROUND, ceil(queries / 10)))
    # A share that is written 0.1 must not become 24 of 230 by rounding errors.
    return min(queries, sample if isinstance(sample, int) else ceil(sample * queries - 1e-9))


def among(case_ids: Collection[str], observations: Iterable[Observation]) -> list[Observation]:
    """Return the observations of these cases, in their order."""
    drawn = set(case_ids)
    return [observation for observation in observations if observation.case.id in drawn]


def uniform(seed: int, kind: str, name: str) -> float:
    """Return a number from 0 to below 1 that looks random and depends on the arguments alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{kind}\0{name}".encode()).digest()[:8], "big") / 2**64
