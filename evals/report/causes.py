"""Causes: why a query was answered as it was, in two words. Pure."""

from typing import Literal, get_args

from evals.collect.observations import Observation, Outcome
from evals.metrics.outcomes import FIRST, is_cut_by_threshold

# From the best to the worst, in scope first.
Cause = Literal[
    "right",
    "rightly nothing",
    "not labelled",
    "details wrong",
    "ranked too low",
    "cut by the threshold",
    "not a candidate",
    "nothing returned",
    "too few returned",
    "wrongly answered",
]
FAILURES = frozenset(get_args(Cause)) - {"right", "rightly nothing", "not labelled"}


def cause_of(observation: Observation, outcome: Outcome, first_relevant: int | None, top_k: int) -> Cause:
    """Return the cause of a verdict.

    Args:
        observation: The query.
        outcome: The verdict on it.
        first_relevant: Rank of its first relevant candidate, before threshold and cut; None where there is none.
        top_k: Number of chunks asked for.
    """
    in_scope = observation.case.in_scope
    if outcome == "UNLABELLED":
        return "not labelled"
    if outcome == "SUCCESS":
        return "right" if in_scope else "rightly nothing"
    if outcome == "PARTIAL_SUCCESS":
        return "details wrong"
    return _failure(observation, first_relevant, top_k) if in_scope else "wrongly answered"


def _failure(observation: Observation, first_relevant: int | None, top_k: int) -> Cause:
    if not observation.selection:
        return "nothing returned"
    if not observation.relevance.grades.keys().isdisjoint(observation.ranked_ids[:FIRST]):
        return "too few returned"
    if first_relevant is None:
        return "not a candidate"
    return "cut by the threshold" if is_cut_by_threshold(first_relevant, top_k) else "ranked too low"
