"""The numbering of chunks within their page, by the ways in which chunkers number."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.collect.observations import Score, Unscored
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric
from evals.metrics.metadata import sequence_faults
from evals.metrics.results import NO_CHUNKS
from retrievers.records import Chunk
from tests.support.observed import make_chunk, observe, results
from tests.support.scored import scored

METRIC = METRICS["metadata/chunk_sequence"]


def numbered(*numbers: tuple[int | None, int | None], page: str = "/docs/a", **fields: Any) -> list[Chunk]:
    return [
        make_chunk(f"{page}{place}", source_url=page, chunk_index=index, total_chunks=total, **fields)
        for place, (index, total) in enumerate(numbers)
    ]


def faults(*chunks: Chunk) -> list[str]:
    return [*sequence_faults(chunks).values()]


@given(st.sets(st.integers(0, 9)), st.sampled_from([0, 1]))
def test_any_part_of_a_whole_sequence_is_valid_from_0_or_from_1(known: set[int], first: int) -> None:
    assert faults(*numbered(*[(index + first, 10) for index in sorted(known)])) == []


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([(0, 2), (2, 2)], ["chunk_index 2, expected 0 to 1"]),
        ([(1, 2), (3, 2), (2, 2)], ["chunk_index 3, expected 1 to 2"]),
        ([(-1, 2)], ["chunk_index -1, expected 0 to 1"]),
        ([(0, 3), (None, 3)], ["no chunk_index"]),
        ([(0, 3), (1, None)], ["no total_chunks"]),
        ([(0, 0)], ["chunk_index 0, expected 0 to -1"]),
        (
            [(0, 3), (1, 3), (1, 3)],
            [
                "chunk_index 1, which chunk '/docs/a2' of the same page has too",
                "chunk_index 1, which chunk '/docs/a1' of the same page has too",
            ],
        ),
        ([(0, 3), (1, 4)], [f"total_chunks {own}, chunks of the same page have 3 and 4" for own in (3, 4)]),
    ],
)
def test_what_is_at_fault(numbers: list[tuple[int | None, int | None]], said: list[str]) -> None:
    assert faults(*numbered(*numbers)) == said


def test_totals_that_no_chunk_has_are_not_missed() -> None:
    assert faults(*numbered((0, None), (7, None))) == []
    assert faults(*numbered((3, None), (3, None))) != []


def test_pages_are_numbered_apart_and_fragments_do_not_part_them() -> None:
    assert faults(*numbered((0, 1)), *numbered((0, 2), page="/docs/b")) == []
    parted = [*numbered((0, 2), page="/docs/a#one"), *numbered((0, 2), page="/docs/a#two")]
    assert len(faults(*parted)) == 2


def test_chunks_of_no_known_page_are_not_compared() -> None:
    chunks = [
        make_chunk(name, source_url=None, chunk_index=0, total_chunks=total) for name, total in (("a", 1), ("b", 2))
    ]
    assert faults(*chunks) == []


def test_a_chunk_found_twice_is_no_twin_of_itself() -> None:
    [chunk] = numbered((0, 1))
    assert faults(chunk, chunk) == []


def of_returned(returned: list[Chunk], candidates: list[Chunk]) -> list[Score]:
    assert isinstance(METRIC, QueryMetric)
    found = observe(results(*returned), candidates=results(*candidates))
    return scored(METRIC.name, [found, found])


def test_the_metric_is_the_share_of_the_returned_chunks_among_all_that_was_found() -> None:
    chunks = numbered((0, 3), (1, 3), (1, 3))
    assert of_returned(chunks[:2], chunks) == [0.5, 0.5]
    assert of_returned(chunks[:2], chunks[:2]) == [1.0, 1.0]
    assert of_returned([], chunks) == [NO_CHUNKS, NO_CHUNKS]


def test_a_collection_without_numbers_is_not_scored() -> None:
    chunks = numbered((None, None), (None, 4))
    assert of_returned(chunks, chunks)[0] == Unscored(reason="no chunk found carries chunk_index")
