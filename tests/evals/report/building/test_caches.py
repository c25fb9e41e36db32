"""The use of caches, counted by hand."""

from collections.abc import Sequence
from dataclasses import replace

from evals.grid.measure import Measured
from evals.judge.ask.budget import Usage
from evals.report.build import caches
from tests.support.candidates import candidates_of
from tests.support.judged import judging
from tests.support.results import RIGHT, result


def run(states: Sequence[str]) -> Measured:
    made = result()
    asked = [replace(RIGHT, candidates=candidates_of(RIGHT.candidates, cache={"embedding": state})) for state in states]
    return replace(made, observed=replace(made.observed, observations=tuple(asked)))


def test_query_vectors_that_were_kept_count_as_hits() -> None:
    entries = caches(run(["hit", "miss", "hit", "hit"]))
    assert entries == {
        "embedding": (3, 4),
        "result": (0, 0),
    }


def test_a_cache_that_is_off_was_not_asked() -> None:
    assert caches(run(["off", "off"]))["embedding"] == (0, 0)


def test_verdicts_that_were_in_the_store_count_against_all_that_were_needed() -> None:
    made = result(judging=replace(judging(verdicts={}), usage=Usage(calls=10, hits=30)))
    assert caches(made)["judge"] == (30, 40)
