"""Skeleton cases spread over the pages and become valid once a query is written."""

from evals.cases.case import Case
from evals.golden.skeletons import skeletons
from retrievers.records import Chunk


def chunk(number: int, page: str | None = None) -> Chunk:
    return Chunk(chunk_id=f"c{number}", point_id=f"p{number}", text=f"text {number}", source_url=page, heading="H")


PAGES = [chunk(n, f"/docs/{n % 3}") for n in range(12)]


def test_every_page_is_sampled_before_any_is_sampled_twice() -> None:
    cases = skeletons(PAGES, 3, 0, seed=1)
    assert {case["evidence"][0]["source_url"] for case in cases} == {"/docs/0", "/docs/1", "/docs/2"}


def test_the_seed_decides() -> None:
    assert skeletons(PAGES, 5, 0, seed=1) == skeletons(list(reversed(PAGES)), 5, 0, seed=1)
    assert skeletons(PAGES, 5, 0, seed=1) != skeletons(PAGES, 5, 0, seed=2)


def test_more_cases_than_chunks_gives_one_for_each_chunk() -> None:
    assert len(skeletons(PAGES, 100, 2, seed=0)) == 14


def test_a_skeleton_with_a_query_is_a_valid_case() -> None:
    for row in skeletons([*PAGES, chunk(99)], 13, 2, seed=0):
        assert Case.model_validate(row | {"query": "what is it?"}).split in ("dev", "test")


def test_chunks_without_an_address_are_quoted_all_the_same() -> None:
    assert skeletons([chunk(1)], 1, 0, seed=0)[0]["evidence"] == [{"heading": "H", "quote": "text 1", "grade": 3}]


def test_code_is_chosen_only_where_there_is_nothing_else() -> None:
    code = Chunk(chunk_id="code", point_id="p", text="```python\nx = f(y[0])\n```", source_url="/docs/9")
    assert [case["evidence"][0]["quote"] for case in skeletons([chunk(1), code], 9, 0, seed=0)] == ["text 1"]
    assert [case["evidence"][0]["quote"] for case in skeletons([code], 9, 0, seed=0)] == ["```python x = f(y[0]) ```"]


def test_chunks_without_text_are_passed_over() -> None:
    assert skeletons([Chunk(chunk_id="c", point_id="p", text="  ")], 1, 0, seed=0) == []
