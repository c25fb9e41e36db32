"""The use of caches, counted by hand."""

from collections.abc import Sequence
from dataclasses import replace

from evals.grid.measure import Measured
from evals.judge.budget import Usage
from evals.report.building.run import cache_entries
from evals.report.model.report import CacheEntry
from tests.support.candidates import candidates_of
from tests.support.judged import judging
from tests.support.results import RIGHT, result


def run(states: Sequence[str]) -> Measured:
    made = result()
    asked = [replace(RIGHT, candidates=candidates_of(RIGHT.candidates, cache={"embedding": state})) for state in states]
    return replace(made, observed=replace(made.observed, observations=tuple(asked)))


def test_query_vectors_that_were_kept_count_as_hits() -> None:
    entries = cache_entries(run(["hit", "miss", "hit", "hit"]))
    assert entries == {
        "embedding": CacheEntry(hits=3, lookups=4, rate=0.75),
        "result": CacheEntry(hits=0, lookups=0, rate=None),
    }


def test_a_cache_that_is_off_was_not_asked() -> None:
    assert cache_entries(run(["off", "off"]))["embedding"] == CacheEntry(hits=0, lookups=0, rate=None)


def test_verdicts_that_were_in_the_store_count_against_all_that_were_needed() -> None:
    made = result(judging=replace(judging(verdicts={}), usage=Usage(calls=10, hits=30)))
    assert cache_entries(made)["judge"] == CacheEntry(hits=30, lookups=40, rate=0.75)
