"""Passages for queries: shares of pages and sections, splits, second passages."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from evals.golden.chunks import Passages, page_of, spread
from evals.golden.writing import Draft, drafts, split_pages
from retrievers.records import Chunk


def chunk(page: str, section: str, number: int) -> Chunk:
    text = f"Passage {number} of {section} on page {page} has enough words to be prose."
    name = f"{page}-{section}-{number}"
    return Chunk(chunk_id=name, point_id=name, text=text, source_url=f"/docs/{page}", section_path=section)


# Pages of 40, 20, 10 and 10 chunks, each in two sections, one of which has three times as many as the other.
CHUNKS = [
    chunk(page, "long" if number % 4 else "short", number)
    for page, size in {"a": 40, "b": 20, "c": 10, "d": 10}.items()
    for number in range(size)
]


def drawn(counts: dict[str, int], chunks: Sequence[Chunk] = CHUNKS, start: int = 0) -> list[Draft]:
    passages = Passages(
        chunks=chunks, nearest=lambda text, count: chunks, embed=lambda texts: np.zeros((len(texts), 1)), origin="x"
    )
    return drafts(passages, counts, 0, dict.fromkeys(counts, start))


@pytest.mark.parametrize("seed", range(5))
def test_of_any_number_of_first_chunks_each_page_and_section_has_its_share(seed: int) -> None:
    order = spread(CHUNKS, seed)
    assert sorted(order, key=lambda one: one.chunk_id) == sorted(CHUNKS, key=lambda one: one.chunk_id)
    sizes = Counter(map(page_of, CHUNKS))
    for count in (8, 16, 40):
        taken = Counter(page_of(one) for one in order[:count])
        for page, size in sizes.items():
            assert abs(taken[page] - count * size / len(CHUNKS)) <= 1
    first = [one for one in order if one.source_url == "/docs/a"][:16]
    assert 3 <= sum(one.section_path == "short" for one in first) <= 5


def test_another_seed_takes_other_chunks_and_the_same_seed_the_same() -> None:
    assert spread(CHUNKS, 1) == spread(CHUNKS[::-1], 1) != spread(CHUNKS, 2)


def test_no_page_feeds_both_splits_and_they_are_of_one_size() -> None:
    splits = split_pages(CHUNKS, 0)
    assert Counter(splits[page_of(one)] for one in CHUNKS) == {"dev": 40, "test": 40}
    pages = {
        (one.split, page_of(passage)) for one in drawn({"factual": 60, "comparison": 9}) for passage in one.passages
    }
    assert not {page for split, page in pages if split == "dev"} & {page for split, page in pages if split == "test"}


def test_a_comparison_has_two_sections_of_one_split() -> None:
    for one in drawn({"comparison": 12}):
        first, second = one.passages
        assert (first.source_url, first.section_path) != (second.source_url, second.section_path)


def test_a_comparison_without_a_second_section_has_one_passage() -> None:
    [one] = drawn({"comparison": 1}, [chunk("a", "only", number) for number in range(3)])
    assert len(one.passages) == 1


def test_queries_are_named_by_type_and_take_other_passages_until_none_is_left() -> None:
    made = drawn({"factual": 90, "near_domain": 2})
    assert [one.id for one in made[:2] + made[-2:]] == [
        "factual-001",
        "factual-002",
        "near_domain-001",
        "near_domain-002",
    ]
    turns = Counter(one.turn for one in made if one.type_name == "factual")
    assert turns == {0: 80, 1: 10}


def test_more_queries_of_one_type_leave_the_first_of_all_as_they_are() -> None:
    few, many = drawn({"factual": 5, "keyword": 5}), drawn({"factual": 5, "keyword": 9})
    assert few == [one for one in many if one.id <= "keyword-005"]


def test_a_further_draw_goes_on_where_the_one_before_it_stopped() -> None:
    assert drawn({"factual": 5}) + drawn({"factual": 3}, start=5) == drawn({"factual": 8})


def test_chunks_of_code_are_passed_over_where_others_have_prose() -> None:
    code = Chunk(chunk_id="code", point_id="code", text="```\nimport rclpy\n```", source_url="/docs/a")
    assert all(code not in one.passages for one in drawn({"factual": 90}, [code, *CHUNKS]))
    assert [one.passages for one in drawn({"factual": 1}, [code])] == [(code,)]
